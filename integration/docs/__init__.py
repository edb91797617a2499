"""The tutorials for other languages, as they stand there."""
