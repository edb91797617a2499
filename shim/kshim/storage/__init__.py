"""The log of one partition, in memory or in files, and where logs and small documents live."""
