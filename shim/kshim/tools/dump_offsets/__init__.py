"""`kshim dump-offsets`: every record of `__consumer_offsets`, in words or as JSON (docs/dump-offsets.md)."""
