"""Spark on an S3-compatible storage: the server, the jars that Spark needs for it, and its settings."""
