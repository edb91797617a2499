"""ACLs: the rules, their storage, and decisions by them."""
