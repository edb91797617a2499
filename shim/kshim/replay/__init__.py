"""Recordings played again: to a cluster in this process or to a broker, with every answer compared. See `docs/testing/recording.md`."""
