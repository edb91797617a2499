"""The topic `__kshim_events`: what is in it, when, and that no group suffers from it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from kshim.coordinator.groups.events import Transition
from kshim.coordinator.step import OFFSETS_TOPIC
from kshim.history.history import PENDING_MAX_EVENTS
from kshim.history.topic import EventsTopic
from kshim.partitions.internal_topics import EVENTS_TOPIC
from kshim.security.authorizer.authorizer import STANDARD_AUTHORIZER
from kshim.storage.log import LogError
from kshim.storage.memory_log import MemoryLog
from kshim.storage.stores import MemoryStorage
from kshim.storage.topic_spec import TopicSpec
from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kshim_protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from kshim_protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from kshim_protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kshim_protocol.schema import Request
from tests.broker.harness import START_WALL_MS, NodeUnderTest, a_node, files_in
from tests.coordinator.peers import a_group
from tests.history.members import Member, a_telling_node, batches, written
from tests.history.page import problems
from tests.history.told import told_of, types

ONE_REBALANCE = ["member_joined", "rebalance_started", "join_completed", "rebalance_completed"]
EMPTIED = ["member_left", "rebalance_started", "rebalance_aborted", "group_emptied"]
LINGER_MS, RETRY_MS = 50, 1_000


BY_METADATA = MetadataRequest(topics=(MetadataRequestTopic(name=EVENTS_TOPIC),), allow_auto_topic_creation=False)
BY_DESCRIPTION = DescribeTopicPartitionsRequest(topics=(TopicRequest(name=EVENTS_TOPIC),))


class FullAtTheSecondTopic(MemoryStorage):
    """Memory that has no room for the name of another topic."""

    def save_topics(self, topics: Iterable[TopicSpec]) -> None:
        """Raises LogError."""
        specs = list(topics)
        if len(specs) > 1:
            raise LogError("no space left")
        super().save_topics(specs)


class BrokenLog(MemoryLog):
    """A log that refuses appends as long as the storage says so."""

    def __init__(self, storage: BrokenStorage) -> None:
        super().__init__()
        self.storage = storage

    def append(self, batch: bytes) -> int:
        """Raises LogError."""
        self.storage.attempts += 1
        if self.storage.is_broken:
            raise LogError("no space left")
        return super().append(batch)


class BrokenStorage(MemoryStorage):
    """Memory in which the events topic alone cannot be written to."""

    is_broken = True
    attempts = 0

    def open_log(self, topic: str, partition: int) -> MemoryLog:
        return BrokenLog(self) if topic == EVENTS_TOPIC else super().open_log(topic, partition)


def test_a_group_is_told_of_in_the_topic_with_its_id_as_the_key() -> None:
    node = a_telling_node()
    Member(node, "billing").work()
    node.pass_ms(LINGER_MS)
    [batch] = batches(node)
    assert [event["type"] for _, _, event in batch] == ONE_REBALANCE
    assert {key for key, _, _ in batch} == {event["group"] for _, _, event in batch} == {"billing"}
    assert {timestamp_ms for _, timestamp_ms, _ in batch} == {START_WALL_MS}
    assert [problem for _, _, event in batch for problem in problems(event)] == []
    assert batch[0][2]["broker"] == 1
    assert batch[0][2]["trigger"]["host"] == "10.0.0.1"


def test_events_are_gathered_for_some_milliseconds() -> None:
    node = a_telling_node()
    member = Member(node).work()
    node.pass_ms(LINGER_MS - 1)
    assert batches(node) == []
    Member(node, "h").work()
    node.pass_ms(1)
    member.leave()
    node.pass_ms(LINGER_MS)
    first, second = batches(node)
    assert [key for key, _, _ in first] == ["g"] * 4 + ["h"] * 4
    assert [event["type"] for _, _, event in second][-1] == "group_emptied"


def test_the_topic_and_the_ring_say_the_same() -> None:
    node = a_telling_node()
    Member(node).work().leave()
    node.pass_ms(LINGER_MS)
    assert written(node) == [event.document() for event in node.cluster.history.ring]


# Without the option


def test_without_the_option_the_history_stays_in_memory_until_somebody_asks() -> None:
    node = a_node()
    Member(node).work()
    node.pass_ms(LINGER_MS)
    assert EVENTS_TOPIC not in node.cluster.topics
    assert [event.type for event in node.cluster.history.ring] == ONE_REBALANCE


@pytest.mark.parametrize("request_of_name", [BY_METADATA, BY_DESCRIPTION])
def test_who_asks_for_the_topic_by_name_finds_all_that_is_known_in_it(request_of_name: Request[Any]) -> None:
    node = a_node()
    member = Member(node).work()
    [topic] = node.client().ask(request_of_name).topics
    assert (topic.error_code, topic.name, len(topic.partitions)) == (ErrorCode.NONE, EVENTS_TOPIC, 1)
    assert types(written(node)) == ONE_REBALANCE
    member.leave()
    node.pass_ms(LINGER_MS)
    assert types(written(node))[len(ONE_REBALANCE) :] == EMPTIED
    assert written(node) == [event.document() for event in node.cluster.history.ring]


def test_who_asks_again_finds_what_has_happened_up_to_now() -> None:
    node = a_node()
    client = node.client()
    for number in range(3):
        Member(node, f"group-{number}").work()
        assert client.ask(BY_METADATA).topics[0].error_code == ErrorCode.NONE
        assert written(node) == [event.document() for event in node.cluster.history.ring]


def test_only_who_asks_by_name_sees_that_the_topic_is_there() -> None:
    node = a_node(topics={"orders": 1})
    client = node.client()
    client.ask(BY_METADATA)
    listed = client.ask(MetadataRequest(topics=None)).topics
    described = client.ask(DescribeTopicPartitionsRequest(topics=())).topics
    (directory,) = client.ask(DescribeLogDirsRequest(topics=None)).results
    assert [topic.name for topic in listed] == [topic.name for topic in described] == ["orders"]
    assert [topic.name for topic in directory.topics] == ["orders"]


def test_a_member_whose_expression_matches_any_topic_does_not_get_the_history() -> None:
    node = a_node(topics={"orders": 1})
    client = node.client()
    client.ask(BY_METADATA)
    joining = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="a",
        member_epoch=0,
        rebalance_timeout_ms=60_000,
        topic_partitions=(),
        subscribed_topic_regex=".*",
    )
    client.ask(joining)
    node.run_background_tasks()
    assignment = client.ask(ConsumerGroupHeartbeatRequest(group_id="g", member_id="a", member_epoch=1)).assignment
    assert assignment is not None
    names = {node.cluster.topics.topic_name(each.topic_id) for each in assignment.topic_partitions}
    assert names == {"orders", OFFSETS_TOPIC}  # as in Kafka, which has internal topics among those that match


def test_a_history_that_is_not_to_be_told_is_an_unknown_topic() -> None:
    node = a_node({"kshim.history.topic.enable": "false"})
    Member(node).work()
    (found,), (described,) = node.client().ask(BY_METADATA).topics, node.client().ask(BY_DESCRIPTION).topics
    assert found.error_code == described.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert EVENTS_TOPIC not in node.cluster.topics


def test_who_may_not_describe_the_topic_does_not_have_it_made() -> None:
    node = a_node({"authorizer.class.name": STANDARD_AUTHORIZER})
    (found,), (described,) = node.client().ask(BY_METADATA).topics, node.client().ask(BY_DESCRIPTION).topics
    assert found.error_code == described.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert EVENTS_TOPIC not in node.cluster.topics


def test_a_history_that_cannot_be_stored_is_an_unknown_topic_and_costs_no_other_answer() -> None:
    node = a_node(topics={"orders": 1}, storage=FullAtTheSecondTopic(), tolerates_defects=True)
    asked = (MetadataRequestTopic(name="orders"), MetadataRequestTopic(name=EVENTS_TOPIC))
    found = node.client().ask(MetadataRequest(topics=asked, allow_auto_topic_creation=False)).topics
    assert [topic.error_code for topic in found] == [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert [str(defect) for defect in node.defects] == ["no space left"]


def test_a_history_that_somebody_has_deleted_is_there_again_for_who_asks() -> None:
    node = a_node()
    Member(node).work()
    node.client().ask(BY_METADATA)
    topic = node.cluster.topics.named(EVENTS_TOPIC)
    assert topic is not None
    node.cluster.delete_topic(topic, node.now)
    Member(node, "h").work()
    node.client().ask(BY_METADATA)
    assert written(node) == [event.document() for event in node.cluster.history.ring]


def test_after_a_restart_the_topic_goes_on_with_what_the_new_life_knows(tmp_path: Path) -> None:
    node = a_node(storage=files_in(tmp_path))
    Member(node).work()
    node.client().ask(BY_METADATA)
    node.close()
    node = a_node(storage=files_in(tmp_path))
    node.run_background_tasks()
    Member(node, "h").work()
    node.client().ask(BY_METADATA)
    events = written(node)
    assert len({event["event_id"] for event in events}) == len(events)
    assert types([event for event in events if event["group"] == "h"]) == ONE_REBALANCE
    assert types([event for event in events if event["group"] == "g"])[: len(ONE_REBALANCE)] == ONE_REBALANCE
    node.close()


# What holds it within bounds


def test_the_ring_has_the_bounds_that_the_configuration_gives() -> None:
    node = a_node({"kshim.history.max.events": "2", "kshim.history.max.bytes": "5000"})
    Member(node).work()
    assert [event.type for event in node.cluster.history.ring] == ONE_REBALANCE[-2:]
    assert node.cluster.history.ring.max_bytes == 5_000


def test_the_topic_is_an_ordinary_one_with_one_partition_kept_for_a_week() -> None:
    node = a_telling_node()
    topics = node.client().ask(MetadataRequest(topics=None)).topics
    [topic] = [topic for topic in topics if topic.name == EVENTS_TOPIC]
    assert (topic.is_internal, len(topic.partitions)) == (False, 1)
    found = node.cluster.topics.named(EVENTS_TOPIC)
    assert found is not None
    assert found.configs == {"cleanup.policy": "delete", "retention.ms": str(7 * 24 * 3_600_000)}


def test_a_topic_that_is_there_stays_as_it_is_and_a_group_is_in_one_of_its_partitions(tmp_path: Path) -> None:
    a_node(topics={EVENTS_TOPIC: 3}, storage=files_in(tmp_path)).close()
    node = a_node({"kshim.history.topic.enable": "true"}, storage=files_in(tmp_path))
    groups = [f"group-{number}" for number in range(12)]
    for group_id in groups:
        Member(node, group_id).work()
    node.pass_ms(LINGER_MS)
    homes = [{event["group"] for event in written(node, partition)} for partition in range(3)]
    assert sorted(group for home in homes for group in home) == sorted(groups)
    assert all(homes)
    for partition in range(3):
        for group_id in homes[partition]:
            assert types([event for event in written(node, partition) if event["group"] == group_id]) == ONE_REBALANCE
    node.close()


# No feedback


def test_a_group_that_reads_the_topic_is_left_out_of_it_but_not_of_the_ring() -> None:
    node = a_telling_node()
    Member(node, "watcher", "orders", EVENTS_TOPIC).work().leave()
    Member(node, "worker").work()
    node.pass_ms(LINGER_MS)
    assert {event["group"] for event in written(node)} == {"worker"}
    assert {event.group_id for event in node.cluster.history.ring} == {"watcher", "worker"}


def test_a_group_that_reads_it_no_longer_is_told_of_again() -> None:
    node = a_telling_node()
    member = Member(node, "g", EVENTS_TOPIC).work()
    node.pass_ms(LINGER_MS)
    member.topics = ("orders",)
    member.work()
    node.pass_ms(LINGER_MS)
    assert types(written(node)) == ONE_REBALANCE[1:]


def test_a_reader_is_known_before_its_first_rebalance_is_over() -> None:
    node = a_telling_node(config={"group.initial.rebalance.delay.ms": "3000"})
    watcher = Member(node, "watcher", EVENTS_TOPIC)
    watcher.join()
    node.pass_ms(2_999)
    assert [event.type for event in node.cluster.history.ring] == ["member_joined", "rebalance_started"]
    assert written(node) == []


def test_a_topic_whose_name_only_begins_like_it_is_none_of_its_business() -> None:
    node = a_telling_node()
    Member(node, "g", EVENTS_TOPIC + "_by_hand").work()
    node.pass_ms(LINGER_MS)
    assert types(written(node)) == ONE_REBALANCE


def test_a_group_loaded_from_the_log_is_known_as_a_reader() -> None:
    node = a_telling_node()
    Member(node, "watcher", EVENTS_TOPIC).work()
    node.cluster.groups.reload(node.cluster.groups.coordinator.partition_for("watcher"))
    node.warm_up()
    node.pass_ms(LINGER_MS)
    assert written(node) == []
    assert [event.type for event in node.cluster.history.ring][-1] == "coordinator_loaded"


# What goes wrong


def test_a_topic_that_cannot_be_written_harms_no_group_and_is_tried_again() -> None:
    storage = BrokenStorage()
    node = a_telling_node(storage, tolerates_defects=True)
    Member(node, "g").work()
    node.pass_ms(LINGER_MS)
    Member(node, "h").work()
    node.pass_ms(RETRY_MS + LINGER_MS)
    assert (storage.attempts, len(node.defects)) == (2, 1)
    storage.is_broken = False
    node.pass_ms(RETRY_MS)
    assert types(written(node)) == ONE_REBALANCE * 2
    storage.is_broken = True
    Member(node, "i").work()
    node.pass_ms(LINGER_MS)
    assert len(node.defects) == 2


def test_an_event_that_cannot_be_followed_is_reported_and_costs_no_other() -> None:
    node = a_telling_node(tolerates_defects=True)
    node.cluster.history.observe(Transition(partition=0, now=node.now, group_id="broken"))  # type: ignore[call-arg]
    Member(node).work()
    node.pass_ms(LINGER_MS)
    assert types(written(node)) == ONE_REBALANCE
    assert [type(defect) for defect in node.defects] == [AttributeError]


def test_nothing_waits_for_ever_to_be_followed() -> None:
    node = a_node({"kshim.history.max.events": "0"})
    history = node.cluster.history
    while history.followed_count == 0:
        Member(node).work().leave()
    assert history.followed_count == PENDING_MAX_EVENTS


def a_backlog(node: NodeUnderTest, timer: Timer, **bounds: int) -> EventsTopic:
    """What waits for the topic of `node`."""
    return EventsTopic(
        lambda: node.cluster.topics.named(EVENTS_TOPIC),
        timer.after,
        node.defects.append,
        **bounds,
    )


@pytest.mark.parametrize("bound", ["max_events", "max_bytes"])
def test_a_backlog_that_is_full_loses_the_oldest_events_and_a_gap_tells(bound: str) -> None:
    node, timer = a_node(topics={EVENTS_TOPIC: 1}), Timer()
    events = told_of(a_group().stable("a", "b").events)
    room = 3 if bound == "max_events" else sum(event.size_bytes for event in events[-3:])
    backlog = a_backlog(node, timer, **{bound: room})
    for event in events:
        backlog.add(event)
    assert (len(backlog), backlog.dropped_count) == (3, len(events) - 3)
    timer.ring()
    assert [event["seq"] for event in written(node)] == [event.seq for event in events[-3:]]
    assert len(backlog) == 0


def test_a_long_backlog_is_written_in_turns_that_leave_room_for_requests() -> None:
    node, timer = a_node(topics={EVENTS_TOPIC: 1}), Timer()
    backlog = a_backlog(node, timer)
    sim = a_group().stable("a")
    for _ in range(150):
        sim["a"].take(sim["a"].join())
        sim.settle()
    events = told_of(sim.events)
    for event in events:
        backlog.add(event)
    turns = 0
    while len(backlog):
        before = len(batches(node))
        timer.ring()
        turns += 1
        assert 0 < len(batches(node)) - before <= 4
    assert turns > 1
    assert max(len(batch) for batch in node.log(EVENTS_TOPIC).batches()) < 128 * 1024
    assert [event["seq"] for event in written(node)] == [event.seq for event in events]


class Timer:
    """Takes one timer at a time and lets it go off when told."""

    def __init__(self) -> None:
        self.actions: list[Callable[[], None]] = []

    def after(self, delay_ms: int, action: Callable[[], None]) -> None:
        assert not self.actions, "two timers at a time"
        self.actions.append(action)

    def ring(self) -> None:
        self.actions.pop()()


def test_a_topic_that_somebody_deletes_is_not_made_again_but_used_when_it_is() -> None:
    node = a_telling_node()
    topic = node.cluster.topics.named(EVENTS_TOPIC)
    assert topic is not None
    node.cluster.delete_topic(topic, node.now)
    Member(node, "g").work()
    node.pass_ms(LINGER_MS)
    assert EVENTS_TOPIC not in node.cluster.topics
    node.topic(EVENTS_TOPIC)
    Member(node, "h").work()
    node.pass_ms(LINGER_MS)
    assert {event["group"] for event in written(node)} == {"h"}


# Restarts


def test_a_restart_begins_a_new_run_and_tells_of_the_groups_it_found(tmp_path: Path) -> None:
    node = a_telling_node(files_in(tmp_path))
    Member(node).work()
    node.close()

    node = a_telling_node(files_in(tmp_path))
    node.warm_up()
    node.pass_ms(LINGER_MS)
    *before, loaded = written(node)
    node.close()
    assert types(before) == [*ONE_REBALANCE, "broker_stopping"]
    assert (loaded["type"], loaded["seq"], loaded["epoch"], loaded["to_generation"]) == ("coordinator_loaded", 1, 0, 1)
    assert loaded["run"] != before[0]["run"]


def test_what_still_waits_is_written_when_the_broker_closes(tmp_path: Path) -> None:
    node = a_telling_node(files_in(tmp_path))
    Member(node).work()
    node.close()
    node = a_telling_node(files_in(tmp_path))
    assert types(written(node)) == [*ONE_REBALANCE, "broker_stopping"]
    node.close()


def test_a_broker_that_is_stopped_in_good_order_says_so_to_the_groups_with_members(tmp_path: Path) -> None:
    node = a_telling_node(files_in(tmp_path))
    Member(node, "empty").work().leave()
    Member(node).work()
    node.close()
    node = a_telling_node(files_in(tmp_path))
    (stopping,) = [event for event in written(node) if event["type"] == "broker_stopping"]
    assert (stopping["group"], stopping["state_to"], stopping["members"]["expected"]) == ("g", "Stable", 1)
    assert problems(stopping) == []
    node.close()
