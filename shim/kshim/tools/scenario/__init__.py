"""Scenario transcripts: read, asked, judged. The format is in `docs/design/scenarios.md`."""
