"""Replay that keeps bytes and decodes at the end, held against applying one record after the other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kshim.coordinator.deadlines import Deadlines
from kshim.coordinator.groups.config import GroupConfig
from kshim.coordinator.groups.consumer.group import ConsumerGroup
from kshim.coordinator.groups.consumer.reconciliation import Current
from kshim.coordinator.groups.consumer.updates import (
    GroupEpoch,
    MemberCurrent,
    MemberTarget,
    Update,
    build_update,
    parse_update,
)
from kshim.coordinator.groups.offsets.committed_offsets import CommittedOffset
from kshim.coordinator.groups.replay import Replay
from kshim.coordinator.groups.shard import Shard
from kshim_protocol.codec import codec
from kshim_protocol.frame import ProtocolError
from kshim_protocol.internal.consumer_group import ConsumerGroupMetadataValue
from kshim_protocol.internal.group_metadata import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from kshim_protocol.internal.offset_commit import (
    LegacyOffsetCommitKey,
    LegacyOffsetCommitValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from kshim_protocol.internal.records import (
    UnknownKey,
    build_group_metadata_key,
    build_group_metadata_value,
    build_offset_commit_key,
    build_offset_commit_value,
    build_position,
    parse_key,
    parse_value,
    split_offset_commit_key,
    split_offset_commit_value,
    split_position,
)
from kshim_protocol.records.batch import build_batch, build_key_value_batch, parse_batch_header, set_base_offset
from kshim_protocol.records.compression import Compression
from kshim_protocol.records.control import (
    ControlType,
    EndTransactionMarker,
    build_end_transaction_batch,
    parse_control_record,
)
from kshim_protocol.records.layout import HEADER_BYTES
from kshim_protocol.records.record import Record, iter_records
from tests.coordinator.groups.consumer.members import facts as consumer_group_facts
from tests.coordinator.harness import Topics

GROUPS = ("a", "b", "ü-" * 40)
TOPICS = ("t", "long" * 30)


def replay(shard: Shard, batches: Iterable[bytes]) -> None:
    replaying = Replay(shard)
    for batch in batches:
        for _ in replaying.feed(batch):
            pass
    for _ in replaying.finish():
        pass


def a_shard() -> Shard:
    return Shard(
        0,
        config=GroupConfig(),
        topics=Topics({}),
        new_id=lambda: "id",
        deadlines=Deadlines(),
        homes={},
        is_loading=True,
    )


def one_after_the_other(batches: Iterable[bytes]) -> Shard:
    """Section 5 of Kafka's rules, record by record."""
    shard = a_shard()
    for batch in batches:
        header = parse_batch_header(batch)
        for record in iter_records(batch):
            if header.is_control:
                marker = parse_control_record(record)
                assert marker is not None
                if marker.control_type is ControlType.COMMIT:
                    shard.offsets.commit_transaction(header.producer_id)
                else:
                    shard.offsets.abort_transaction(header.producer_id)
                continue
            apply(shard, record, header.producer_id if header.is_transactional else None)
    return shard


def apply(shard: Shard, record: Record, producer_id: int | None) -> None:
    assert record.key is not None
    update = parse_update(record.key, record.value)
    if update is not None:
        shard.apply_update(*update)
        return
    key = parse_key(record.key)
    if isinstance(key, UnknownKey):
        shard.skipped[key.type] = shard.skipped.get(key.type, 0) + 1
    elif isinstance(key, GroupMetadataKey):
        if record.value is None:
            shard.forget_group(key.group)
        else:
            shard.put_group(key.group, parse_value(key, record.value))
    elif record.value is None:
        shard.forget_offset(key.group, key.topic, key.partition)
    else:
        value: Any = parse_value(key, record.value)
        offset = CommittedOffset.of(
            value.offset,
            getattr(value, "leader_epoch", -1),
            value.metadata,
            value.commit_timestamp,
            record.offset,
            getattr(value, "expire_timestamp", -1),
            getattr(value, "topic_id", bytes(16)),
        )
        if producer_id is None:
            shard.put_offset(key.group, key.topic, key.partition, offset)
        else:
            shard.put_pending_offset(producer_id, key.group, key.topic, key.partition, offset)


def facts(shard: Shard) -> dict[str, Any]:
    """All that replay makes."""
    return {
        "groups": {
            group_id: (
                group.state,
                group.metadata({member.member_id: member.assignment for member in group.members.values()}),
                group.topics,
            )
            for group_id, group in shard.classic_groups.items()
        },
        "new groups": {
            group_id: consumer_group_facts(group)
            for group_id, group in shard.groups.items()
            if isinstance(group, ConsumerGroup)
        },
        "all groups": set(shard.groups),
        "offsets": {group_id: shard.offsets.of_group(group_id) for group_id in shard.offsets.group_ids()},
        "pending": shard.offsets._pending,
        "open": shard.offsets._open,
        "skipped": shard.skipped,
    }


def in_runs(batches: Sequence[bytes], count: int) -> Shard:
    """Fed `count` batches at a time."""
    shard = a_shard()
    replaying = Replay(shard)
    for at in range(0, len(batches), count):
        for _ in replaying.feed(b"".join(batches[at : at + count])):
            pass
    for _ in replaying.finish():
        pass
    return shard


# Histories

names = st.sampled_from(GROUPS)
partitions = st.integers(0, 2)


@st.composite
def offset_pairs(draw: st.DrawFn) -> tuple[bytes, bytes | None]:
    key = build_offset_commit_key(draw(names), draw(st.sampled_from(TOPICS)), draw(partitions))
    if draw(st.integers(0, 3)) == 0:
        return key, None
    offset = draw(st.integers(0, 1 << 40))
    version = draw(st.sampled_from([0, 1, 2, 3, 4, 4, 4]))
    if version == 4:
        value = build_offset_commit_value(
            offset=offset,
            leader_epoch=draw(st.sampled_from([-1, 7])),
            metadata=draw(st.sampled_from(["", "m", "é" * 100])),
            commit_timestamp_ms=draw(st.integers(0, 1 << 41)),
            expire_timestamp_ms=draw(st.sampled_from([-1, -1, 5])),
            topic_id=draw(st.sampled_from([bytes(16), bytes(range(16))])),
        )
    else:
        commit = OffsetCommitValue(offset=offset, metadata="old", commit_timestamp=3)
        value = version.to_bytes(2, "big") + codec(OffsetCommitValue, version).build(commit)
    return key, value


@st.composite
def legacy_pairs(draw: st.DrawFn) -> tuple[bytes, bytes | None]:
    key = LegacyOffsetCommitKey(group=draw(names), topic="t", partition=draw(partitions))
    commit = LegacyOffsetCommitValue(offset=draw(st.integers(0, 99)), metadata="", commit_timestamp=1)
    value = bytes(2) + codec(LegacyOffsetCommitValue, 0).build(commit)
    return bytes(2) + codec(LegacyOffsetCommitKey, 0).build(key), draw(st.sampled_from([value, None]))


@st.composite
def group_pairs(draw: st.DrawFn) -> tuple[bytes, bytes | None]:
    key = build_group_metadata_key(draw(names))
    kind = draw(st.integers(0, 2))
    if kind == 0:
        return key, None
    member = MemberMetadata(
        member_id="m" * draw(st.sampled_from([1, 200])),
        client_id="c",
        client_host="/h",
        rebalance_timeout=-1,
        session_timeout=9,
        subscription=b"",
        assignment=b"x",
    )
    return key, build_group_metadata_value(
        GroupMetadataValue(
            protocol_type="consumer",
            generation=draw(st.integers(0, 9)),
            protocol="range",
            leader=member.member_id if kind == 1 else None,
            members=(member,) if kind == 1 else (),
        )
    )


@st.composite
def unknown_pairs(draw: st.DrawFn) -> tuple[bytes, bytes | None]:
    return draw(st.sampled_from([b"\0\x12\0\1g", b"\0\x09", b"\1\1\0\1a"])), draw(st.sampled_from([None, b"v"]))


@st.composite
def update_pairs(draw: st.DrawFn) -> tuple[bytes, bytes | None]:
    member_id = draw(st.sampled_from(["a", "b"]))
    epoch = draw(st.integers(1, 9))
    updates: list[Update] = [
        GroupEpoch(draw(st.sampled_from([None, ConsumerGroupMetadataValue(epoch=epoch)]))),
        MemberTarget(member_id, draw(st.sampled_from([None, frozenset({(bytes(16), epoch)})]))),
        MemberCurrent(member_id, draw(st.sampled_from([None, Current(epoch, assigned={(bytes(16), epoch): 1})]))),
    ]
    return build_update(draw(names), draw(st.sampled_from(updates)))


pairs = st.one_of(
    offset_pairs(), offset_pairs(), offset_pairs(), group_pairs(), legacy_pairs(), unknown_pairs(), update_pairs()
)


@st.composite
def histories(draw: st.DrawFn) -> list[bytes]:
    """Batches of a log of any kind, with their offsets; some were compacted."""
    batches: list[bytes] = []
    offset = 0
    for _ in range(draw(st.integers(1, 25))):
        kind = draw(st.sampled_from(["plain", "plain", "plain", "records", "transaction", "marker", "empty"]))
        producer_id = draw(st.integers(0, 1))
        few = draw(st.lists(pairs, min_size=1, max_size=4))
        if kind == "plain":
            batch = build_key_value_batch(few, 1_000)
        elif kind == "transaction":
            batch = build_key_value_batch(few, 1_000, producer_id=producer_id, producer_epoch=0, is_transactional=True)
        elif kind == "marker":
            marker = EndTransactionMarker(draw(st.sampled_from(list(ControlType))), 0)
            batch = build_end_transaction_batch(marker, producer_id=producer_id, producer_epoch=0, timestamp_ms=1)
        elif kind == "empty":
            batch = build_batch([], last_offset_delta=draw(st.integers(0, 3)))
        else:
            gap = draw(st.sampled_from([0, 0, 1, 70]))
            headers = draw(st.sampled_from([(), (("h", b"x"),)]))
            batch = build_batch(
                [Record(key, value, headers, 1 << 40, i * (1 + gap) + gap) for i, (key, value) in enumerate(few)],
                compression=draw(st.sampled_from([Compression.NONE, Compression.GZIP])),
                delete_horizon_ms=draw(st.sampled_from([None, 5])),
                last_offset_delta=1_000,
            )
        batches.append(set_base_offset(batch, offset))
        offset = parse_batch_header(batches[-1]).last_offset + 1
    return batches


@settings(max_examples=100, deadline=None)
@given(histories(), st.integers(1, 30))
def test_the_outcome_is_that_of_one_record_after_the_other(batches: list[bytes], count: int) -> None:
    expected = facts(one_after_the_other(batches))
    assert facts(in_runs(batches, count)) == expected
    shard = a_shard()
    replay(shard, batches)
    assert facts(shard) == expected
    shard = a_shard()
    for batch in batches:
        replay(shard, [batch])
    assert facts(shard) == expected


def plain(*pairs: tuple[bytes, bytes | None], offset: int = 0) -> bytes:
    return set_base_offset(build_key_value_batch(pairs, 1_000), offset)


def test_a_classic_record_that_is_ended_again_has_ended_what_the_group_was_before() -> None:
    value = GroupMetadataValue(protocol_type="", generation=0, protocol=None, leader=None, members=())
    key = build_group_metadata_key("g")
    before = plain(build_update("g", MemberCurrent("a", Current(1))))
    batches = [before, plain((key, build_group_metadata_value(value)), offset=1), plain((key, None), offset=2)]
    assert facts(in_runs(batches, 3)) == facts(one_after_the_other(batches)) == facts(a_shard())
    ended_only = [before, plain((key, None), offset=1)]
    assert facts(in_runs(ended_only, 2)) == facts(one_after_the_other(ended_only)) == facts(in_runs([before], 1))


def commit(offset: int) -> bytes:
    return build_offset_commit_value(offset=offset, leader_epoch=-1, metadata="", commit_timestamp_ms=1)


def test_what_is_replaced_later_is_never_decoded() -> None:
    key = build_offset_commit_key("g", "t", 0)
    shard = a_shard()
    replay(shard, [plain((key, b"\0\x63rubbish")), plain((key, commit(5)), offset=1)])
    offset = shard.offsets.get("g", "t", 0)
    assert offset is not None
    assert (offset.offset, offset.record_offset) == (5, 1)


def agree(*records: tuple[bytes, bytes | None]) -> Shard:
    """The shard of a log of these records, each a batch; fed at once or one by one, it is as if each was applied."""
    batches = [plain(record, offset=offset) for offset, record in enumerate(records)]
    shard = in_runs(batches, len(batches))
    assert facts(shard) == facts(in_runs(batches, 1)) == facts(one_after_the_other(batches))
    return shard


OFFSET = build_offset_commit_key("g", "t", 0)
OTHER_KIND = build_update("other", GroupEpoch(ConsumerGroupMetadataValue(epoch=2)))
"""Its kind makes replay put what it has kept so far into the shard."""


def test_a_group_whose_offset_is_gone_again_is_there_until_its_own_tombstone() -> None:
    assert list(agree((OFFSET, commit(5)), (OFFSET, None)).groups) == ["g"]
    ended = (build_group_metadata_key("g"), None)
    assert list(agree((OFFSET, commit(5)), (OFFSET, None), ended).groups) == []
    assert list(agree(ended, (OFFSET, commit(5)), (OFFSET, None)).groups) == ["g"]
    later = agree((OFFSET, commit(5)), (OFFSET, None), OTHER_KIND, ended, OTHER_KIND)
    assert list(later.groups) == ["other"]


def test_a_group_is_there_after_its_own_tombstone_when_any_of_its_offsets_is_newer() -> None:
    ended = (build_group_metadata_key("g"), None)
    newer = build_offset_commit_key("g", "t", 1)
    records = [(OFFSET, commit(5)), ended, (newer, commit(6))]
    assert list(agree(*records, (newer, None), (OFFSET, None)).groups) == ["g"]
    assert list(agree(*records, (OFFSET, None), (newer, None)).groups) == ["g"]


def test_a_group_is_of_the_kind_that_its_last_record_says() -> None:
    value = GroupMetadataValue(protocol_type="", generation=0, protocol=None, leader=None, members=())
    classic = (build_group_metadata_key("g"), build_group_metadata_value(value))
    new = build_update("g", GroupEpoch(ConsumerGroupMetadataValue(epoch=2)))
    assert isinstance(agree(classic, new).groups["g"], ConsumerGroup)
    assert list(agree(new, classic).classic_groups) == ["g"]


def test_tombstones_of_members_make_no_group() -> None:
    gone: list[Update] = [MemberTarget("m", None), MemberCurrent("m", None), GroupEpoch(None)]
    for count in range(len(gone)):
        assert agree(*(build_update("g", update) for update in gone[: count + 1])).groups == {}


def test_values_of_any_length_come_back_whole() -> None:
    for length in range(260):
        value = build_offset_commit_value(offset=length, leader_epoch=-1, metadata="m" * length, commit_timestamp_ms=1)
        found = agree((OFFSET, value)).offsets.get("g", "t", 0)
        assert found is not None
        assert split_position(found.position) == (length, -1, "m" * length)


def test_long_records_of_other_kinds_are_not_taken_for_offsets() -> None:
    """Where a record and its key are long, what tells its kind is further behind than in most batches."""
    group, metadata = "g" * 100, "m" * 9_000
    value = build_offset_commit_value(offset=5, leader_epoch=-1, metadata=metadata, commit_timestamp_ms=1)
    key = build_offset_commit_key(group, "t", 0)
    shard = agree((key, value), (b"\0\x12" + key[2:], value), (b"\0\x09" + key[2:], value))
    assert shard.skipped == {18: 1, 9: 1}
    assert shard.offsets.count(group) == 1


def test_a_record_that_ends_with_its_key_is_an_error() -> None:
    batch = bytearray(plain((OFFSET, b"")))
    assert batch[HEADER_BYTES] == 2 * (
        4 + len(OFFSET) + 2
    )  # attributes, deltas, length of the key; no value, no headers
    batch[HEADER_BYTES] = 2 * (4 + len(OFFSET))
    batch = batch[:-2]
    batch[8:12] = (len(batch) - 12).to_bytes(4, "big")
    with pytest.raises(ProtocolError):
        replay(a_shard(), [bytes(batch) + plain((OFFSET, commit(5)), offset=1)])


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (build_offset_commit_key("g", "t", 0), b"\0\x63rubbish"),
        (build_offset_commit_key("g", "t", 0), b""),
        (build_offset_commit_key("g", "t", 0), commit(5)[:-1]),
        (build_offset_commit_key("g", "t", 0), commit(5) + b"\0"),
        (build_offset_commit_key("g", "t", 0)[:-1], commit(5)),
        (build_offset_commit_key("g", "t", 0) + b"\0", commit(5)),
        (build_offset_commit_key("g", "t", 0)[:-1], None),
        (b"\0\1\0\1\xff\0\1t\0\0\0\0", commit(5)),
        (build_group_metadata_key("g"), b"\0\x09"),
        (build_group_metadata_key("g")[:-1], b"\0\3"),
        (b"\0", commit(5)),
        (b"", b"\1\1\1"),
    ],
)
def test_what_cannot_be_a_record_of_the_topic_is_an_error(key: bytes, value: bytes | None) -> None:
    for batch in (plain((key, value)), plain((key, value), (b"\0\x10", None))):
        with pytest.raises(ProtocolError):
            replay(a_shard(), [batch])


def test_a_record_without_a_key_is_an_error() -> None:
    with pytest.raises(ProtocolError, match="no key"):
        replay(a_shard(), [build_batch([Record(None, b"v", (), 1)])])


def test_a_tombstone_with_headers_is_one() -> None:
    key = build_offset_commit_key("g", "t", 0)
    shard = a_shard()
    tombstone = build_batch([Record(key, None, (("why", b"x" * 30),), 1_000)], base_offset=1)
    replay(shard, [plain((key, commit(5))), tombstone])
    assert shard.offsets.get("g", "t", 0) is None


def test_slices_are_short_however_long_the_batches_are() -> None:
    shard = a_shard()
    replaying = Replay(shard)
    pairs = [(build_offset_commit_key("g", "t", i), commit(i)) for i in range(5_000)]
    large, single = plain(*pairs), b"".join(plain(pair, offset=i) for i, pair in enumerate(pairs))
    assert len(list(replaying.feed(large))) >= 9
    assert len(list(replaying.feed(single))) >= len(single) // (1 << 17)
    assert len(list(replaying.finish())) >= 9
    assert shard.offsets.count("g") == 5_000


@settings(max_examples=150, deadline=None)
@given(offset_pairs())
def test_a_quick_look_at_a_commit_finds_what_the_codec_finds(pair: tuple[bytes, bytes | None]) -> None:
    key, value = pair
    parsed = parse_key(key)
    assert isinstance(parsed, OffsetCommitKey)
    group, topic, partition = split_offset_commit_key(key)
    assert (group.decode(), topic.decode(), partition) == (parsed.group, parsed.topic, parsed.partition)
    if value is not None:
        found = parse_value(parsed, value)
        assert split_offset_commit_value(value) == (
            build_position(found.offset, found.leader_epoch, found.metadata),
            found.commit_timestamp,
            found.expire_timestamp,
            found.topic_id,
        )
