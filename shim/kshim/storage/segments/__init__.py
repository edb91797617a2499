"""The segments that a log's files are made of: data, indexes, syncs, replacement."""
