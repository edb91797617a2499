"""What the log of the offsets topic must say: kept from requests and from the bytes written, not from the coordinator.

Each batch is judged before it is written: does anything that happened justify it? The coordinator's memory, and what a
fresh coordinator reads back, are compared with what stands here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from kshim.coordinator.groups.classic.group import Group
from kshim.coordinator.groups.classic.state import GroupState
from kshim.coordinator.groups.shard import Shard
from kshim.coordinator.step import Now
from kshim_protocol.internal.group_metadata import GroupMetadataKey, GroupMetadataValue
from kshim_protocol.internal.records import UnknownKey, parse_key, parse_value, split_position
from kshim_protocol.records.record import iter_records
from kshim_protocol.schema import ZERO_UUID
from tests.simulation.assignors import owned_in
from tests.simulation.violation import Violation, require

OffsetKey = tuple[str, str, int]
"""(group, topic, partition)."""


class Entry(NamedTuple):
    """One committed offset as it must be found again."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int
    topic_id: bytes


class Cause(NamedTuple):
    """What is going on while a batch is written. `commits`: what the request at hand wants committed."""

    verb: str
    groups: frozenset[str] = frozenset()
    commits: Mapping[OffsetKey, Entry] = {}
    topics: frozenset[str] = frozenset()
    partitions: frozenset[tuple[str, int]] = frozenset()


def decode(batch: bytes) -> Iterator[tuple[Any, Any]]:
    """Keys and values of a batch; None for tombstones."""
    for record in iter_records(batch):
        assert record.key is not None
        key = parse_key(record.key)
        assert not isinstance(key, UnknownKey)
        yield key, None if record.value is None else parse_value(key, record.value)


class Ledger:
    """Groups and offsets as the log has them. `known`: groups that exist, with or without a record of their own."""

    def __init__(self, retention_ms: int) -> None:
        self.offsets: dict[OffsetKey, Entry] = {}
        self.groups: dict[str, GroupMetadataValue] = {}
        self.known: set[str] = set()
        self._retention_ms = retention_ms

    # Before writing

    def judge(self, records: Iterable[tuple[Any, Any]], cause: Cause, shard: Shard | None, now: Now) -> None:
        """Whether the batch is justified by what is going on. The coordinator has not seen it written yet."""
        for key, value in records:
            if isinstance(key, GroupMetadataKey):
                if value is None:
                    self._judge_group_tombstone(key.group, cause, shard)
                else:
                    self._judge_group(key.group, value)
            elif value is None:
                self._judge_tombstone((key.group, key.topic, key.partition), cause, shard, now)
            else:
                self._judge_offset((key.group, key.topic, key.partition), value, cause)

    def _judge_offset(self, key: OffsetKey, value: Any, cause: Cause) -> None:
        require(cause.verb == "commit", "record-unasked", f"{cause.verb} writes an offset for {key}")
        wanted = cause.commits.get(key)
        if wanted is None:
            raise Violation("record-unasked", f"nobody commits {key}")
        written = _entry_of(value)
        if written != wanted:
            raise Violation("commit-changed", f"{key}: asked {wanted}, written {written}")

    def _judge_group(self, group_id: str, value: GroupMetadataValue) -> None:
        before = self.groups.get(group_id)
        if before is not None:
            require(
                value.generation >= before.generation,
                "generation-falls",
                f"{group_id}: record of generation {value.generation} after {before.generation}",
            )
        ids = [member.member_id for member in value.members]
        require(len(ids) == len(set(ids)), "member-twice", f"{group_id}: {ids}")
        if ids:
            require(value.leader in ids, "leader-no-member", f"{group_id}: {value.leader} leads {ids} in the record")
        else:
            require(value.leader is None, "leader-no-member", f"{group_id}: {value.leader} leads nobody in the record")
        owners: dict[tuple[str, int], str] = {}
        for member in value.members:
            for partition in owned_in(member.assignment):
                other = owners.setdefault(partition, member.member_id)
                if other != member.member_id:
                    text = f"{group_id} generation {value.generation}: {partition} for {other} and {member.member_id}"
                    raise Violation("partition-twice", text)

    def _judge_group_tombstone(self, group_id: str, cause: Cause, shard: Shard | None) -> None:
        require(cause.verb in ("delete", "time"), "group-lost", f"{cause.verb} removes group {group_id}")
        if cause.verb == "delete":
            require(group_id in cause.groups, "group-lost", f"nobody deletes {group_id}")
        group = None if shard is None else shard.classic_groups.get(group_id)
        require(group is not None and not group.members, "group-lost", f"{group_id} is removed with members in it")

    def _judge_tombstone(self, key: OffsetKey, cause: Cause, shard: Shard | None, now: Now) -> None:
        entry = self.offsets.get(key)
        if entry is None or shard is None:
            raise Violation("tombstone-of-nothing", f"{cause.verb}: no offset for {key}")
        match cause.verb:
            case "delete":
                is_asked = key[0] in cause.groups
            case "offset-delete":
                is_asked = key[0] in cause.groups and key[1:] in cause.partitions
            case "delete-topic":
                is_asked = key[1] in cause.topics
            case "time":
                is_asked = self._has_expired(key[1], entry, shard.classic_groups[key[0]], now)
            case _:
                is_asked = False
        if not is_asked:
            raise Violation("commit-lost", f"{cause.verb} removes {key}: {entry} at {now.wall_ms}")

    def _has_expired(self, topic: str, entry: Entry, group: Group, now: Now) -> bool:
        """Whether retention may take an offset: never one that a member reads, never before its time."""
        if group.members:
            is_read = group.state is not GroupState.STABLE or group.topics is None or topic in group.topics
            if is_read:
                return False
        if entry.expire_timestamp_ms != -1:
            return now.wall_ms >= entry.expire_timestamp_ms
        base_ms = entry.commit_timestamp_ms
        if group.protocol_type is not None and not group.members and group.state_changed_ms != -1:
            base_ms = group.state_changed_ms
        return now.wall_ms - base_ms >= self._retention_ms

    # Once it is in the log

    def write(self, records: Iterable[tuple[Any, Any]]) -> None:
        """The batch is in the log."""
        for key, value in records:
            if isinstance(key, GroupMetadataKey):
                self._write_group(key.group, value)
            elif value is None:
                self.offsets.pop((key.group, key.topic, key.partition), None)
            else:
                self.offsets[key.group, key.topic, key.partition] = _entry_of(value)
                self.known.add(key.group)

    def _write_group(self, group_id: str, value: GroupMetadataValue | None) -> None:
        if value is not None:
            self.groups[group_id] = value
            self.known.add(group_id)
            return
        self.groups.pop(group_id, None)
        self.known.discard(group_id)
        left = [key for key in self.offsets if key[0] == group_id]
        if left:
            raise Violation("offsets-left-behind", f"{group_id} is gone, not so {left}")

    # Comparing

    def compare(self, shard: Shard, *, is_replayed: bool, diverged: set[str], owns: frozenset[str]) -> None:
        """Whether a shard says what the log says. `owns`: the group ids that live in it.

        A live group in the middle of a rebalance, or Empty after a failed append (`diverged`), is ahead of the log.
        """
        rule = "replay-differs" if is_replayed else "memory-differs"
        expected = {group_id for group_id in self.known if group_id in owns}
        require(set(shard.groups) == expected, rule, f"groups {sorted(shard.groups)}, the log has {sorted(expected)}")
        for group_id, group in shard.classic_groups.items():
            value = self.groups.get(group_id)
            if is_replayed:
                _compare_replayed(group, value)
            elif group.state is GroupState.STABLE or (group.state is GroupState.EMPTY and group_id not in diverged):
                _compare_live(group, value)
            self._compare_offsets(shard, group_id, rule)

    def _compare_offsets(self, shard: Shard, group_id: str, rule: str) -> None:
        found = {
            (group_id, topic, partition): Entry(*split_position(committed.position), *committed.commit)
            for topic, partitions in shard.offsets.of_group(group_id).items()
            for partition, committed in partitions.items()
        }
        expected = {key: entry for key, entry in self.offsets.items() if key[0] == group_id}
        if found != expected:
            raise Violation(f"{rule}-offsets", f"{group_id}: {found}, the log has {expected}")


def _entry_of(value: Any) -> Entry:
    """An offset value as an entry; values of version 1 have an expire time and neither epoch nor topic id."""
    return Entry(
        value.offset,
        value.leader_epoch,
        value.metadata,
        value.commit_timestamp,
        value.expire_timestamp,
        value.topic_id or ZERO_UUID,
    )


def _compare_replayed(group: Group, value: GroupMetadataValue | None) -> None:
    """A replayed group is what its record says, static members included."""
    rule = "replay-differs"
    if value is None:
        facts = (group.state, group.generation_id, group.protocol_type, len(group.members))
        require(facts == (GroupState.EMPTY, 0, None, 0), rule, f"{group.group_id} has no record: {facts}")
        return
    again = group.metadata({member.member_id: member.assignment for member in group.members.values()})
    if again != value:
        raise Violation(rule, f"{group.group_id}: {again}, the log has {value}")
    instances = {m.group_instance_id: m.member_id for m in value.members if m.group_instance_id is not None}
    require(group.static_members == instances, rule, f"{group.group_id}: static members {group.static_members}")
    state = GroupState.STABLE if value.members else GroupState.EMPTY
    require(group.state is state, rule, f"{group.group_id}: {group.state}, the log says {state}")


def _compare_live(group: Group, value: GroupMetadataValue | None) -> None:
    """A settled group has everything in the log but the time when it became Stable."""
    rule = "memory-differs"
    if value is None:
        require(not group.members, rule, f"{group.group_id} has members and no record")
        return
    facts = (group.generation_id, group.protocol_name, group.leader_id, group.protocol_type or "")
    written = (value.generation, value.protocol, value.leader, value.protocol_type)
    require(facts == written, rule, f"{group.group_id}: {facts}, the log has {written}")
    if group.state is GroupState.EMPTY:
        require(
            group.state_changed_ms in (value.current_state_timestamp, -1),
            rule,
            f"{group.group_id}: Empty since {group.state_changed_ms}, the log says {value.current_state_timestamp}",
        )
    members = [group.member_metadata(member, member.assignment) for member in group.members.values()]
    if members != list(value.members):
        raise Violation(rule, f"{group.group_id}: {members}, the log has {list(value.members)}")
