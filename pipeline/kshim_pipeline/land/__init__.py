"""Raw records copied into files before compaction erases them, each exactly once whatever is killed meanwhile."""
