"""Authorization: what a caller may see and do of each API."""
