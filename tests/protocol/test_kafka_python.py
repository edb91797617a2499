"""Random messages agree with the codecs of kafka-python 3.0.12 in both directions, value by value and byte by byte."""

from __future__ import annotations

import uuid
from typing import Any

import kafka.protocol.admin
import kafka.protocol.consumer
import kafka.protocol.metadata
import kafka.protocol.producer
import kafka.protocol.sasl
import pytest
from hypothesis import HealthCheck, given, settings

from kshim_protocol.codec import codec
from kshim_protocol.schema import Row, Struct, row_is_in
from kshim_protocol.shape import default_of
from tests.protocol.catalogue import API_MESSAGES, CONSUMER_PROTOCOL, each_version
from tests.protocol.strategies import messages

PACKAGES = (
    kafka.protocol.admin,
    kafka.protocol.consumer,
    kafka.protocol.metadata,
    kafka.protocol.producer,
    kafka.protocol.sasl,
)

# What kafka-python does its own way. Anything else that differs is a failure.
THEIR_NAMES = {
    ("InitProducerIdRequest", "enable_2pc"): "enable2_pc",
    ("DescribeClusterResponse", "cluster_authorized_operations"): "authorized_operations",
    ("MetadataResponse", "cluster_authorized_operations"): "authorized_operations",
    ("MetadataResponseTopic", "topic_authorized_operations"): "authorized_operations",
    ("TxnOffsetCommitRequest", "generation_id_or_member_epoch"): "generation_id",
}
"""Rows that it spells otherwise."""
BIT_FIELDS = {
    ("DescribeClusterResponse", "cluster_authorized_operations"),
    ("DescribedGroup", "authorized_operations"),
    ("MetadataResponse", "cluster_authorized_operations"),
    ("MetadataResponseTopic", "topic_authorized_operations"),
}
"""Rows that it turns into sets of bit numbers; None is the lowest int32, "not asked for"."""
BEHIND_A_VERSION = {cls.__name__ for cls in CONSUMER_PROTOCOL}
"""Messages that it reads and writes with their int16 version in front."""
READS_ERRORS_AS_V0 = "ApiVersionsResponse"
"""The response whose error makes it read version 0, whatever the version (the broker may not know the client's)."""
NEWER_THAN_KAFKA_PYTHON = {
    ("ApiVersionsRequest", 5),
    ("ApiVersionsResponse", 5),
    ("ConsumerGroupDescribeRequest", 0),
    ("ConsumerGroupDescribeRequest", 1),
    ("ConsumerGroupDescribeResponse", 0),
    ("ConsumerGroupDescribeResponse", 1),
    ("ConsumerGroupHeartbeatRequest", 0),
    ("ConsumerGroupHeartbeatRequest", 1),
    ("ConsumerGroupHeartbeatResponse", 0),
    ("ConsumerGroupHeartbeatResponse", 1),
    ("DeleteGroupsRequest", 3),
    ("DeleteGroupsResponse", 3),
    ("TxnOffsetCommitRequest", 6),
    ("TxnOffsetCommitResponse", 6),
}
"""Versions of Kafka 4.4 that it does not have, besides all messages of share groups."""


def kafka_class(name: str) -> Any:
    """kafka-python's class of that name, or None."""
    return next((found for package in PACKAGES if (found := getattr(package, name, None))), None)


CASES = [
    (cls, version)
    for cls, version in each_version(API_MESSAGES + CONSUMER_PROTOCOL)
    if (kcls := kafka_class(cls.__name__)) is not None and version <= kcls._struct._versions[1]
]


def their_name(message: str, row: Row) -> str:
    return THEIR_NAMES.get((message, row.name), row.name)


def theirs(message: Struct, kcls: Any, version: int) -> Any:
    """The same message as an object of kafka-python."""
    values = {}
    for row in message.info.rows:
        if row_is_in(row, version):
            field = kcls._struct.fields[their_name(message.info.name, row)]
            values[field.name] = their_value(message, row, field, version)
    return kcls(version=version, **values)


def their_value(message: Struct, row: Row, field: Any, version: int) -> Any:
    value = getattr(message, row.name)
    if value is None:
        return None
    if (message.info.name, row.name) in BIT_FIELDS:
        return {bit for bit in range(32) if value >> bit & 1}
    if row.type == "array":
        if isinstance(row.element, str):
            return [uuid.UUID(bytes=one) if row.element == "uuid" else one for one in value]
        return [theirs(one, field.data_class, version) for one in value]
    if row.type == "struct":
        if row.tag is not None and value == default_of(row):
            return None  # their word for a tagged struct that is not there
        return theirs(value, field.data_class, version)
    if row.type == "uuid":
        return uuid.UUID(bytes=value) if any(value) else None
    return value


def ours(found: Any, cls: type[Struct], version: int) -> Struct:
    """What kafka-python read, as an object of ours."""
    return cls(
        **{
            row.name: our_value(getattr(found, their_name(cls.__name__, row)), cls, row, version)
            for row in cls.info.rows
            if row_is_in(row, version)
        }
    )


def our_value(value: Any, cls: type[Struct], row: Row, version: int) -> Any:
    if row.type == "uuid":
        return bytes(16) if value is None else value.bytes
    if (cls.__name__, row.name) in BIT_FIELDS:
        bits = sum(1 << bit for bit in ({31} if value is None else value))
        return bits - (1 << 32) if bits >> 31 else bits
    if row.type == "struct" and row.tag is not None and value is None:
        return default_of(row)
    if value is None:
        return None
    if row.type == "array":
        if isinstance(row.element, str):
            return tuple(value)
        return tuple(ours(one, row.element, version) for one in value)
    if row.type == "struct":
        return ours(value, row.element, version)
    return bytes(value) if row.type in ("bytes", "records") else value


@pytest.mark.parametrize(("cls", "version"), CASES, ids=[f"{cls.__name__}-v{v}" for cls, v in CASES])
def test_both_codecs_read_and_write_the_same(cls: type[Struct], version: int) -> None:
    kcls, tested = kafka_class(cls.__name__), codec(cls, version)

    @settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(messages(cls, version))
    def check(message: Any) -> None:
        data = tested.build(message)
        if cls.__name__ in BEHIND_A_VERSION:
            data = version.to_bytes(2) + data
        if not (cls.__name__ == READS_ERRORS_AS_V0 and message.error_code != 0):
            assert ours(kcls.decode(data, version=version), cls, version) == message
        assert bytes(theirs(message, kcls, version).encode(version=version)) == data

    check()


def test_only_versions_newer_than_kafka_python_are_left_out() -> None:
    known = {(cls.__name__, version) for cls, version in each_version(API_MESSAGES + CONSUMER_PROTOCOL)}
    left_out = known - {(cls.__name__, version) for cls, version in CASES}
    assert {
        (name, version) for name, version in left_out if "Share" not in name and "StreamsGroup" not in name
    } == NEWER_THAN_KAFKA_PYTHON
