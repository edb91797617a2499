"""Topics, partitions, configs, groups and their offsets, by the client's own admin calls."""

from __future__ import annotations

from collections.abc import Callable

from integration.clients.application import Sent
from integration.clients.driver import DriverError
from integration.clients.members import Group, partitions_of
from integration.clients.scene import Scene
from integration.clients.situation import EITHER, situation
from integration.support.broker import Deadline
from integration.support.client import TopicPartition

_TIMEOUT_S = 20.0


@situation("topics: create, list, describe, delete")
def admin_topics(scene: Scene) -> None:
    application = scene.application()
    topic = scene.topic(application, 3)
    refused(lambda: application.create_topic(topic, 3), "TOPIC_ALREADY_EXISTS")
    eventually("it is listed", lambda: topic in application.topics())
    (node,) = application.nodes()
    described = application.partitions(topic)
    assert sorted(described) == [0, 1, 2], f"described {described}"
    for each in described.values():
        assert (each["leader"], each["replicas"], each["isr"]) == (node, [node], [node]), f"node {node}: {each}"
    application.delete_topic(topic)
    eventually("the topic is gone", lambda: topic not in application.topics())
    refused(lambda: application.partitions(topic), "UNKNOWN_TOPIC_OR_PARTITION")
    refused(lambda: application.delete_topic(topic), "UNKNOWN_TOPIC_OR_PARTITION")


@situation("partitions: added, fewer refused")
def admin_partitions(scene: Scene) -> None:
    application = scene.application()
    topic = scene.topic(application, 2)
    application.create_partitions(topic, 5)
    eventually("five partitions", lambda: sorted(application.partitions(topic)) == [0, 1, 2, 3, 4])
    refused(lambda: application.create_partitions(topic, 3), "INVALID_PARTITIONS")
    (placed,) = application.produce(topic, [Sent("to a new one", partition=4)])
    assert placed == (4, 0)


@situation("configs: set at creation, altered, reset")
def admin_configs(scene: Scene) -> None:
    application = scene.application()
    topic = scene.name("topic")
    application.create_topic(topic, 1, {"retention.ms": "3600000"})
    eventually("as given", lambda: application.configs(topic)["retention.ms"] == "3600000")
    configs = application.configs(topic)
    assert configs["cleanup.policy"] == "delete"
    application.alter_configs(topic, {"max.message.bytes": "5000"}, ["retention.ms"])
    eventually("set", lambda: application.configs(topic)["max.message.bytes"] == "5000")
    eventually("set back", lambda: application.configs(topic)["retention.ms"] == "604800000")
    refused(lambda: application.alter_configs(topic, {"max.message.bytes": "many"}), "INVALID_CONFIG")


@situation("records: deleted up to an offset")
def admin_delete_records(scene: Scene) -> None:
    application = scene.application()
    topic = scene.topic(application)
    application.produce(topic, [Sent(str(number)) for number in range(5)])
    first = TopicPartition(topic, 0)
    assert application.delete_records({first: 3}) == {first: 3}
    assert application.offsets(topic, [0], "beginning") == {0: 3}
    assert [record.value for record in application.read(topic, {0: "beginning"}, 2)] == ["3", "4"]
    refused(lambda: application.delete_records({first: 6}), "OFFSET_OUT_OF_RANGE")


@situation("groups: list, describe", protocols=EITHER)
def admin_groups(scene: Scene) -> None:
    application = scene.application()
    topic = scene.topic(application, 2)
    group = Group(scene.name("group"))
    assert group.group_id not in application.groups()
    assert application.group(group.group_id).state == "Dead"
    member = group.start(application, topic)
    group.settle(partitions_of(topic, 2))
    assert group.group_id in application.groups()
    described = application.group(group.group_id)
    assert (described.state, len(described.members)) == ("Stable", 1)
    assert described.members[0].partitions == set(partitions_of(topic, 2))
    application.produce(topic, [Sent("a record to commit")])
    group.wait_for_values(["a record to commit"])
    group.stop(member, commit=True)
    eventually("nobody is in it", lambda: application.group(group.group_id).state == "Empty")
    assert application.group(group.group_id).members == ()


@situation("groups: delete", protocols=EITHER)
def admin_delete_groups(scene: Scene) -> None:
    application = scene.application()
    topic = scene.topic(application, 2)
    group = Group(scene.name("group"))
    values = [str(number) for number in range(10)]
    application.produce(topic, [Sent(value) for value in values])
    member = group.start(application, topic)
    group.wait_for_values(values)
    refused(lambda: application.delete_group(group.group_id), "NON_EMPTY_GROUP")
    group.stop(member, commit=True)
    eventually("nobody is in it", lambda: scene.group(application, group.group_id).state == "Empty")
    application.delete_group(group.group_id)
    refused(lambda: application.delete_group(group.group_id), "GROUP_ID_NOT_FOUND")
    assert application.group(group.group_id).state == "Dead"
    assert group.group_id not in application.groups()


@situation("offsets of groups: altered, listed", protocols=EITHER)
def admin_group_offsets(scene: Scene) -> None:
    application = scene.application()
    topic, group_id = scene.topic(application, 2), scene.name("group")
    offsets = dict(zip(partitions_of(topic, 2), (7, 3), strict=True))
    application.produce(topic, [Sent(str(number), partition=number % 2) for number in range(20)])
    application.alter_group_offsets(group_id, offsets)
    assert application.group_offsets(group_id) == offsets
    group = Group(group_id)
    group.start(application, topic)
    group.wait("what lies behind the offsets", lambda: len(group.records()) >= 10)
    began = {record.partition: record.offset for record in reversed(group.records())}
    assert began == {0: 7, 1: 3}
    refused(lambda: application.alter_group_offsets(group_id, offsets), "UNKNOWN_MEMBER_ID")


@situation("offsets of groups: deleted")
def admin_delete_group_offsets(scene: Scene) -> None:
    application = scene.application()
    topic, group_id = scene.topic(application, 2), scene.name("group")
    first, second = partitions_of(topic, 2)
    application.alter_group_offsets(group_id, {first: 7, second: 3})
    application.delete_group_offsets(group_id, [first])
    assert application.group_offsets(group_id) == {second: 3}
    refused(lambda: application.delete_group_offsets(scene.name("unknown"), [first]), "GROUP_ID_NOT_FOUND")


def refused(ask: Callable[[], object], *names: str) -> None:
    """It must raise a DriverError of one of these names."""
    try:
        answer = ask()
    except DriverError as error:
        if error.name in names:
            return
        raise AssertionError(f"refused with {error}, expected {names}") from error
    raise AssertionError(f"not refused: {answer!r}, expected {names}")


def eventually(what: str, holds: Callable[[], bool]) -> None:
    """Look until it holds: answers of a cluster may trail, and a new topic be unknown at first."""
    deadline = Deadline(_TIMEOUT_S)
    while not _holds_by_now(holds):
        deadline.check(what)


def _holds_by_now(holds: Callable[[], bool]) -> bool:
    try:
        return holds()
    except DriverError as error:
        if error.name != "UNKNOWN_TOPIC_OR_PARTITION":
            raise
        return False
