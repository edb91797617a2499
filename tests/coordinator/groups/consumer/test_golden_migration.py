"""Every byte of the records of groups that migrate, but times, is what a live Kafka 4.4 wrote for the same requests."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from kshim.coordinator.groups.coordinator import GroupCoordinator
from kshim_protocol.errors import ErrorCode
from kshim_protocol.internal.group_metadata import GroupMetadataKey
from kshim_protocol.internal.records import build_group_metadata_value, parse_key, parse_value
from kshim_protocol.records.batch import build_key_value_batch
from kshim_protocol.records.record import iter_records
from kshim_protocol.schema import Request
from tests.coordinator.groups.consumer.test_heartbeat import World
from tests.coordinator.groups.consumer.test_migration import Classic, assigned
from tests.coordinator.harness import Call, R, Topics

GOLDEN = json.loads((Path(__file__).parents[3] / "golden" / "migration.json").read_text())
CLIENT_ID = "migration"


class GoldenTopics(Topics):
    """One topic, with the id that it had."""

    def __init__(self, name: str, id_: bytes) -> None:
        super().__init__({name: 3})
        self._name = name
        self._id = id_

    def topic_id(self, name: str) -> bytes | None:
        return self._id if name == self._name else None

    def topic_name(self, id_: bytes) -> str | None:
        return self._name if id_ == self._id else None


class GoldenWorld(World):
    """The group, the topic and the member id of a scene."""

    def __init__(self, scene: dict[str, Any]) -> None:
        self.topic, topic_id = scene["topic"]
        self.group_id = scene["group"]
        self.uuid = scene["member"].removeprefix(f"{CLIENT_ID}-")
        super().__init__({self.topic: 3})
        self.topics = GoldenTopics(self.topic, bytes.fromhex(topic_id))
        self.coordinator = self._new_coordinator()

    def _new_coordinator(self) -> GroupCoordinator:
        return GroupCoordinator(self.config, topics=self.topics, new_id=lambda: self.uuid)

    def send(self, request: Request[R], version: int, **_: Any) -> Call[R]:
        return super().send(request, version, client_id=CLIENT_ID)

    def classic(self, **options: Any) -> Classic:
        return Classic(self, CLIENT_ID, self.topic, group_id=self.group_id, session_timeout_ms=45_000, **options)

    def new(self, member_id: str, **fields: Any) -> None:
        assert self.join(member_id, self.topic, group_id=self.group_id, **fields).error is ErrorCode.NONE

    def written(self) -> list[tuple[bytes, bytes | None]]:
        return [
            (record.key or b"", without_times(record.key or b"", record.value))
            for log in self.logs.values()
            for batch in log
            for record in iter_records(batch)
        ]


def without_times(key: bytes, value: bytes | None) -> bytes | None:
    """When a target was computed, and since when a classic group is in its state."""
    match key[1], value:
        case _, None:
            return None
        case 2, found:
            parsed_key = parse_key(key)
            assert isinstance(parsed_key, GroupMetadataKey)
            parsed = parse_value(parsed_key, found)
            return build_group_metadata_value(replace(parsed, current_state_timestamp=0))
        case 6, found if len(found) > 8:
            return found[:-8] + bytes(8)
        case _, found:
            return found


def test_a_group_is_upgraded_and_downgraded_and_rebalances() -> None:
    scene = GOLDEN["there_and_back"]
    world = GoldenWorld(scene)
    member = world.classic()
    member.joined()
    member.send_sync({member.member_id: assigned({world.topic: [0, 1, 2]})})
    world.new("n")
    member.joined()
    member.synced()
    world.heartbeat("n", 2, owned={}, group_id=world.group_id)
    world.heartbeat("n", -1, group_id=world.group_id)
    member.joined()
    member.send_sync({member.member_id: assigned({world.topic: [0, 1, 2]})})
    assert in_order(world.written()) == in_order(expected(scene))


def test_a_classic_member_takes_the_place_of_the_last_member_of_the_new_protocol() -> None:
    scene = GOLDEN["replaced"]
    world = GoldenWorld(scene)
    world.new("s", instance_id="i")
    world.classic(instance_id="i").joined()
    assert in_order(world.written()) == in_order(expected(scene))


@pytest.mark.parametrize("name", ["there_and_back", "replaced"])
def test_what_kafka_wrote_is_read_back_as_the_same_classic_group(name: str) -> None:
    scene = GOLDEN[name]
    world = GoldenWorld(scene)
    partition = world.coordinator.partition_for(world.group_id)
    pairs = [(bytes.fromhex(key), None if value is None else bytes.fromhex(value)) for key, value in scene["records"]]
    world.logs[partition] = [build_key_value_batch([pair], 1) for pair in pairs]
    world.restart()
    group = world.find_group(world.group_id)
    assert group is not None
    assert list(group.members) == [scene["member"]]
    assert group.generation_id == (3 if name == "there_and_back" else 2)


def expected(scene: dict[str, Any]) -> list[tuple[bytes, bytes | None]]:
    pairs = [(bytes.fromhex(key), None if value is None else bytes.fromhex(value)) for key, value in scene["records"]]
    return [(key, without_times(key, value)) for key, value in pairs]


def in_order(pairs: list[tuple[bytes, bytes | None]]) -> list[tuple[bytes, bytes | None]]:
    """Members that go together, by their ids; in Kafka they stand in the order of a hash table."""
    found: list[tuple[bytes, bytes | None]] = []
    for (_, is_end), run in groupby(pairs, key=lambda pair: (pair[0][1], pair[1] is None)):
        together = list(run)
        found += sorted(together, key=lambda pair: pair[0]) if is_end else together
    return found
