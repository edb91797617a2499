"""All types of records of `__consumer_offsets`: Kafka's own bytes, its list of types, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from kshim_protocol.codec import codec
from kshim_protocol.frame import BuildError, ProtocolError
from kshim_protocol.internal.consumer_group import ConsumerGroupMemberMetadataValue
from kshim_protocol.internal.record_types import (
    RECORD_TYPES,
    build_key_of_texts,
    build_versioned_value,
    parse_typed_key,
    parse_versioned_value,
)
from kshim_protocol.internal.versioned import UnknownValueVersion
from tests.protocol import golden

RECORDS = [record for record in golden.load("consumer_offsets.json")["records"] if record["recordType"] != "control"]
over_records = pytest.mark.parametrize("record", RECORDS, ids=[record["case"] for record in RECORDS])


@over_records
def test_kafkas_key_is_read_and_built_again(record: dict[str, Any]) -> None:
    data = bytes.fromhex(record["keyHex"])
    number, key = parse_typed_key(data)
    assert RECORD_TYPES[number].name == record["recordType"]
    assert key is not None
    assert golden.as_decoded(key, record["key"]) == record["key"]
    assert number.to_bytes(2) + codec(type(key), 0).build(key) == data


@over_records
def test_kafkas_value_is_read_and_built_again(record: dict[str, Any]) -> None:
    if record["valueHex"] is None:
        return  # a tombstone has a key only
    data = bytes.fromhex(record["valueHex"])
    version, value = parse_versioned_value(RECORD_TYPES[record["keyVersion"]], data)
    assert version == record["valueVersion"]
    assert golden.as_decoded(value, record["value"]) == record["value"]
    assert version.to_bytes(2) + codec(type(value), version).build(value) == data


NEW_PROTOCOL = [record for record in RECORDS if record["recordType"].startswith("ConsumerGroup")]


def test_kafkas_bytes_cover_every_type_of_the_new_protocol() -> None:
    assert {record["keyVersion"] for record in NEW_PROTOCOL} == {3, 4, 5, 6, 7, 8, 16}


@pytest.mark.parametrize("record", NEW_PROTOCOL, ids=[record["case"] for record in NEW_PROTOCOL])
def test_a_record_of_the_new_protocol_is_built_with_its_version_in_front(record: dict[str, Any]) -> None:
    type_ = RECORD_TYPES[record["keyVersion"]]
    data = bytes.fromhex(record["keyHex"])
    key = parse_typed_key(data)[1]
    assert build_key_of_texts(type_, *(getattr(key, row) for row in type_.key_rows)) == data
    if record["valueHex"] is not None:
        data = bytes.fromhex(record["valueHex"])
        assert build_versioned_value(parse_versioned_value(type_, data)[1]) == data


def test_a_key_needs_all_its_texts() -> None:
    with pytest.raises(ValueError, match="2 texts, not 1"):
        build_key_of_texts(RECORD_TYPES[5], "group")


@pytest.mark.parametrize("text", ["x" * 32_768, "\ud800"])
def test_a_text_that_is_too_long_or_no_unicode_is_no_part_of_a_key(text: str) -> None:
    with pytest.raises(BuildError, match="ConsumerGroupMemberMetadataKey"):
        build_key_of_texts(RECORD_TYPES[5], "group", text)


def test_a_null_struct_in_a_tag_is_told_by_a_zero_not_by_a_minus_one() -> None:
    record = next(record for record in RECORDS if record["case"] == "ConsumerGroupMemberMetadata")
    data = bytes.fromhex(record["valueHex"])
    assert data.endswith(b"\x01\x00\x01\x00"), "one tag, tag 0, one byte, null"
    _, value = parse_versioned_value(RECORD_TYPES[5], data)
    assert isinstance(value, ConsumerGroupMemberMetadataValue)
    assert value.classic_member_metadata is None


@pytest.mark.java
def test_the_types_are_those_of_kafkas_enum(jvm: Any) -> None:
    types = jvm.classes.org.apache.kafka.coordinator.group.generated.CoordinatorRecordType.values()
    kafkas = {int(type_.id()): (str(type_.name()), int(type_.highestSupportedVersion())) for type_ in types}
    ours = {number: upper_case(type_.name) for number, type_ in RECORD_TYPES.items()}
    assert {number: name for number, (name, _) in kafkas.items()} == ours


def upper_case(name: str) -> str:
    return "".join(f"_{letter}" if letter.isupper() else letter.upper() for letter in name).lstrip("_")


@pytest.mark.parametrize("number", [9, 18, 24, -1])
def test_a_type_that_is_not_in_use_has_no_key(number: int) -> None:
    assert parse_typed_key(number.to_bytes(2, signed=True) + b"whatever") == (number, None)


@pytest.mark.parametrize("number", RECORD_TYPES)
def test_an_unknown_version_of_a_value_is_told_from_damage(number: int) -> None:
    with pytest.raises(UnknownValueVersion, match="unknown version 99") as raised:
        parse_versioned_value(RECORD_TYPES[number], (99).to_bytes(2) + b"whatever")
    assert raised.value.version == 99


def test_bytes_left_over_are_an_error() -> None:
    with pytest.raises(ProtocolError, match="ConsumerGroupMetadataKey v0: end at byte 5: 1 bytes left over"):
        parse_typed_key(b"\0\3\0\1g\0")
    with pytest.raises(ProtocolError, match="hold no version"):
        parse_typed_key(b"\0")
    with pytest.raises(ProtocolError, match="ConsumerGroupMetadataValue"):
        parse_versioned_value(RECORD_TYPES[3], b"\0\0\0\0\0\1\0!")
