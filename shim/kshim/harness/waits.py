"""Waiting until something is true of a cluster: looked at again after each event, never by polling."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from kshim.harness.groups import GroupView, Partitions, committed, group_view
from kshim.harness.record import Record
from kshim.partitions.fetch_purgatory import WaitingFetch

if TYPE_CHECKING:
    from kshim.broker.cluster import Cluster
    from kshim.coordinator.step import Event, Step

T = TypeVar("T")

_FOR_EVER_MS: Final = 1 << 50


class _Wait(NamedTuple):
    look: Callable[[], Any]
    future: Future[Any]


class Waits:
    """What is waited for in a cluster. Used in the broker's loop only; the futures may be waited for anywhere.

    `until(look)` is answered with what `look` returns, as soon as that is not None. It is called at once, and
    after each event and each append of a coordinator, and when one has been loaded.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._waits: list[_Wait] = []
        self._closed: Exception | None = None
        cluster.event_listeners.append(self._on_event)
        cluster.steps.on_appended.append(self._on_appended)
        cluster.groups.loader.on_loaded.append(self.look_again)

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self._waits)

    def until(self, look: Callable[[], T | None]) -> Future[T]:
        """A future of what `look` returns; `cancel` gives it up, and so does an exception of `look`."""
        future: Future[T] = Future()
        if self._closed is not None:
            future.set_exception(self._closed)
            return future
        wait = _Wait(look, future)
        self._waits.append(wait)
        self._look(wait)
        return future

    def until_appended(self, cluster: Cluster, topic_name: str, look: Callable[[], T | None]) -> Future[T]:
        """As `until`, and looked at again after each append to a topic, which is noticed as by a consumer: with a Fetch.

        Raises LookupError when there is no such topic.
        """
        topic = cluster.topics.named(topic_name)
        if topic is None:
            raise LookupError(f"there is no topic {topic_name}")
        future = self.until(look)

        def watch() -> None:
            if not future.done():
                fetch = WaitingFetch(object(), topic.partitions, 1, _FOR_EVER_MS, on_appended)
                cluster.fetch_purgatory.add(fetch)

        def on_appended() -> None:
            self.look_again()
            watch()

        watch()
        return future

    def until_anything(self, cluster: Cluster, look: Callable[[], T | None]) -> Future[T]:
        """As `until`, and looked at again after each append to any topic."""
        connection = object()
        topic_count = -1

        def watch() -> None:
            nonlocal topic_count
            topic_count = len(cluster.topics)
            cluster.fetch_purgatory.cancel(connection)
            partitions = [each for topic in cluster.topics if topic.name[:2] != "__" for each in topic.partitions]
            cluster.fetch_purgatory.add(WaitingFetch(connection, partitions, 1, _FOR_EVER_MS, on_appended))

        def on_appended() -> None:
            if not future.done():
                watch()
                self.look_again()

        def look_and_watch() -> T | None:
            found = look()
            if found is None and topic_count != len(cluster.topics):
                watch()
            return found

        future = self.until(look_and_watch)
        return future

    def give_up(self, future: Future[Any], error: Exception) -> None:
        """Nobody is to wait for this any longer: it raises `error`, unless it is over."""
        for wait in tuple(self._waits):
            if wait.future is future:
                self._settle(wait, error=error)

    def close(self, error: Exception) -> None:
        """All that is waited for raises `error`, and all that will be."""
        self._closed = error
        for wait in tuple(self._waits):
            self._settle(wait, error=error)

    def look_again(self) -> None:
        """Something has changed."""
        for wait in tuple(self._waits):
            self._look(wait)

    def _on_event(self, event: Event) -> None:
        if self._waits:
            self.look_again()

    def _on_appended(self, step: Step) -> None:
        if self._waits:
            self.look_again()

    def _look(self, wait: _Wait) -> None:
        try:
            found = wait.look()
        except Exception as error:
            self._settle(wait, error=error)
            return
        if found is not None or wait.future.cancelled():
            self._settle(wait, found)

    def _settle(self, wait: _Wait, found: Any = None, *, error: Exception | None = None) -> None:
        self._waits = [other for other in self._waits if other is not wait]
        if not wait.future.set_running_or_notify_cancel():
            return  # nobody waits any more
        if error is not None:
            wait.future.set_exception(error)
        else:
            wait.future.set_result(found)


# What tests wait for; each returns None as long as it is not so.


def stable(cluster: Cluster, group_id: str, members: int | None) -> GroupView | None:
    """The group, once it `is_settled` and has so many members (None: at least one)."""
    view = group_view(cluster, group_id)
    return view if is_settled(view) and members in (None, len(view.members)) else None


def is_settled(view: GroupView) -> bool:
    """Whether a group is Stable, each of its members has its assignment, and nothing is left to be assigned."""
    return view.is_synced and bool(view.members) and not view.unassigned


def empty(cluster: Cluster, group_id: str) -> GroupView | None:
    """The group, once it has no member: it is Empty, or not there at all."""
    view = group_view(cluster, group_id)
    return view if view.state in ("Empty", "Dead") else None


def grown_to(
    cluster: Cluster, topic_name: str, partition: int | None, count: int, isolation: str
) -> list[Record] | None:
    """The records of a topic, or of one partition, once there are so many. Raises LookupError."""
    from kshim.harness.records import records_of

    found = records_of(cluster, topic_name, partition, isolation=isolation)
    return found if len(found) >= count else None


def at_generation(cluster: Cluster, group_id: str, generation: int) -> GroupView | None:
    """The group, once it has reached a generation."""
    view = group_view(cluster, group_id)
    return view if view.generation >= generation else None


def committed_to(cluster: Cluster, group_id: str, topic: str, partition: int, offset: int) -> int | None:
    """The committed offset of a partition, once it is `offset` or later."""
    found = committed(cluster, group_id).get((topic, partition))
    return found if found is not None and found >= offset else None


def assigned(cluster: Cluster, group_id: str, client_id: str) -> Partitions | None:
    """The partitions of the member with a client id (or instance or member id), once it has been given some."""
    view = group_view(cluster, group_id)
    for member in view.members:
        if (
            member.is_synced
            and member.assignment
            and client_id in (member.client_id, member.instance_id, member.member_id)
        ):
            return member.assignment
    return None
