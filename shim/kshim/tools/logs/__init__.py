"""Logs as the tools read them: from the folders of a stopped or running broker, or from a broker by Fetch."""

from __future__ import annotations

__all__ = ["NoTopic", "SourceError"]


class SourceError(Exception):
    """A log cannot be had at all; `str(error)` is one sentence."""


class NoTopic(SourceError):
    """A running broker has no such topic."""
