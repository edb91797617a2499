"""`kshim pipeline demo`: a broker, consumers that get into trouble, and whether the pipeline says what happened."""
