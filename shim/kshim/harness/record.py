"""A record as tests write and read it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

Headers = Sequence[tuple[str, bytes | None]] | Mapping[str, bytes | None]


class Record(NamedTuple):
    """One record: as `produce` takes it, and as `records` returns it.

    Text is written in UTF-8, and read as bytes. `value` None is a tombstone. To produce, `partition` None is chosen as Kafka's clients
    do by the key, or in turn without one; `timestamp_ms` (Unix time) is the broker's time unless given; `offset` is not used.
    """

    value: bytes | str | None
    key: bytes | str | None = None
    headers: Headers = ()
    partition: int | None = None
    offset: int = -1
    timestamp_ms: int | None = None
