"""`kshim conform-client` with a plain consumer of each client of the matrix."""
