"""Recordings of what a broker was asked and answered: written while it serves, replayed, compared. See `docs/testing/recording.md`."""
