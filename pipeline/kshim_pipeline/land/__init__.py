"""Raw records copied into files before compaction removes them, exactly once even if processes are killed."""
