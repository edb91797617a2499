"""Recordings of what a broker was asked and answered: written while it serves. See `docs/testing/recording.md`."""
