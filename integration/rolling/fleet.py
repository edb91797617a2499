"""A group whose members are restarted one by one, watched at every poll."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager

from integration.kafka_python.client import KafkaPython
from integration.rolling.members import Joins, RollingMember, Settings
from integration.support.broker import Broker, Deadline
from integration.support.client import TopicPartition
from integration.support.group_suite import PARTITION_COUNT, SETTLE_TIMEOUT_S, is_settled, new_topic

_POLL_TIMEOUT_S = 0.03
_RECORD_COUNT_PER_STEP = 60


class Fleet:
    """Members by slot, all subscribed to one topic; the group is named as the topic.

    An error that a client reports ends the test: their polls raise it.
    """

    def __init__(self, broker: Broker) -> None:
        """A topic of its own, and nobody yet."""
        self.bootstrap = broker.bootstrap
        self.topic = new_topic(KafkaPython(), broker)
        self.members: list[RollingMember] = []
        self._expected = {TopicPartition(self.topic, partition) for partition in range(PARTITION_COUNT)}
        self._produced: set[str] = set()
        self._received: set[str] = set()

    @property
    def group_id(self) -> str:
        """The id of the group."""
        return self.topic

    def start(self, join: Joins, settings: Settings) -> None:
        """Start a member in a new slot, and let the group settle."""
        self.members.append(join(self.bootstrap, self.group_id, self.topic, settings))
        self.settle()

    def restart(self, slot: int, join: Joins, settings: Settings) -> None:
        """Close the member in `slot`, start another there at once, and let the group settle and consume."""
        self._end(self.members.pop(slot))
        self.members.insert(slot, join(self.bootstrap, self.group_id, self.topic, settings))
        self.settle()
        self._consume()

    def stop(self, slot: int) -> None:
        """Close the member in `slot` and give the slot up; a static member stays in the group."""
        self._end(self.members.pop(slot))

    def settle(self) -> None:
        """Poll until the members share all partitions, and never see one with two owners meanwhile."""
        deadline = Deadline(SETTLE_TIMEOUT_S)
        while not is_settled(owned := self.owned(), self._expected):
            deadline.check(f"the members share {len(self._expected)} partitions; they own {owned}")
            self.poll()
            self._require_one_owner_each()

    def owned(self) -> list[frozenset[TopicPartition]]:
        """What each member believes it owns, by slot."""
        return [member.assignment() for member in self.members]

    def generations(self) -> list[int]:
        """The generation of each member, by slot."""
        return [member.generation() for member in self.members]

    def close(self) -> None:
        """Close all members at the same time.

        A LeaveGroup waits on its connection behind a parked JoinGroup, and that for the members that are not polled.
        """
        if self.members:
            with ThreadPoolExecutor(len(self.members)) as threads:
                closing = [threads.submit(member.close) for member in self.members]
            self.members.clear()
            for each in closing:
                each.result()

    def _end(self, member: RollingMember) -> None:
        """Close this member while the others go on: see `close`."""
        with ThreadPoolExecutor(1) as thread:
            closing = thread.submit(member.close)
            while not wait([closing], _POLL_TIMEOUT_S).done:
                self.poll()
        closing.result()

    def poll(self) -> None:
        """Poll each member once."""
        for member in self.members:
            self._received |= {record.value for record in member.poll(_POLL_TIMEOUT_S)}

    def _require_one_owner_each(self) -> None:
        """Only among members that give up their partitions before they join: the others' view is old meanwhile."""
        owned = [member.assignment() for member in self.members if member.gives_up_before_joining]
        assert sum(map(len, owned)) == len(frozenset().union(*owned)), f"partitions with two owners: {owned}"

    def _consume(self) -> None:
        """Produce some records, and poll until everything ever produced was received at least once."""
        first = len(self._produced)
        values = [str(number) for number in range(first, first + _RECORD_COUNT_PER_STEP)]
        KafkaPython().produce(self.bootstrap, self.topic, values)
        self._produced.update(values)
        deadline = Deadline(SETTLE_TIMEOUT_S)
        while missing := self._produced - self._received:
            deadline.check(f"all records; missing are {sorted(missing, key=int)}")
            self.poll()


@contextmanager
def fleet(broker: Broker) -> Iterator[Fleet]:
    """An empty `Fleet`, whose members are closed in the end."""
    made = Fleet(broker)
    try:
        yield made
    finally:
        made.close()
