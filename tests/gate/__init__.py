"""What the Makefile runs besides pytest, mypy and ruff: development tooling, in no wheel."""
