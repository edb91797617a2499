"""What outlives a restart of a topic besides its records."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["TopicSpec"]


class TopicSpec(NamedTuple):
    """A topic's identity and settings. `topic_id` has 16 bytes; `configs` holds only what was set for this topic."""

    name: str
    topic_id: bytes
    partition_count: int
    configs: dict[str, str]
