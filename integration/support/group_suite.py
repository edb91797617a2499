"""What every client must see of a consumer group, on kshim as on Apache Kafka.

A client's folder has one test module that derives a class from `GroupSuite` and says which client it is.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Literal, TypeVar

import pytest

from integration.support.broker import Broker, Deadline
from integration.support.client import Client, Member, Record, TopicPartition

RECORD_COUNT = 10_000
PARTITION_COUNT = 6
SHORTEST_SESSION_TIMEOUT_MS = 6_000
"""The least that Kafka accepts by default (`group.min.session.timeout.ms`)."""

SETTLE_TIMEOUT_S = 90  # a client may wait long for a broker that starts again on a busy machine
"""For what needs no timeout to run out: less than the 45 s default session timeout of the clients."""

M = TypeVar("M", bound=Member)
End = Literal["stop", "kill"]

POLL_TIMEOUT_S = 0.1


class GroupSuite:
    """Real clients with their default settings, one group a test."""

    @pytest.fixture
    def client(self) -> Client:
        """The client library; each folder overrides this."""
        raise AssertionError("a suite must name its client")

    def test_all_of_10_000_records_arrive_once_and_in_order(self, client: Client, broker: Broker) -> None:
        topic = new_topic(client, broker)
        client.produce(broker.bootstrap, topic, map(str, range(RECORD_COUNT)))
        with members() as group:
            group.add(client.join(broker.bootstrap, topic, [topic]))
            records = poll_until(group, RECORD_COUNT)
        assert_each_once_and_in_order(records, RECORD_COUNT)
        assert {record.partition for record in records} == set(range(PARTITION_COUNT))

    def test_three_members_joining_in_turn_share_the_partitions(self, client: Client, broker: Broker) -> None:
        topic = new_topic(client, broker)
        with members() as group:
            for count in (1, 2, 3):
                group.add(client.join(broker.bootstrap, topic, [topic]))
                settle(group, [topic])
                # Both clients prefer the range assignor, which is even when the counts divide.
                assert sizes(group) == [PARTITION_COUNT // count] * count

    def test_members_take_over_when_one_leaves(self, client: Client, broker: Broker) -> None:
        topic = new_topic(client, broker)
        with members() as group:
            leaver, *_ = [group.add(client.join(broker.bootstrap, topic, [topic])) for _ in range(3)]
            settle(group, [topic])
            group.leave(leaver)
            settle(group, [topic])
            assert sizes(group) == [3, 3]

    def test_a_killed_member_is_evicted_after_its_session_timeout(self, client: Client, broker: Broker) -> None:
        topic = new_topic(client, broker)
        with members() as group:
            group.add(client.join(broker.bootstrap, topic, [topic]))
            doomed = client.join_doomed(
                broker.bootstrap, topic, [topic], session_timeout_ms=SHORTEST_SESSION_TIMEOUT_MS
            )
            group.add(doomed)
            settle(group, [topic])
            doomed.crash()
            group.forget(doomed)
            assert client.member_count(broker.bootstrap, topic) == 2, "a lost connection ends no membership"
            settle(group, [topic])
            assert sizes(group) == [6]

    @pytest.mark.parametrize("end", ["stop", pytest.param("kill", marks=pytest.mark.long)])
    def test_a_new_member_resumes_at_the_committed_offsets_after_a_restart(
        self, client: Client, durable_broker: Broker, end: End
    ) -> None:
        broker = durable_broker
        topic = new_topic(client, broker)
        client.produce(broker.bootstrap, topic, map(str, range(2_000)))
        with members() as group:
            member = group.add(client.join(broker.bootstrap, topic, [topic]))
            first = poll_until(group, 500)
            member.commit()
        restart(client, broker, topic, end)
        client.produce(broker.bootstrap, topic, map(str, range(2_000, 3_000)))
        with members() as group:
            group.add(client.join(broker.bootstrap, topic, [topic]))
            rest = poll_until(group, 3_000 - len(first))
        assert_each_once_and_in_order([*first, *rest], 3_000)

    def test_a_member_lives_through_a_restart_of_the_broker(self, client: Client, durable_broker: Broker) -> None:
        broker = durable_broker
        topic = new_topic(client, broker)
        client.produce(broker.bootstrap, topic, map(str, range(500)))
        with members() as group:
            member = group.add(client.join(broker.bootstrap, topic, [topic]))
            first = poll_until(group, 500)
            member.commit()
            restart(client, broker, topic)
            client.produce(broker.bootstrap, topic, map(str, range(500, 1_000)))
            rest = poll_until(group, 500)
        assert_each_once_and_in_order([*first, *rest], 1_000)

    def test_a_regex_subscription_picks_no_internal_topic(self, client: Client, broker: Broker) -> None:
        prefix = new_name()
        topics = [f"{prefix}-one", f"{prefix}-two"]
        for topic in topics:
            client.create_topic(broker.bootstrap, topic, PARTITION_COUNT)
        with members() as group:
            group.add(client.join(broker.bootstrap, f"{prefix}-other", topics))
            settle(group, topics)
        assert "__consumer_offsets" in client.topics(broker.bootstrap), "there is no internal topic to pick"
        with members() as group:
            group.add(client.join_pattern(broker.bootstrap, prefix, f"{prefix}-.*|__.*"))
            settle(group, topics)


class Members:
    """The live members of one group, closed at the end of the test."""

    def __init__(self) -> None:
        """Nobody yet."""
        self.live: list[Member] = []

    def __iter__(self) -> Iterator[Member]:
        """The members, in the order in which they came."""
        return iter(self.live)

    def add(self, member: M) -> M:
        """Let it take part in what polls and settles from now on."""
        self.live.append(member)
        return member

    def poll(self) -> list[Record]:
        """What one poll of each member, in turn, returns."""
        return [record for member in self.live for record in member.poll(POLL_TIMEOUT_S)]

    def leave(self, member: Member) -> None:
        """Close it: it leaves the group."""
        self.forget(member)
        member.close()

    def forget(self, member: Member) -> None:
        """Poll it no more."""
        self.live.remove(member)


@contextmanager
def members() -> Iterator[Members]:
    """An empty `Members`, all of which are closed in the end."""
    group = Members()
    try:
        yield group
    finally:
        for member in list(group):
            group.leave(member)


def new_name() -> str:
    """A name that no other test uses: the brokers are shared."""
    return f"suite-{uuid.uuid4().hex[:12]}"


def new_topic(client: Client, broker: Broker) -> str:
    """A topic with `PARTITION_COUNT` partitions. The tests name the group as the topic."""
    topic = new_name()
    client.create_topic(broker.bootstrap, topic, PARTITION_COUNT)
    client.wait_for_leaders(broker.bootstrap, topic, PARTITION_COUNT)
    return topic


def restart(client: Client, broker: Broker, topic: str, end: End = "stop") -> None:
    """Stop or kill the broker and start it again, until it leads the partitions of `topic`.

    Without that wait an idempotent producer can run into a race of Kafka's own: a first batch is refused because the
    partition is not led yet, a second one in flight is taken, and the first is then out of order for ever.
    """
    broker.stop() if end == "stop" else broker.kill()
    broker.start()
    client.wait_for_leaders(broker.bootstrap, topic, PARTITION_COUNT)


def settle(group: Members, topics: Sequence[str]) -> None:
    """Poll the members until each owns something, no two own the same, and together they own all."""
    expected = {TopicPartition(topic, partition) for topic in topics for partition in range(PARTITION_COUNT)}
    deadline = Deadline(SETTLE_TIMEOUT_S)
    while not is_settled([member.assignment() for member in group], expected):
        owned = [sorted(member.assignment()) for member in group]
        deadline.check(f"the members share {len(expected)} partitions; they own {owned}")
        group.poll()


def is_settled(assignments: Sequence[frozenset[TopicPartition]], expected: set[TopicPartition]) -> bool:
    """Whether the assignments are non-empty, disjoint and complete."""
    union = frozenset().union(*assignments)
    return all(assignments) and union == expected and sum(map(len, assignments)) == len(union)


def sizes(group: Members) -> list[int]:
    """How many partitions each member owns."""
    return [len(member.assignment()) for member in group]


def poll_until(group: Members, count: int) -> list[Record]:
    """Poll the members until they have together returned `count` records, and once more."""
    records: list[Record] = []
    deadline = Deadline(SETTLE_TIMEOUT_S)
    while len(records) < count:
        deadline.check(f"{count} records; there were {len(records)}")
        records += group.poll()
    return records + group.poll()


def assert_each_once_and_in_order(records: Iterable[Record], count: int) -> None:
    """The values 0 to `count` - 1 each came once; in each partition, offsets have no gap and values only grow."""
    by_partition: defaultdict[int, list[Record]] = defaultdict(list)
    for record in records:
        by_partition[record.partition].append(record)
    for partition, of_partition in by_partition.items():
        offsets = [record.offset for record in of_partition]
        values = [int(record.value) for record in of_partition]
        assert offsets == list(range(len(offsets))), f"offsets of partition {partition}"
        assert values == sorted(values), f"values of partition {partition}"
    values = sorted(int(record.value) for of_partition in by_partition.values() for record in of_partition)
    assert values == list(range(count))
