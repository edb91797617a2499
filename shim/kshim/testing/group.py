"""A consumer group as an object: what it is now, waiting for what it becomes, and what a test does to it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from concurrent.futures import Future
from typing import TYPE_CHECKING, TypeVar

from kshim.harness import groups, rebalances, waits
from kshim.testing.arguments import TIMEOUT_S, check_integer, check_text
from kshim.testing.awaiting import awaited
from kshim.testing.brokers import EVERY_TOPIC
from kshim.testing.naming import shown_as
from kshim.testing.thread import BrokerThread
from kshim.wording import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kshim.broker.cluster import Cluster
    from kshim.coordinator.step import Now
    from kshim.harness.groups import GroupView, MemberView, Partitions
    from kshim.harness.rebalances import Rebalance
    from kshim.testing.brokers import Brokers

T = TypeVar("T")


@shown_as("Group")
class SeenGroup(ABC):
    """What the view of a group says, on kshim and on any other broker. Every property is read when it is asked for."""

    @property
    @abstractmethod
    def view(self) -> GroupView:
        """All of it at one moment."""

    @property
    def state(self) -> str:
        """Kafka's word: Empty, PreparingRebalance, CompletingRebalance, Stable; Dead when there is no such group.

        Of the new protocol: Empty, Assigning, Reconciling, Stable.
        """
        return self.view.state

    @property
    def members(self) -> tuple[MemberView, ...]:
        """The members; on kshim in the order in which they joined."""
        return self.view.members

    @property
    def protocol(self) -> str | None:
        """The name of the assignor that the members have agreed on."""
        return self.view.protocol

    @property
    def is_synced(self) -> bool:
        """Whether every member has its assignment."""
        return self.view.is_synced

    @property
    def unassigned(self) -> Partitions:
        """The (topic, partition) pairs that the members subscribe to and that a further rebalance has still to assign."""
        return self.view.unassigned

    @property
    def assignment(self) -> dict[str, Partitions]:
        """The (topic, partition) pairs of each member, by member id."""
        return self.view.assignment


@shown_as("Group")
class ReadGroup(SeenGroup):
    """What can be seen of a group. Every property is read when it is asked for."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id

    def __repr__(self) -> str:
        return f"<group {self.group_id}>"

    @abstractmethod
    def _read(self, look: Callable[[Cluster, str], T]) -> T:
        """Look at the group in the loop of the brokers."""

    @property
    def view(self) -> GroupView:
        """All of it at one moment."""
        return self._read(groups.group_view)

    @property
    def generation(self) -> int:
        """It counts up with each rebalance that completes; 0 at first. Of the new protocol, the group epoch, which begins with 1."""
        return self.view.generation

    @property
    def offsets(self) -> dict[tuple[str, int], int]:
        """The committed offset of each partition, by (topic, partition)."""
        return self._read(groups.committed)

    @property
    def lag(self) -> dict[tuple[str, int], int]:
        """How far the committed offset of each partition is from its end, by (topic, partition).

        An assigned partition without a committed offset counts from its start.
        """
        return self._read(groups.lag)

    @property
    def rebalances(self) -> tuple[Rebalance, ...]:
        """Every rebalance so far, the oldest first, with why it began, who caused it and how long it took."""
        return self._read(rebalances.rebalances_of)

    def explain(self) -> str:
        """What happened to the group, in plain English, a line for each rebalance."""
        return self._read(rebalances.explain)

    def timeline(self) -> str:
        """Every event of the group in a line, with the seconds since the first."""
        return self._read(rebalances.timeline_of)


class GroupInWait(ReadGroup):
    """A group as the condition of `wait_until` sees it, in the loop of the brokers: all that can be read of it."""

    def __init__(self, cluster: Cluster, group_id: str) -> None:
        super().__init__(group_id)
        self._cluster = cluster

    def _read(self, look: Callable[[Cluster, str], T]) -> T:
        return look(self._cluster, self.group_id)


@shown_as("Group")
class GroupFace(ReadGroup):
    """What can be seen of a group and done to it. Every property is read when it is asked for."""

    def __init__(self, thread: BrokerThread, group_id: str) -> None:
        super().__init__(group_id)
        self._thread = thread

    def assert_rebalances(
        self, *, at_most: int | None = None, at_least: int | None = None, why: str | None = None
    ) -> None:
        """Raises AssertionError, with the reason of each and the timeline, when there were more or fewer.

        Every rebalance that began counts, also one that the next one has superseded, and one that a client has brought about by
        itself, such as `leader_rejoined`. `why`: only those with this reason, as `Rebalance.why` has it. Raises TypeError, ValueError.
        """
        if at_most is None and at_least is None:
            raise TypeError("assert_rebalances needs at_most or at_least: group.assert_rebalances(at_most=1)")
        for name, limit in (("at_most", at_most), ("at_least", at_least)):
            if limit is not None:
                check_integer(name, limit)
        if why is not None and why not in rebalances.REASONS:
            raise ValueError(f"why must be one of {', '.join(rebalances.REASONS)}, not {why!r}")
        reasons = Counter(rebalance.why for rebalance in self.rebalances)
        found = reasons.total() if why is None else reasons[why]
        if (at_most is None or found <= at_most) and (at_least is None or found >= at_least):
            return
        wanted = " and ".join(
            f"{name} {limit}" for name, limit in (("at least", at_least), ("at most", at_most)) if limit is not None
        )
        of = "" if why is None else f" for {why}"
        by_reason = ", ".join(f"{reason} {count}" for reason, count in reasons.items()) or "none"
        raise AssertionError(
            f"group {self.group_id} rebalanced {counted(found, 'time')}{of}, {wanted} expected (by reason: {by_reason})\n"
            f"{self.explain()}\n{self.timeline()}"
        )

    # What is done to it

    def trigger_rebalance(self, reason: str = "triggered by the test") -> None:
        """Have the members rejoin, with no other reason than this. Nothing, while they are doing that.

        In the new protocol, raise the group epoch: members come to the new target, most often the one that they had.
        Raises LookupError when there are none.
        """
        check_text("reason", reason)
        from kshim.harness import actions

        self._do(lambda cluster, now: actions.trigger_rebalance(cluster, self.group_id, reason, now))

    def expel(self, member: str | MemberView) -> str:
        """Remove a member as an administrator does, and return its id: its next request is answered UNKNOWN_MEMBER_ID.

        `member` is one of `members`, or a member, instance or client id. Raises LookupError when there is none, or are several.
        """
        name = member.member_id if isinstance(member, groups.MemberView) else member
        check_text("member", name)
        from kshim.harness import actions

        return self._do(lambda cluster, now: actions.expel(cluster, self.group_id, name, now))

    def expire(self, member: str | MemberView) -> str:
        """End the session of a member, as if no heartbeat had come for its session timeout, and return its id.

        The clock stays where it is, so that no other member's session is touched. `member` is one of `members`, or a member,
        instance or client id. Raises LookupError when there is none, or are several; RuntimeError for one that waits in
        JoinGroup or SyncGroup, which counts as alive.
        """
        name = member.member_id if isinstance(member, groups.MemberView) else member
        check_text("member", name)
        from kshim.harness import actions

        return self._do(lambda cluster, now: actions.expire(cluster, self.group_id, name, now))

    def fence(self, instance_id: str) -> str:
        """Give the place of a static member to another with the same group.instance.id, and return that one's member id.

        The next request of the present one is answered FENCED_INSTANCE_ID. The other sends no heartbeat: its session expires unless
        a client with that instance id joins. Raises LookupError.
        """
        check_text("instance_id", instance_id)
        from kshim.harness import actions

        return self._do(lambda cluster, now: actions.fence(cluster, self.group_id, instance_id, now))

    # How

    def _read(self, look: Callable[[Cluster, str], T]) -> T:
        return self._thread.call(lambda: look(self._thread.brokers.loaded, self.group_id))

    def _do(self, act: Callable[[Cluster, Now], T]) -> T:
        def run() -> T:
            brokers = self._thread.brokers
            return act(brokers.loaded, brokers.clock.now())

        return self._thread.call(run)

    def _until(
        self,
        look: Callable[[Cluster], T | None],
        timeout_s: float,
        what: str,
        more: Callable[[Cluster], Sequence[str]] = lambda _: (),
        *,
        topic: str | None = None,
    ) -> Future[T]:
        """`more`: further sentences for the message of a time-out. `topic` as in `Brokers.until`."""

        def describe(brokers: Brokers) -> str:
            from kshim.harness.hints import hints

            cluster = brokers.cluster
            view = groups.group_view(cluster, self.group_id)
            members = ", ".join(str(member) for member in view.members) or "none"
            lines = [
                f"group {self.group_id} {what} within {timeout_s:g} s: it is {view.state} in generation "
                f"{view.generation}, with the members: {members}"
            ]
            lines += [
                *filter(None, [brokers.why_unused()]),
                *more(cluster),
                *hints(cluster, self.group_id, brokers.clock.now()),
            ]
            return "\n".join([*lines, rebalances.timeline_of(cluster, self.group_id)])

        return self._thread.until(lambda brokers: look(brokers.cluster), timeout_s, describe, topic=topic)

    def _stable(self, members: int | None, timeout: float) -> Future[GroupView]:
        if members is not None:
            check_integer("members", members)
        what = "was not stable" if members is None else f"was not stable with {counted(members, 'member')}"
        return self._until(lambda cluster: waits.stable(cluster, self.group_id, members), timeout, what)

    def _empty(self, timeout: float) -> Future[GroupView]:
        return self._until(lambda cluster: waits.empty(cluster, self.group_id), timeout, "was not empty")

    def _generation(self, generation: int, timeout: float) -> Future[GroupView]:
        check_integer("generation", generation)
        return self._until(
            lambda cluster: waits.at_generation(cluster, self.group_id, generation),
            timeout,
            f"was not in generation {generation}",
        )

    def _committed(self, topic: str, partition: int, offset: int, timeout: float) -> Future[int]:
        check_text("topic", topic)
        check_integer("partition", partition)
        check_integer("offset", offset)
        from kshim.harness.hints import hints_of_commit

        return self._until(
            lambda cluster: waits.committed_to(cluster, self.group_id, topic, partition, offset),
            timeout,
            f"had not committed offset {offset} of {topic}-{partition}",
            lambda cluster: hints_of_commit(cluster, self.group_id, topic, partition),
        )

    def _wanted(self, is_so: Callable[[GroupInWait], object], timeout: float) -> Future[GroupView]:
        def look(cluster: Cluster) -> GroupView | None:
            return groups.group_view(cluster, self.group_id) if is_so(GroupInWait(cluster, self.group_id)) else None

        return self._until(look, timeout, "was not as wanted", topic=EVERY_TOPIC)

    def _assigned(self, client_id: str, timeout: float) -> Future[Partitions]:
        check_text("client_id", client_id)
        return self._until(
            lambda cluster: waits.assigned(cluster, self.group_id, client_id),
            timeout,
            f"had assigned no partitions to {client_id}",
        )


class Group(GroupFace):
    """A group, with waits that block the caller. `timeout` is in seconds of real time.

    Each returns at the moment it is true, and raises TimeoutError with the group's timeline.
    """

    def wait_stable(self, members: int | None = None, timeout: float = TIMEOUT_S) -> GroupView:
        """Until the group is Stable with so many members (None: one or more), each has its assignment, and nothing is left to assign.

        A topic that exists, and to which members subscribe, has to be assigned: a leader that did not know it yet assigns
        again soon; and so does a partition that one cooperative member gives up for another. A member may get no partition.
        """
        return self._thread.result_of(self._stable(members, timeout))

    def wait_empty(self, timeout: float = TIMEOUT_S) -> GroupView:
        """Until it has no members."""
        return self._thread.result_of(self._empty(timeout))

    def wait_generation(self, generation: int, timeout: float = TIMEOUT_S) -> GroupView:
        """Until it has reached a generation."""
        return self._thread.result_of(self._generation(generation, timeout))

    def wait_committed(self, topic: str, partition: int, offset: int, timeout: float = TIMEOUT_S) -> int:
        """Until this offset of a partition, or a later one, is committed; returns which."""
        return self._thread.result_of(self._committed(topic, partition, offset, timeout))

    def wait_assigned(self, client_id: str, timeout: float = TIMEOUT_S) -> Partitions:
        """Until the member with a client id (or instance or member id) has got partitions; returns them."""
        return self._thread.result_of(self._assigned(client_id, timeout))

    def wait_until(self, is_so: Callable[[GroupInWait], object], timeout: float = TIMEOUT_S) -> GroupView:
        """Until `is_so` of the group: `wait_until(lambda group: sum(group.lag.values()) == 0)`.

        It is called in the loop of the brokers, after each change of a group and each append, with an object of which everything
        can be read that can be read of this one; it should only look at that.
        """
        return self._thread.result_of(self._wanted(is_so, timeout))


class AsyncGroup(GroupFace):
    """As `Group`, with waits to be awaited, under asyncio or trio."""

    async def wait_stable(self, members: int | None = None, timeout: float = TIMEOUT_S) -> GroupView:  # noqa: ASYNC109
        """See `Group.wait_stable`."""
        return await awaited(self._stable(members, timeout))

    async def wait_empty(self, timeout: float = TIMEOUT_S) -> GroupView:  # noqa: ASYNC109
        """See `Group.wait_empty`."""
        return await awaited(self._empty(timeout))

    async def wait_generation(self, generation: int, timeout: float = TIMEOUT_S) -> GroupView:  # noqa: ASYNC109
        """See `Group.wait_generation`."""
        return await awaited(self._generation(generation, timeout))

    async def wait_committed(self, topic: str, partition: int, offset: int, timeout: float = TIMEOUT_S) -> int:  # noqa: ASYNC109
        """See `Group.wait_committed`."""
        return await awaited(self._committed(topic, partition, offset, timeout))

    async def wait_assigned(self, client_id: str, timeout: float = TIMEOUT_S) -> Partitions:  # noqa: ASYNC109
        """See `Group.wait_assigned`."""
        return await awaited(self._assigned(client_id, timeout))

    async def wait_until(self, is_so: Callable[[GroupInWait], object], timeout: float = TIMEOUT_S) -> GroupView:  # noqa: ASYNC109
        """See `Group.wait_until`."""
        return await awaited(self._wanted(is_so, timeout))
