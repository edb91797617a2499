"""The hash that tells a group of a newer protocol that its topics have changed (KIP-1101). It is in the group's record.

It covers id, name and partitions of each topic, so it changes when a topic is deleted and made again. Source: Utils of
Kafka's group coordinator, which hashes with hash4j; the values are those of a live 4.4.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from struct import pack

from kshim.coordinator.catalog import TopicCatalog
from kshim.coordinator.xxh3 import xxh3_64

NO_TOPICS = 0
"""Of a group whose topics do not exist, or that subscribes to none."""

_VERSION = b"\x00"


def topic_hash(topic_id: bytes, name: str, partition_count: int, rack: str | None = None) -> int:
    """Of one topic, signed. `rack`: where the one replica of each partition is, if that is known."""
    most, least = int.from_bytes(topic_id[:8]), int.from_bytes(topic_id[8:])
    parts = [_VERSION, pack("<2Q", most, least), _text(name), pack("<i", partition_count)]
    of_replica = b""
    if rack is not None:
        text = _text(rack)
        of_replica = text[-4:] + text
    for index in range(partition_count):
        parts += [pack("<i", index), of_replica]
    return _signed(xxh3_64(b"".join(parts)))


def group_hash(hashes: Mapping[str, int]) -> int:
    """Of all topics of a group that exist, from the hash of each by its name; signed."""
    if not hashes:
        return NO_TOPICS
    return _signed(xxh3_64(b"".join(pack("<q", hashes[name]) for name in sorted(hashes))))


class TopicHashes:
    """Hashes of topics, each computed once for each state of the topic. `topics` is asked what exists now; `rack` is the brokers'."""

    def __init__(self, topics: TopicCatalog, rack: str | None = None) -> None:
        self._topics = topics
        self._rack = rack
        self._known: dict[str, tuple[bytes, int, int]] = {}  # id, number of partitions, hash
        self._last: tuple[int, frozenset[str], int] | None = None  # version of all topics, names of a group, hash

    def of_group(self, names: Iterable[str]) -> int:
        """Of a group that subscribes to these; those that do not exist do not count."""
        wanted, version = frozenset(names), self._topics.version
        if self._last is None or self._last[:2] != (version, wanted):
            found = {name: hashed for name in wanted if (hashed := self._of_topic(name)) is not None}
            self._last = version, wanted, group_hash(found)  # members that join a group in a row have the same
        return self._last[2]

    def _of_topic(self, name: str) -> int | None:
        topic_id = self._topics.topic_id(name)
        if topic_id is None:
            self._known.pop(name, None)
            return None
        count = self._topics.partition_count(name) or 0
        known = self._known.get(name)
        if known is None or known[:2] != (topic_id, count):
            known = self._known[name] = topic_id, count, topic_hash(topic_id, name, count, self._rack)
        return known[2]


def _text(text: str) -> bytes:
    """UTF-16 units, then how many."""
    units = text.encode("utf-16-le")
    return units + pack("<i", len(units) // 2)


def _signed(hashed: int) -> int:
    return hashed - (1 << 64) if hashed >> 63 else hashed
