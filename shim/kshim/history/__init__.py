"""Why groups rebalanced: the history's events, kept in memory and written to a topic."""
