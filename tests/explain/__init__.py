"""kshim.explain: hand-written facts in, incidents out."""
