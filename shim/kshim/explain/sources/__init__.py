"""Events, records and log lines to facts, each alone."""
