"""The members of many groups at once: flat columns of members, of topics, of partitions."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa

from kshim_pipeline.decode.arrays import int32_lists, lists, numbers, structs, texts
from kshim_pipeline.decode.cursor import Buffer, Cursor, Ints, Mask, Slices, read_items
from kshim_pipeline.decode.types import MEMBER, SUBSCRIPTION, TOPIC_PARTITIONS

_LEAST_MEMBER_BYTES: Final = 18
"""Two bytes a string, four a number or bytes, of version 0."""
_LEAST_COMPACT_MEMBER_BYTES: Final = 15
_LEAST_TOPIC_BYTES: Final = 2
_LEAST_TOPIC_PARTITIONS_BYTES: Final = 6


class _Members:
    """Flat columns: one entry a member, the members of a row adjacent."""

    def __init__(self, count: int) -> None:
        self.member_id = Slices.nulls(count)
        self.group_instance_id = Slices.nulls(count)
        self.client_id = Slices.nulls(count)
        self.client_host = Slices.nulls(count)
        self.rebalance_timeout_ms = np.full(count, -1, np.int64)
        self.session_timeout_ms = np.zeros(count, np.int64)
        self.subscription = Slices.nulls(count)
        self.assignment = Slices.nulls(count)

    def read(self, rows: Cursor, where: Ints, version: int) -> None:
        """The next member of each row."""
        is_flexible = version >= 4
        string, data = (Cursor.compact_string,) * 2 if is_flexible else (Cursor.string, Cursor.bytes)
        self.member_id.put(where, string(rows))
        if version >= 3:
            self.group_instance_id.put(where, string(rows, nullable=True))
        self.client_id.put(where, string(rows))
        self.client_host.put(where, string(rows))
        if version >= 1:
            self.rebalance_timeout_ms[where] = rows.int32()
        self.session_timeout_ms[where] = rows.int32()
        self.subscription.put(where, data(rows))
        self.assignment.put(where, data(rows))
        if is_flexible:
            rows.no_tags()


class _TopicPartitions:
    """Flat columns of (topic, partitions) pairs."""

    def __init__(self, count: int) -> None:
        self.topic = Slices.nulls(count)
        self.start = np.zeros(count, np.int64)
        self.count = np.zeros(count, np.int64)

    def read(self, rows: Cursor, where: Ints) -> None:
        """The next pair of each row."""
        self.topic.put(where, rows.string())
        count = rows.count(rows.int32(), 4)
        self.start[where] = rows.at
        self.count[where] = count
        rows.skip(4 * count)

    def array(self, buffer: Buffer, offsets: Ints, is_null: Mask) -> tuple[pa.Array, Mask | None]:
        """Lists of pairs, and which of the pairs' topics are not UTF-8."""
        topics, wrong = texts(buffer, self.topic)
        pairs = {"topic": topics, "partitions": int32_lists(buffer, self.start, self.count)}
        return lists(offsets, structs(TOPIC_PARTITIONS, pairs), is_null), wrong


def read_members(rows: Cursor, version: int, is_consumer: Mask) -> pa.Array:
    """The members of each row as lists; rows that cannot be read this way get `rows.ok` False.

    `is_consumer`: rows whose subscriptions and assignments are those of the consumer protocol.
    """
    is_flexible = version >= 4
    announced = rows.uvarint() - 1 if is_flexible else rows.int32()
    counts = rows.count(announced, _LEAST_COMPACT_MEMBER_BYTES if is_flexible else _LEAST_MEMBER_BYTES)
    members = _Members(int(counts.sum()))

    offsets = read_items(rows, counts, lambda some, where: members.read(some, where, version))
    owner = np.repeat(np.arange(len(rows)), counts)
    wanted = (is_consumer & rows.ok)[owner]
    columns: dict[str, Any] = {
        "rebalance_timeout_ms": numbers(members.rebalance_timeout_ms, pa.int32()),
        "session_timeout_ms": numbers(members.session_timeout_ms, pa.int32()),
    }
    for name in ("member_id", "group_instance_id", "client_id", "client_host"):
        columns[name], wrong = texts(rows.buffer, getattr(members, name))
        _give_up(rows, owner, wrong)
    columns["subscription"] = _subscriptions(rows, owner, members.subscription, wanted)
    columns["assignment"] = _assignments(rows, owner, members.assignment, wanted)
    return lists(offsets, structs(MEMBER, columns))


def _subscriptions(rows: Cursor, owner: Ints, slices: Slices, wanted: Mask) -> pa.Array:
    buffer = rows.buffer
    wanted = wanted & (slices.length > 0)
    members = Cursor(buffer, slices.start, np.where(wanted, slices.start + slices.length, slices.start))
    members.ok &= wanted
    version = _version(members, wanted)
    topic_counts = _counts(members, wanted, _LEAST_TOPIC_BYTES)
    topics = Slices.nulls(int(topic_counts.sum()))
    topic_offsets = read_items(members, topic_counts, lambda some, where: topics.put(where, some.string()))
    _at(members, wanted, lambda some: some.bytes(nullable=True))
    has_owned = wanted & (version >= 1)
    owned_counts = _counts(members, has_owned, _LEAST_TOPIC_PARTITIONS_BYTES)
    owned = _TopicPartitions(int(owned_counts.sum()))
    owned_offsets = read_items(members, owned_counts, owned.read)
    generation = np.full(len(members), -1, np.int64)
    has_generation = wanted & (version >= 2)
    generation[has_generation] = _at(members, has_generation, Cursor.int32)
    rack = Slices.nulls(len(members))
    has_rack = wanted & (version >= 3)
    if has_rack.any():
        rack.put(np.nonzero(has_rack)[0], _at(members, has_rack, lambda some: some.string(nullable=True)))
    _give_up(rows, owner, wanted & ~members.ok)
    topic_texts, wrong_topics = texts(buffer, topics)
    owned_lists, wrong_owned = owned.array(buffer, owned_offsets, ~wanted)
    rack_texts, wrong_racks = texts(buffer, rack)
    _give_up(rows, np.repeat(owner, topic_counts), wrong_topics)
    _give_up(rows, np.repeat(owner, owned_counts), wrong_owned)
    _give_up(rows, owner, wrong_racks)
    columns = {
        "topics": lists(topic_offsets, topic_texts, ~wanted),
        "owned": owned_lists,
        "generation_id": numbers(generation, pa.int32()),
        "rack_id": rack_texts,
    }
    return structs(SUBSCRIPTION, columns, ~wanted)


def _assignments(rows: Cursor, owner: Ints, slices: Slices, wanted: Mask) -> pa.Array:
    wanted = wanted & (slices.length > 0)
    members = Cursor(rows.buffer, slices.start, np.where(wanted, slices.start + slices.length, slices.start))
    members.ok &= wanted
    _version(members, wanted)
    counts = _counts(members, wanted, _LEAST_TOPIC_PARTITIONS_BYTES)
    pairs = _TopicPartitions(int(counts.sum()))
    offsets = read_items(members, counts, pairs.read)
    _at(members, wanted, lambda some: some.bytes(nullable=True))
    _give_up(rows, owner, wanted & ~members.ok)
    found, wrong = pairs.array(rows.buffer, offsets, ~wanted)
    _give_up(rows, np.repeat(owner, counts), wrong)
    return found


def _version(members: Cursor, wanted: Mask) -> Ints:
    version = np.full(len(members), -1, np.int64)
    version[wanted] = _at(members, wanted, Cursor.int16)
    members.ok &= version >= 0
    return version


def _counts(members: Cursor, wanted: Mask, least_bytes: int) -> Ints:
    counts = np.zeros(len(members), np.int64)
    counts[wanted] = _at(members, wanted, lambda some: some.count(some.int32(), least_bytes))
    return counts


def _at(members: Cursor, wanted: Mask, read: Any) -> Any:
    """`read` a field of the members that are `wanted`."""
    taken = members.take(wanted)
    found = read(taken)
    members.put(wanted, taken)
    return found


def _give_up(rows: Cursor, owner: Ints, wrong: Mask | None) -> None:
    """Leave the rows whose members are wrong to `rows.py`."""
    if wrong is not None:
        rows.ok[owner[wrong]] = False
