"""`kshim pipeline demo`: a broker, consumers with incidents, and a check of the diagnosis."""
