"""`kshim top`: the groups of a cluster, those with something wrong first (docs/why.md)."""
