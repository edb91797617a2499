"""The error that ends a command of the pipeline with a message instead of a traceback, and the exit codes."""

from __future__ import annotations

from typing import Final

EXIT_OK: Final = 0
EXIT_FAILURE: Final = 1
"""What was asked for was tried and did not succeed, or a budget is broken."""
EXIT_USAGE: Final = 2
EXIT_UNAVAILABLE: Final = 3
"""Something that the pipeline needs of this machine is missing or wrong: Java, jars, an input."""
EXIT_INTERRUPTED: Final = 130


class PipelineError(Exception):
    """`str(error)` is one sentence that says what is wrong and what to do; `exit_code` that of the process."""

    def __init__(self, sentence: str, exit_code: int = EXIT_FAILURE) -> None:
        super().__init__(sentence)
        self.exit_code = exit_code
