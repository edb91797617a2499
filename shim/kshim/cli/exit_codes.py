"""Exit codes of every command, and the error that ends one with a sentence."""

from __future__ import annotations

from typing import Final

EXIT_OK: Final = 0
EXIT_FAILURE: Final = 1
"""What was asked for was tried and did not succeed."""
EXIT_USAGE: Final = 2
"""A bad option or a bad configuration value; nothing was started."""
EXIT_UNAVAILABLE: Final = 3
"""The address cannot be bound, or the data directory is locked, damaged or cannot be used."""
EXIT_INTERRUPTED: Final = 130
"""Ctrl-C, as shells count it (128 + SIGINT)."""


class CommandError(Exception):
    """Ends a command: `str(error)` is one sentence for stderr, `exit_code` the code of the process."""

    def __init__(self, sentence: str, exit_code: int) -> None:
        super().__init__(sentence)
        self.exit_code = exit_code
