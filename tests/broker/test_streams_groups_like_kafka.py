"""A streams group goes through what it went through on a live Kafka 4.4: every answer is the same, and every record."""

from __future__ import annotations

import re
from typing import Any

import pytest

from kshim.broker.features import STREAMS_VERSION
from kshim.broker.guards.guard import changed
from kshim.coordinator.step import OFFSETS_TOPIC
from kshim_protocol.apis import API_TABLE
from kshim_protocol.codec import codec
from kshim_protocol.internal.record_types import RECORD_TYPES, parse_versioned_value
from kshim_protocol.internal.streams_group import StreamsGroupMetadataValue, StreamsGroupTargetAssignmentMetadataValue
from kshim_protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from kshim_protocol.messages.create_topics import CreateTopicsResponse
from kshim_protocol.messages.delete_topics import DeleteTopicsResponse
from kshim_protocol.messages.join_group import JoinGroupResponse
from kshim_protocol.messages.list_groups import ListGroupsResponse
from kshim_protocol.messages.streams_group_heartbeat import EndpointToPartitions, StreamsGroupHeartbeatResponse
from kshim_protocol.records.record import iter_records
from tests.broker.harness import NodeUnderTest, a_node
from tests.protocol.golden import load

GOLDEN = load("streams_groups.json")
SCENES = [name for name in GOLDEN if name != "source"]
CLIENT_ID = "streams-scene"
_REASON = re.compile(r"\([^)]*\)")
_FIRST_OF_STREAMS = 17


@pytest.mark.parametrize("name", SCENES)
def test_every_answer_and_every_record_is_kafkas(name: str) -> None:
    scene = GOLDEN[name]
    node = a_node()
    client = node.client(CLIENT_ID)
    began_ms = node.mono_ms
    for number, step in enumerate(scene["steps"]):
        node.pass_ms(max(0, began_ms + step["at_ms"] - node.mono_ms))
        api, version = API_TABLE[step["key"]], step["version"]
        request, _ = codec(api.request_class(), version).parse(bytes.fromhex(step["request"]))
        expected, _ = codec(api.response_class(), version).parse(bytes.fromhex(step["response"]))
        found = client.ask(request, version)
        group = scene["group"]
        assert seen(found, group) == seen(expected, group), f"step {number} at {step['at_ms']} ms: {request}"
    assert told(written(node, scene["group"])) == told(scene["records"])
    node.close()


def seen(response: Any, group: str) -> object:
    """What of an answer is compared: no ids that are made at random, and no other groups."""
    match response:
        case CreateTopicsResponse(topics=topics):
            return [(topic.name, topic.error_code, topic.num_partitions) for topic in topics]
        case DeleteTopicsResponse(responses=responses):
            return [(topic.name, topic.error_code) for topic in responses]
        case JoinGroupResponse():
            return changed(response, member_id="")
        case StreamsGroupHeartbeatResponse(partitions_by_user_endpoint=entries, status=statuses):
            return changed(
                response,
                # Those of active tasks stand in no order. Why a topic could not be made is said in words of our own.
                partitions_by_user_endpoint=None if entries is None else tuple(map(in_order, entries)),
                status=tuple((each.status_code, _REASON.sub("(...)", each.status_detail)) for each in statuses or ()),
            )
        case ConsumerGroupHeartbeatResponse():
            return changed(response, assignment=None)
        case ListGroupsResponse(groups=groups):
            return [listed for listed in groups if listed.group_id == group]
        case _:
            return response


def in_order(entry: EndpointToPartitions) -> EndpointToPartitions:
    return changed(
        entry,
        active_partitions=tuple(sorted(entry.active_partitions, key=lambda place: (place.topic, place.partitions))),
    )


def written(node: NodeUnderTest, group: str) -> list[list[str | None]]:
    """Key and value of all records of a group."""
    partition = node.cluster.groups.coordinator.partition_for(group)
    log = node.log(OFFSETS_TOPIC, partition)
    prefix = len(group).to_bytes(2) + group.encode()
    return [
        [record.key.hex(), None if record.value is None else record.value.hex()]
        for batch in log.batches()
        for record in iter_records(batch)
        if record.key is not None and record.key[2:].startswith(prefix)
    ]


def told(records: list[list[str | None]]) -> list[tuple[object, ...]]:
    """Records with hashes of topics numbered as they come, for they depend on the topics' ids, and without times."""
    hashes: dict[int, int] = {0: 0}
    found: list[tuple[object, ...]] = []
    for key_text, value_text in records:
        assert key_text is not None
        key = bytes.fromhex(key_text)
        number = int.from_bytes(key[:2], "big")
        if value_text is None or number < _FIRST_OF_STREAMS:
            found.append((number, key, value_text is None))
            continue
        value = parse_versioned_value(RECORD_TYPES[number], bytes.fromhex(value_text))[1]
        if isinstance(value, StreamsGroupMetadataValue):
            value = changed(value, metadata_hash=hashes.setdefault(value.metadata_hash, len(hashes)))
        elif isinstance(value, StreamsGroupTargetAssignmentMetadataValue):
            value = changed(value, assignment_timestamp=min(value.assignment_timestamp, 1))
        found.append((number, key, value))
    return found


@pytest.mark.parametrize("name", SCENES)
def test_what_kafka_wrote_is_built_again_byte_by_byte(name: str) -> None:
    from kshim.coordinator.groups.streams.updates import build_streams_update, parse_streams_update

    for key_text, value_text in GOLDEN[name]["records"]:
        key, value = bytes.fromhex(key_text), None if value_text is None else bytes.fromhex(value_text)
        found = parse_streams_update(key, value)
        if found is not None:
            assert build_streams_update(*found) == (key, value)


def test_at_level_0_all_is_unsupported() -> None:
    node = a_node({"kshim.streams.version": "0"})
    assert node.cluster.features.levels[STREAMS_VERSION] == 0
    client = node.client()
    for name in ("epochs", "admin"):
        for step in GOLDEN[name]["steps"]:
            if step["key"] in (88, 93):
                api = API_TABLE[step["key"]]
                request, _ = codec(api.request_class(), step["version"]).parse(bytes.fromhex(step["request"]))
                assert client.ask(request, step["version"]).error_code == 35
    node.close()
