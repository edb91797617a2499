"""Logs as the tools read them: from the folders of a stopped or running broker, or from a broker by Fetch."""

from __future__ import annotations

__all__ = ["NoTopic", "SourceError"]


class SourceError(Exception):
    """A log cannot be had at all; `str(error)` is one sentence."""


class NoTopic(SourceError):
    """There is no such topic: nothing is wrong with the log, and nothing was written yet or in this place."""
