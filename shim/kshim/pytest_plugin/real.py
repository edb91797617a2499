"""A true Kafka with the face of `Kshim`, as far as that goes; what only kshim can do skips the test."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NoReturn, Self, TypeVar

import pytest

from kshim.harness.groups import GroupView, MemberView, Partitions
from kshim.harness.record import Record
from kshim.harness.records import check_isolation
from kshim.harness.waits import is_settled
from kshim.pytest_plugin.arguments import Arguments
from kshim.pytest_plugin.kafka_admin import KafkaAdmin, until
from kshim.testing import AsyncGroup, AsyncKshim, Group, Kshim
from kshim.testing.arguments import TIMEOUT_S, check_integer, check_text, checked_records
from kshim.testing.awaiting import awaited
from kshim.testing.client_config import Access, client_config
from kshim.testing.group import SeenGroup
from kshim.testing.naming import shown_as
from kshim.wording import counted

if TYPE_CHECKING:
    from kshim.harness.record import Headers

T = TypeVar("T")

_OF_OBJECTS: Final = frozenset({"clock"})
"""Attributes of a `Kshim` that its class does not have."""


class _OnlyPartly:
    """What stands for a class of kshim, and skips the test that uses what only kshim has."""

    _stands_for: type
    _name: str
    kafka: KafkaFace

    def __getattr__(self, name: str) -> Any:
        __tracebackhide__ = True
        if not name.startswith("_") and (hasattr(self._stands_for, name) or name in _OF_OBJECTS):
            self.kafka.skip(f"{self._name}.{name}")
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")


@shown_as("Kshim")
class KafkaFace(_OnlyPartly):
    """What `RealKafka` and `AsyncRealKafka` have in common: the part of `Kshim` that any Kafka can play.

    `topics` and `groups` are those that the present test has made or named: they are deleted when it has ended.
    """

    _name = "kshim"

    def __init__(self, bootstrap_servers: str, admin: KafkaAdmin, executor: ThreadPoolExecutor) -> None:
        self.kafka = self
        self.bootstrap_servers = bootstrap_servers
        self.admin = admin
        self.executor = executor
        self.topics: set[str] = set()
        self.groups: set[str] = set()
        self.why_skipped: str | None = None
        """Why this has skipped the present test."""

    def __repr__(self) -> str:
        return f"<Kafka at {self.bootstrap_servers}>"

    def skip(self, what: str) -> NoReturn:
        """End the test: it needs kshim."""
        __tracebackhide__ = True
        self.why_skipped = f"{what} needs kshim: this run is on the Kafka at {self.bootstrap_servers}"
        pytest.skip(self.why_skipped)

    def client_config(self, client: str, *, user: str | None = None, mechanism: str | None = None) -> dict[str, Any]:
        """The options with which a client connects, under its own names. Raises ValueError for a client there is not."""
        if user is not None or mechanism is not None:
            self.kafka.skip("kshim.client_config with a user")
        return client_config(client, Access(self.bootstrap_servers, "PLAINTEXT"))

    def create_topic(self, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> None:
        """Make a topic, which is deleted after the test. Raises KafkaError as CreateTopics answers."""
        check_text("name", name)
        check_integer("partitions", partitions)
        self.admin.create_topic(name, partitions, configs or {})
        self.kafka.topics.add(name)

    def produce(
        self,
        topic: str,
        *values: bytes | str | Record | None,
        key: bytes | str | None = None,
        partition: int | None = None,
        headers: Headers = (),
    ) -> list[Record]:
        """See `Kshim.produce`."""
        return self.admin.produce(topic, checked_records(topic, values, key, partition, headers))

    def records(self, topic: str, partition: int | None = None, *, isolation: str = "read_committed") -> list[Record]:
        """See `Kshim.records`."""
        check_text("topic", topic)
        check_isolation(isolation)
        return self.admin.records(topic, partition, isolation)

    def _grown_to(self, topic: str, count: int, partition: int | None, isolation: str, timeout: float) -> list[Record]:
        check_integer("count", count)

        def look() -> list[Record] | None:
            found = self.records(topic, partition, isolation=isolation)
            return found if len(found) >= count else None

        return until(look, timeout, lambda: f"{topic} did not have {counted(count, 'record')} within {timeout:g} s")

    def group_ids(self) -> list[str]:
        """Every group there is, sorted."""
        return self.admin.group_ids()

    def offsets(self, group_id: str) -> dict[tuple[str, int], int]:
        """The committed offset of each partition, by (topic, partition)."""
        check_text("group_id", group_id)
        self.kafka.groups.add(group_id)
        return self.admin.committed(group_id)


class RealKafka(KafkaFace):
    """A Kafka that runs elsewhere: `with RealKafka("localhost:9092") as kafka:`. Raises ValueError."""

    _stands_for = Kshim

    def __init__(self, bootstrap_servers: str) -> None:
        super().__init__(
            bootstrap_servers,
            KafkaAdmin(bootstrap_servers),
            ThreadPoolExecutor(thread_name_prefix="kshim-kafka-real"),
        )

    def __enter__(self) -> Self:
        """Raises ConnectionError when nobody answers."""
        try:
            self.group_ids()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.executor.shutdown()
        self.admin.close()

    @contextmanager
    def clean(self, asked: Arguments, rules: Sequence[Mapping[str, Any]]) -> Iterator[RealKafka]:
        """For one test, with the topics that it asks for; afterwards delete its topics and groups.

        Skips the test when its markers ask for what only kshim can do.
        """
        self.why_skipped = None
        for name in asked:
            if name != "topics":
                self.skip(f"@pytest.mark.kshim({name}=...)")
        if rules:
            self.skip("@pytest.mark.kshim_fault")
        before = set(self.group_ids())
        try:
            for name, partitions in asked.get("topics", {}).items():
                self.create_topic(name, partitions)
            yield self
        finally:
            self.admin.delete_topics(sorted(self.topics))
            for group_id in sorted(self.groups - before):
                self.admin.delete_group(group_id)
            self.topics.clear()
            self.groups.clear()

    def as_async(self) -> AsyncRealKafka:
        """The same, with waits to be awaited."""
        return AsyncRealKafka(self)

    def wait_records(
        self,
        topic: str,
        count: int = 1,
        *,
        partition: int | None = None,
        isolation: str = "read_committed",
        timeout: float = TIMEOUT_S,
    ) -> list[Record]:
        """See `Kshim.wait_records`."""
        return self._grown_to(topic, count, partition, isolation, timeout)

    def group(self, group_id: str) -> RealGroup:
        """A consumer group, whether or not it exists yet."""
        check_text("group_id", group_id)
        self.kafka.groups.add(group_id)
        return RealGroup(self, group_id)


class AsyncRealKafka(KafkaFace):
    """`RealKafka`, with waits to be awaited."""

    _stands_for = AsyncKshim

    def __init__(self, kafka: RealKafka) -> None:
        super().__init__(kafka.bootstrap_servers, kafka.admin, kafka.executor)
        self.kafka = kafka

    async def wait_records(
        self,
        topic: str,
        count: int = 1,
        *,
        partition: int | None = None,
        isolation: str = "read_committed",
        timeout: float = TIMEOUT_S,  # noqa: ASYNC109
    ) -> list[Record]:
        """See `Kshim.wait_records`."""
        return await awaited(self.executor.submit(self._grown_to, topic, count, partition, isolation, timeout))

    def group(self, group_id: str) -> AsyncRealGroup:
        """A consumer group, whether or not it exists yet."""
        check_text("group_id", group_id)
        self.kafka.groups.add(group_id)
        return AsyncRealGroup(self.kafka, group_id)


@shown_as("Group")
class GroupOfKafka(SeenGroup, _OnlyPartly):
    """A group, as far as Kafka tells of it. The `generation` of `view` is -1: DescribeGroups does not say it."""

    _name = "kshim.group(...)"

    def __init__(self, kafka: KafkaFace, group_id: str) -> None:
        self.kafka = kafka
        self.group_id = group_id

    def __repr__(self) -> str:
        return f"<group {self.group_id} of {self.kafka!r}>"

    @property
    def view(self) -> GroupView:
        """All of it at one moment."""
        return self.kafka.admin.group(self.group_id)

    @property
    def offsets(self) -> dict[tuple[str, int], int]:
        """The committed offset of each partition, by (topic, partition)."""
        return self.kafka.admin.committed(self.group_id)

    @property
    def lag(self) -> dict[tuple[str, int], int]:
        """How far the committed offset of each partition is from its end, by (topic, partition)."""
        positions: dict[tuple[str, int], int | None] = dict(self.offsets)
        for partitions in self.assignment.values():
            positions.update(dict.fromkeys(set(partitions) - set(positions)))
        found = {}
        for (topic, index), offset in sorted(positions.items()):
            start, end = self.kafka.admin.offsets_of(topic, index)
            found[topic, index] = max(end - (start if offset is None else offset), 0)
        return found

    def expel(self, member: str | MemberView) -> str:
        """Remove a member as an administrator does, and return its id. Raises LookupError."""
        name = member.member_id if isinstance(member, MemberView) else member
        found = [each for each in self.members if name in (each.member_id, each.instance_id, each.client_id)]
        if len(found) != 1:
            problem = f"{len(found)} members" if found else "no member"
            known = ", ".join(each.instance_id or each.member_id for each in found or self.members) or "none"
            raise LookupError(
                f"group {self.group_id} has {problem} with the id {name!r}; give the member id of one of: {known}"
            )
        self.kafka.admin.remove_member(self.group_id, found[0])
        return found[0].member_id

    def _until(self, look: Callable[[], T | None], timeout: float, what: str) -> T:
        def describe() -> str:
            view = self.view
            members = ", ".join(map(str, view.members)) or "none"
            return f"group {self.group_id} {what} within {timeout:g} s: it is {view.state}, with the members: {members}"

        return until(look, timeout, describe)

    def _stable(self, members: int | None, timeout: float) -> GroupView:
        def look() -> GroupView | None:
            view = self.view
            return view if is_settled(view) and members in (None, len(view.members)) else None

        return self._until(
            look, timeout, "was not stable" if members is None else f"was not stable with {counted(members, 'member')}"
        )

    def _empty(self, timeout: float) -> GroupView:
        def look() -> GroupView | None:
            view = self.view
            return view if not view.members and view.state in ("Empty", "Dead") else None

        return self._until(look, timeout, "was not empty")

    def _committed(self, topic: str, partition: int, offset: int, timeout: float) -> int:
        def look() -> int | None:
            found = self.offsets.get((topic, partition), -1)
            return found if found >= offset else None

        return self._until(look, timeout, f"had not committed offset {offset} of {topic}-{partition}")

    def _assigned(self, client_id: str, timeout: float) -> Partitions:
        def look() -> Partitions | None:
            view = self.view
            names = [each for each in view.members if client_id in (each.client_id, each.instance_id, each.member_id)]
            return next((each.assignment for each in names if each.assignment and view.is_synced), None)

        return self._until(look, timeout, f"had assigned no partitions to {client_id}")

    def _wanted(self, is_so: Callable[[GroupOfKafka], object], timeout: float) -> GroupView:
        def look() -> GroupView | None:
            return self.view if is_so(self) else None

        return self._until(look, timeout, "was not as wanted")


class RealGroup(GroupOfKafka):
    """With waits that block the caller."""

    _stands_for = Group

    def wait_stable(self, members: int | None = None, timeout: float = TIMEOUT_S) -> GroupView:
        """See `Group.wait_stable`."""
        return self._stable(members, timeout)

    def wait_empty(self, timeout: float = TIMEOUT_S) -> GroupView:
        """See `Group.wait_empty`."""
        return self._empty(timeout)

    def wait_committed(self, topic: str, partition: int, offset: int, timeout: float = TIMEOUT_S) -> int:
        """See `Group.wait_committed`."""
        return self._committed(topic, partition, offset, timeout)

    def wait_assigned(self, client_id: str, timeout: float = TIMEOUT_S) -> Partitions:
        """See `Group.wait_assigned`."""
        return self._assigned(client_id, timeout)

    def wait_until(self, is_so: Callable[[GroupOfKafka], object], timeout: float = TIMEOUT_S) -> GroupView:
        """See `Group.wait_until`."""
        return self._wanted(is_so, timeout)


class AsyncRealGroup(GroupOfKafka):
    """With waits to be awaited."""

    _stands_for = AsyncGroup

    async def wait_stable(self, members: int | None = None, timeout: float = TIMEOUT_S) -> GroupView:  # noqa: ASYNC109
        """See `Group.wait_stable`."""
        return await self._awaited(self._stable, members, timeout)

    async def wait_empty(self, timeout: float = TIMEOUT_S) -> GroupView:  # noqa: ASYNC109
        """See `Group.wait_empty`."""
        return await self._awaited(self._empty, timeout)

    async def wait_committed(self, topic: str, partition: int, offset: int, timeout: float = TIMEOUT_S) -> int:  # noqa: ASYNC109
        """See `Group.wait_committed`."""
        return await self._awaited(self._committed, topic, partition, offset, timeout)

    async def wait_assigned(self, client_id: str, timeout: float = TIMEOUT_S) -> Partitions:  # noqa: ASYNC109
        """See `Group.wait_assigned`."""
        return await self._awaited(self._assigned, client_id, timeout)

    async def wait_until(self, is_so: Callable[[GroupOfKafka], object], timeout: float = TIMEOUT_S) -> GroupView:  # noqa: ASYNC109
        """See `Group.wait_until`."""
        return await self._awaited(self._wanted, is_so, timeout)

    async def _awaited(self, wait: Callable[..., T], *arguments: Any) -> T:
        future: Future[T] = self.kafka.executor.submit(wait, *arguments)
        return await awaited(future)
