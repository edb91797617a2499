"""Updates are what Kafka's records of a group say, and become the same bytes again."""

from __future__ import annotations

from typing import Any

import pytest

from kshim.coordinator.groups.consumer.reconciliation import Current
from kshim.coordinator.groups.consumer.state import MemberState
from kshim.coordinator.groups.consumer.updates import (
    GroupEpoch,
    MemberCurrent,
    MemberTarget,
    build_update,
    parse_update,
)
from kshim_protocol.internal.consumer_group import (
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMetadataValue,
    TopicPartitions,
)
from kshim_protocol.internal.record_types import RECORD_TYPES, build_key_of_texts, build_versioned_value
from tests.protocol import golden

KEPT = {3, 5, 6, 7, 8, 16}
RECORDS = [record for record in golden.load("consumer_offsets.json")["records"] if record["keyVersion"] in KEPT]
TOPIC = b"t" * 16


@pytest.mark.parametrize("record", RECORDS, ids=[record["case"] for record in RECORDS])
def test_kafkas_record_becomes_an_update_and_the_same_bytes_again(record: dict[str, Any]) -> None:
    key = bytes.fromhex(record["keyHex"])
    value = None if record["valueHex"] is None else bytes.fromhex(record["valueHex"])
    found = parse_update(key, value)
    assert found is not None
    group_id, update = found
    assert group_id == record["key"]["GroupId"]
    assert build_update(group_id, update) == (key, value)


def test_a_member_that_revokes_is_read_with_the_epoch_of_each_partition() -> None:
    record = next(found for found in RECORDS if found["case"].endswith("-pendingRevocation"))
    found = parse_update(bytes.fromhex(record["keyHex"]), bytes.fromhex(record["valueHex"]))
    assert found is not None
    assert isinstance(found[1], MemberCurrent)
    current = found[1].current
    assert current is not None
    assert (current.epoch, current.previous_epoch, current.state) == (2, 2, MemberState.UNREVOKED_PARTITIONS)
    assert sorted(current.assigned.values()) == [2, 2]
    assert sorted(current.pending_revocation.values()) == [2]


def test_partitions_of_a_record_without_epochs_have_the_members() -> None:
    value = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=7,
        previous_member_epoch=6,
        state=5,
        assigned_partitions=(TopicPartitions(topic_id=TOPIC, partitions=(3, 1), assignment_epochs=None),),
        partitions_pending_revocation=(),
    )
    found = parse_update(build_key_of_texts(RECORD_TYPES[8], "g", "m"), build_versioned_value(value))
    expected = Current(7, 6, MemberState.UNKNOWN, {(TOPIC, 3): 7, (TOPIC, 1): 7})
    assert found == ("g", MemberCurrent("m", expected))


def test_partitions_are_written_by_topic_and_in_order() -> None:
    partitions = frozenset({(b"u" * 16, 1), (TOPIC, 2), (TOPIC, 0)})
    key, value = build_update("g", MemberTarget("m", partitions))
    assert value is not None
    assert (
        value.hex()
        == "0000"
        + "03"
        + TOPIC.hex()
        + "03"
        + "00000000"
        + "00000002"
        + "00"
        + ("75" * 16 + "02" + "00000001" + "00")
        + "00"
    )
    assert parse_update(key, value) == ("g", MemberTarget("m", partitions))


def test_records_of_other_kinds_are_no_updates() -> None:
    assert parse_update(build_key_of_texts(RECORD_TYPES[11], "g"), None) is None
    assert parse_update(build_key_of_texts(RECORD_TYPES[4], "g"), None) is None
    assert parse_update(b"\x00\x63?", None) is None


def test_the_hash_of_the_topics_stays_away_when_it_is_zero() -> None:
    _, value = build_update("g", GroupEpoch(ConsumerGroupMetadataValue(epoch=2)))
    assert value is not None
    assert value.hex() == "0000" + "00000002" + "00"
