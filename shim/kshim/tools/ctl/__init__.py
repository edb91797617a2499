"""`kshim ctl`: speaks to the HTTP interface of a running `kshim serve --control`, with the standard library only."""
