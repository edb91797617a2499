"""Records of `__consumer_offsets`: Kafka's own bytes, our fast builders, what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kshim_protocol.codec import codec
from kshim_protocol.frame import BuildError, ProtocolError
from kshim_protocol.internal.group_metadata import GroupMetadataKey, GroupMetadataValue
from kshim_protocol.internal.offset_commit import LegacyOffsetCommitKey, OffsetCommitKey, OffsetCommitValue
from kshim_protocol.internal.records import (
    UnknownKey,
    build_group_metadata_key,
    build_group_metadata_value,
    build_offset_commit_key,
    build_offset_commit_value,
    parse_key,
    parse_value,
)
from kshim_protocol.schema import ZERO_UUID
from tests.protocol import golden
from tests.protocol.strategies import integers, messages

RECORDS = [record for record in golden.load("consumer_offsets.json")["records"] if record["recordType"] != "control"]
OURS = [record for record in RECORDS if record["keyVersion"] <= 2]
OTHERS = [record for record in RECORDS if record["keyVersion"] > 2]
KEY = OffsetCommitKey(group="g", topic="t", partition=1)
VALUE = build_offset_commit_value(offset=5, leader_epoch=2, metadata="m", commit_timestamp_ms=1_000)


def names(records: list[dict[str, Any]]) -> list[str]:
    return [record["case"] for record in records]


@pytest.mark.parametrize("record", OURS, ids=names(OURS))
def test_kafkas_key_is_read_and_built_again(record: dict[str, Any]) -> None:
    data = bytes.fromhex(record["keyHex"])
    key = parse_key(data)
    assert golden.as_decoded(key, record["key"]) == record["key"]
    match key:
        case OffsetCommitKey():
            assert build_offset_commit_key(key.group, key.topic, key.partition) == data
        case GroupMetadataKey():
            assert build_group_metadata_key(key.group) == data
        case _:
            pytest.fail(f"{key} in a log of 4.4")


@pytest.mark.parametrize("record", OURS, ids=names(OURS))
def test_kafkas_value_is_read_and_built_again(record: dict[str, Any]) -> None:
    if record["valueHex"] is None:
        return  # a tombstone has a key only
    data = bytes.fromhex(record["valueHex"])
    key = parse_key(bytes.fromhex(record["keyHex"]))
    assert not isinstance(key, UnknownKey)
    value: Any = parse_value(key, data)
    assert golden.as_decoded(value, record["value"]) == record["value"]
    if isinstance(value, GroupMetadataValue):
        assert build_group_metadata_value(value) == data
    else:
        assert built(value) == data


@pytest.mark.parametrize("record", OTHERS, ids=names(OTHERS))
def test_keys_of_other_groups_are_told_by_type(record: dict[str, Any]) -> None:
    assert parse_key(bytes.fromhex(record["keyHex"])) == UnknownKey(record["keyVersion"])


def built(value: OffsetCommitValue) -> bytes:
    return build_offset_commit_value(
        offset=value.offset,
        leader_epoch=value.leader_epoch,
        metadata=value.metadata,
        commit_timestamp_ms=value.commit_timestamp,
        expire_timestamp_ms=value.expire_timestamp,
        topic_id=value.topic_id,
    )


@given(messages(OffsetCommitKey, 0))
def test_the_fast_key_builder_equals_the_codec(key: OffsetCommitKey) -> None:
    data = build_offset_commit_key(key.group, key.topic, key.partition)
    assert data == b"\0\x01" + codec(OffsetCommitKey, 0).build(key)
    assert parse_key(data) == key


@given(messages(OffsetCommitValue, 4))
def test_the_fast_value_builder_equals_the_codec(value: OffsetCommitValue) -> None:
    data = built(value)
    assert data == b"\0\x04" + codec(OffsetCommitValue, 4).build(value)
    assert parse_value(KEY, data) == value


@given(messages(OffsetCommitValue, 1).filter(lambda value: value.expire_timestamp != -1))
def test_an_expire_timestamp_makes_version_1(value: OffsetCommitValue) -> None:
    data = built(value)
    assert data == b"\0\x01" + codec(OffsetCommitValue, 1).build(value)
    assert parse_value(KEY, data) == value


@given(messages(GroupMetadataKey, 0), messages(GroupMetadataValue, 3))
def test_a_group_is_read_as_it_was_written(key: GroupMetadataKey, value: GroupMetadataValue) -> None:
    assert parse_key(build_group_metadata_key(key.group)) == key
    assert parse_value(key, build_group_metadata_value(value)) == value


@pytest.mark.parametrize("version", range(5))
@given(st.data())
def test_every_version_of_a_value_is_read(version: int, data: st.DataObject) -> None:
    group = data.draw(messages(GroupMetadataValue, version))
    offset = data.draw(messages(OffsetCommitValue, version))
    prefix = version.to_bytes(2)
    assert parse_value(GroupMetadataKey(group="g"), prefix + codec(GroupMetadataValue, version).build(group)) == group
    assert parse_value(KEY, prefix + codec(OffsetCommitValue, version).build(offset)) == offset


def test_the_oldest_key_type_is_still_read() -> None:
    assert parse_key(b"\0\0\0\x01g\0\x01t\0\0\0\x07") == LegacyOffsetCommitKey(group="g", topic="t", partition=7)
    value = parse_value(LegacyOffsetCommitKey(group="g", topic="t", partition=7), bytes(10) + b"\0\x01m" + bytes(8))
    assert (value.offset, value.metadata, value.commit_timestamp) == (0, "m", 0)


def test_an_unknown_version_of_a_value_is_an_error() -> None:
    with pytest.raises(ProtocolError, match="OffsetCommitValue v5: version at byte 0: unknown version 5"):
        parse_value(KEY, b"\0\x05" + VALUE[2:])
    with pytest.raises(ProtocolError, match="unknown version -1"):
        parse_value(KEY, b"\xff\xff" + VALUE[2:])


def test_bytes_left_over_are_an_error() -> None:
    with pytest.raises(ProtocolError, match="OffsetCommitValue v4: end at byte 25: 1 bytes left over"):
        parse_value(KEY, VALUE + b"\0")
    with pytest.raises(ProtocolError, match="1 bytes left over"):
        parse_key(build_group_metadata_key("g") + b"\0")


@given(st.sampled_from([VALUE, build_offset_commit_key("group", "topic", 3)]), st.data())
def test_cut_records_raise_a_protocol_error(record: bytes, data: st.DataObject) -> None:
    cut = record[: data.draw(st.integers(0, len(record) - 1))]
    with pytest.raises(ProtocolError):
        _ = parse_value(KEY, cut) if record is VALUE else parse_key(cut)


@given(integers(32), integers(64))
def test_version_1_has_no_room_for_leader_epoch_and_topic_id(leader_epoch: int, offset: int) -> None:
    data = build_offset_commit_value(
        offset=offset,
        leader_epoch=leader_epoch,
        metadata="",
        commit_timestamp_ms=1,
        expire_timestamp_ms=2,
        topic_id=b"t" * 16,
    )
    value = parse_value(KEY, data)
    assert (value.offset, value.leader_epoch, value.topic_id) == (offset, -1, ZERO_UUID)


def test_values_that_do_not_fit_raise_a_build_error() -> None:
    with pytest.raises(BuildError, match="OffsetCommitKey"):
        build_offset_commit_key("g" * 40_000, "t", 0)
    with pytest.raises(BuildError, match="GroupMetadataKey"):
        build_group_metadata_key("g" * 40_000)
    with pytest.raises(BuildError, match="OffsetCommitValue"):
        build_offset_commit_value(offset=1 << 63, leader_epoch=0, metadata="", commit_timestamp_ms=0)
