"""Members of a group, in one or several applications, as a situation watches them."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from integration.clients.application import Application, Delivered
from integration.clients.catalogue import CONSUMER
from integration.support.broker import Deadline
from integration.support.client import TopicPartition

SETTLE_TIMEOUT_S = 60.0
"""For a group to share its partitions: as long as the default session timeout and a bit, on a busy machine."""
_LOOK_AGAIN_S = 0.05
_OF_THE_BROKER = ("session_timeout_ms", "heartbeat_interval_ms")
"""No settings of a client in the consumer protocol: the brokers of the matrix have them (`matrix.GROUPS`)."""


class Change(NamedTuple):
    """A rebalance callback: `assigned`, `revoked` or `lost`."""

    kind: str
    partitions: frozenset[TopicPartition]


class Member:
    """A consumer that was started, and what it has told so far."""

    def __init__(self, application: Application, name: str) -> None:
        self.application = application
        self.name = name
        self.assignment: frozenset[TopicPartition] = frozenset()
        self.records: list[Delivered] = []
        self.changes: list[Change] = []
        self.errors: list[str] = []

    def take(self, told: dict[str, Any]) -> None:
        """Add what a log told."""
        self.records += [Delivered(*each) for each in told["records"]]
        self.assignment = _partitions(told["assignment"])
        self.changes += [Change(kind, _partitions(partitions)) for kind, partitions in told["events"]]
        self.errors += told["errors"]


class Group:
    """Started members of one group. Members that stopped stay in `all`."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.members: list[Member] = []
        self.all: list[Member] = []

    def start(self, application: Application, *topics: str, **settings: Any) -> Member:
        """A member more: `settings` are those of `member_start`. It has not joined yet."""
        member = Member(application, f"{self.group_id}-{len(self.all)}")
        if application.group_protocol == CONSUMER:
            settings = {name: value for name, value in settings.items() if name not in _OF_THE_BROKER}
        application.driver.call(
            "member_start", member=member.name, group=self.group_id, topics=list(topics) or None, **settings
        )
        self.members.append(member)
        self.all.append(member)
        return member

    def stop(self, member: Member, *, commit: bool = False) -> None:
        """Close it, and take what it had not told yet."""
        told = member.application.driver.call("member_stop", member=member.name, commit=commit)
        member.records += [Delivered(*each) for each in told["records"]]
        self.members.remove(member)

    def forget(self, application: Application) -> list[Member]:
        """Leave out the members of an application that was killed or frozen, and answer them."""
        gone = [member for member in self.members if member.application is application]
        self.members = [member for member in self.members if member.application is not application]
        return gone

    def look(self) -> None:
        """Take what all members have to tell."""
        by_application: dict[Application, list[Member]] = defaultdict(list)
        for member in self.members:
            by_application[member.application].append(member)
        for application, members in by_application.items():
            told = application.driver.call("member_log", members=[member.name for member in members])["members"]
            for member in members:
                member.take(told[member.name])

    def wait(self, what: str, holds: Callable[[], bool], *, timeout_s: float = SETTLE_TIMEOUT_S) -> None:
        """Look until it holds. Raises AssertionError with the assignments if it does not in time."""
        deadline = Deadline(timeout_s)
        while True:
            self.look()
            if holds():
                return
            shown = {member.name: (sorted(member.assignment), member.errors) for member in self.members}
            deadline.check(f"{what}; assignments and errors are {shown}")
            time.sleep(_LOOK_AGAIN_S)

    def settle(self, partitions: Iterable[TopicPartition], *, sizes: list[int] | None = None) -> None:
        """Wait until every partition has one owner and, if given, the members own so many each, sorted."""
        wanted = sorted(partitions)

        def shared() -> bool:
            owned = sorted(each for member in self.members for each in member.assignment)
            return owned == wanted and (sizes is None or self.sizes() == sizes)

        self.wait(f"{len(wanted)} partitions have one owner each, sizes {sizes}", shared)

    def sizes(self) -> list[int]:
        """How many partitions each member owns, sorted."""
        return sorted(len(member.assignment) for member in self.members)

    def records(self) -> list[Delivered]:
        """What all members got, those that stopped too."""
        return [record for member in self.all for record in member.records]

    def wait_for_values(self, values: Iterable[str], *, timeout_s: float = SETTLE_TIMEOUT_S) -> None:
        """Until each of these was delivered at least once."""
        wanted = set(values)

        def missing() -> set[str]:
            return wanted - {record.value for record in self.records()}

        try:
            self.wait("all values", lambda: not missing(), timeout_s=timeout_s)
        except AssertionError as late:
            raise AssertionError(f"{len(missing())} of {len(wanted)} values missing: {late}") from None

    def require_each_once(self, values: Iterable[str]) -> None:
        """Each of these was delivered once, and nothing else; in the order of their offsets."""
        counted = Counter(record.value for record in self.records())
        assert counted == Counter(values), f"twice or more: {[v for v, n in counted.items() if n > 1][:10]}"
        for member in self.all:
            require_in_order(member.records)

    def require_no_errors(self) -> None:
        """No member was told of an error."""
        errors = {member.name: member.errors for member in self.all if member.errors}
        assert not errors, f"members report {errors}"


def require_in_order(records: Iterable[Delivered]) -> None:
    """Offsets of each partition rise."""
    last: dict[TopicPartition, int] = {}
    for record in records:
        partition = TopicPartition(record.topic, record.partition)
        assert record.offset > last.get(partition, -1), f"{record} after offset {last[partition]}"
        last[partition] = record.offset


def partitions_of(topic: str, count: int) -> list[TopicPartition]:
    """All partitions of a topic."""
    return [TopicPartition(topic, partition) for partition in range(count)]


def _partitions(lists: Iterable[Iterable[Any]]) -> frozenset[TopicPartition]:
    return frozenset(TopicPartition(*each) for each in lists)
