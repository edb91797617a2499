"""Playing a plan onto running brokers, with somebody who watches."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

from kshim.coordinator.step import OFFSETS_TOPIC
from kshim.harness import groups, rebalances
from kshim.harness.groups import GroupView, MemberView
from kshim.testing.arguments import check_integer, check_text, check_timeout
from kshim.testing.chaos.application import PARTITIONS, Application
from kshim.testing.chaos.invariants import Invariants, Place
from kshim.testing.chaos.plans import Act, plan_of
from kshim.testing.group import Group, SeenGroup
from kshim.testing.thread import BrokerThread

if TYPE_CHECKING:
    from kshim.testing.brokers import Brokers
    from kshim.testing.faults import Fault

_UNMET_S: Final = 2.0
"""How long a fault is waited for that nothing meets."""


class Process(Protocol):
    """A member of the group, as the profile handles it. What also has `pause` and `resume` can be paused."""

    def stop(self) -> object:
        """End it. It has ended when this returns."""

    def start(self) -> object:
        """Start it again."""


class Chaos:
    """A profile, played onto brokers while an application runs: see `Kshim.chaos`."""

    def __init__(
        self,
        thread: BrokerThread,
        profile: str,
        seed: int,
        group: str | None,
        members: Mapping[str, Any] | None,
        bound: float,
        connection: Mapping[str, Any],
    ) -> None:
        check_text("profile", profile)
        check_integer("seed", seed)
        if group is not None:
            check_text("group", group)
        elif members is not None:
            raise ValueError("members are those of a group of yours: say which one with group=")
        check_timeout(bound)
        for name, process in (members or {}).items():
            if not callable(getattr(process, "stop", None)) or not callable(getattr(process, "start", None)):
                raise TypeError(
                    f"members: {name} must have the methods stop and start, which end the process and start it again; {process!r} has not"
                )
        self.profile = profile
        self.seed = seed
        self.plan = plan_of(profile, seed)
        """What it does: the same for the same profile and seed."""
        self.notes: list[str] = []
        """What was done, with the seconds since the beginning, and where it is only near to what the profile means."""
        self.unmet: list[str] = []
        """The faults that no request met."""
        self._thread = thread
        self._connection = connection
        self._application: Application | None = None
        self._is_own = group is None
        self._group_id = self._free_name() if group is None else group
        self._group = Group(thread, self._group_id)
        self._processes = dict(members or {})
        self._bound_s = float(bound)
        self._invariants = Invariants(round(bound * 1_000))
        self._watch: Future[None] | None = None
        self._brokers: Brokers | None = None
        self._began_ms = 0
        self._member_count = 0
        self._faults: list[Fault] = []
        self._processed: set[tuple[str, int, int]] = set()
        self._acknowledged: list[tuple[str, bytes]] = []
        self._from: dict[Place, int] = {}

    # What the application says

    def processed(self, topic: str, partition: int, offset: int) -> None:
        """The application has processed a record: to be called before it commits. From any thread.

        Once it is called, each record that the group has committed must have been processed.
        """
        self._processed.add((topic, partition, offset))

    def acknowledged(self, topic: str, value: bytes | str) -> None:
        """A producer was told that a record is written: it must be there at the end. From any thread."""
        self._acknowledged.append((topic, value.encode() if isinstance(value, str) else value))

    # Playing

    def play(self, work: Callable[[], object] = lambda: None) -> Self:
        """All of it: begin to watch, `run` the plan, and check what must hold at the end. Raises as `run`, and TimeoutError."""
        with self:
            self.run(work)
        return self

    def __enter__(self) -> Self:
        """Begin to watch. Raises TimeoutError when the group is not stable, with partitions and all `members`, within the bound."""
        if self._is_own:
            self._application = self._started()

        def has_begun(view: SeenGroup) -> bool:
            return _has_partitions(view) and all(
                any(_is_named(member, name) for member in view.members) for name in self._processes
            )

        try:
            view = self._group.wait_until(has_begun, timeout=self._bound_s)
            self._member_count = len(view.members)
            self._thread.call(self._begin, {topic for member in view.members for topic, _ in member.assignment})
        except BaseException as failure:
            if isinstance(failure, TimeoutError) and self._processes:
                failure.add_note(f"awaited were members with the client or instance ids {', '.join(self._processes)}")
            self._stop(failure)
            raise
        return self

    def run(self, work: Callable[[], object] = lambda: None) -> None:
        """Play the whole plan. `work` is called before each act, in each pause, and twice at the end; let it produce records.

        Each act ends when the group has recovered from it: nothing sleeps. Raises AssertionError as soon as an invariant is found broken;
        RuntimeError outside of the block.
        """
        if self._watch is None:
            raise RuntimeError("run() belongs into the block, `with kshim.chaos(...) as chaos:`; play() does it all")
        self._go_on()
        for number, act in enumerate(self.plan, 1):
            work()
            self._note(f"{number}. {act}")
            self._play(number, act, work)
            self._go_on()
            if act.kind != "fault":
                self._end_faults()
        work()
        self._end_faults()
        work()
        self._go_on()

    def __exit__(
        self, _kind: type[BaseException] | None, failure: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        try:
            if failure is None:
                self._recover(self._member_count)
                self._thread.call(self._end)
                self._check()
            elif not isinstance(failure, ChaosError):
                failure.add_note(self._report())
        except BaseException as error:
            failure = error
            raise
        finally:
            for fault in self._faults:
                fault.cancel()
            if self._watch is not None:
                self._watch.cancel()
            self._thread.call(self._forget)
            self._stop(failure)

    # The application of its own

    def _free_name(self) -> str:
        """Of a topic and a group that there are not yet."""

        def is_free(name: str) -> bool:
            cluster = self._thread.brokers.cluster
            return cluster.topics.named(name) is None and name not in groups.group_ids(cluster)

        names = itertools.chain(["chaos"], (f"chaos-{number}" for number in itertools.count(2)))
        return next(name for name in names if self._thread.call(is_free, name))

    def _started(self) -> Application:
        application = Application(
            self._group_id,
            self._group_id,
            self._connection,
            is_static=self.profile == "pod-restart-static",
            processed=self.processed,
            acknowledged=self.acknowledged,
        )
        self._thread.call(lambda: self._thread.brokers.create_topic(application.topic, PARTITIONS, None))
        application.start()
        self._processes.update(application.consumers)
        return application

    def _stop(self, failure: BaseException | None) -> None:
        """End the application; what has ended a client of it is noted in what the block has ended with."""
        if self._application is None:
            return
        try:
            self._application.stop()
        except RuntimeError as error:
            if failure is None:
                raise
            failure.add_note(str(error))

    def _play(self, number: int, act: Act, work: Callable[[], object]) -> None:
        match act.kind:
            case "restart" | "replace":
                self._restart(act)
            case "pause":
                self._pause(act, work)
            case "expire":
                self._expire(self._member(act.target))
            case "rebalance":
                self._group.trigger_rebalance(f"chaos: {self.profile}")
            case "move_coordinator":
                brokers, group_id = self._thread.brokers, self._group_id
                coordinator = self._thread.call(brokers.coordinator_of, group_id)
                self._move(act, coordinator, partial(brokers.move_coordinator, group_id), "coordinates the group")
            case "move_leader":
                brokers, (topic, partition) = self._thread.brokers, self._place(act.target)
                leader = self._thread.call(brokers.leader_of, topic, partition)
                self._move(act, leader, partial(brokers.move, topic, partition), f"leads {topic}-{partition}")
            case "fault":
                self._faults.append(self._armed(number, act))

    def _move(self, act: Act, broker: int, move: Callable[[int], object], does: str) -> None:
        """Have another live broker do what `broker` does."""
        others = [each for each in self._thread.call(lambda: self._thread.brokers.live) if each != broker]
        if not others:
            self._note("not done: there is one live broker only")
            return
        to = others[act.target % len(others)]
        self._thread.call(move, to)
        self._note(f"broker {to} {does}")

    def _restart(self, act: Act) -> None:
        name, process = self._process(act.target)
        if process is None:
            member = self._member(act.target)
            if member is None:
                return
            self._note(f"no process was given: {member} is expelled instead, and may join again")
            try:
                self._group.expel(member)
            except LookupError as error:
                self._note(f"not done: {error}")
            return
        before = self._named(name)
        process.stop()
        self._note(f"stopped {name}")
        process.start()
        self._note(f"started {name}")
        if act.kind == "replace":
            old = None if before is None else before.member_id
            if before is None or before.instance_id is None:
                self._note(f"{name} is no static member: give it a group.instance.id")

            def is_back(view: GroupView) -> bool:
                return any(_is_named(each, name) and each.member_id != old for each in view.members)

            if not self._wait(is_back):
                self._invariants.violations.append(
                    f"{name} was not a member again within {self._bound_s:g} s, so that its partitions belonged to nobody who runs"
                )

    def _pause(self, act: Act, work: Callable[[], object]) -> None:
        name, process = self._process(act.target)
        if process is None or not hasattr(process, "pause"):
            member = self._member(act.target)
            self._note(f"nobody can be paused: only the session of {member} ends")
            self._expire(member)
            return
        process.pause()
        try:
            self._note(f"paused {name}")
            self._expire(self._named(name))
            if self._member_count > 1:
                self._recover(self._member_count - 1)
            work()
        finally:
            process.resume()
        self._note(f"resumed {name}")

    def _expire(self, member: MemberView | None) -> None:
        if member is None:
            self._note("there is no member whose session could end")
            return
        try:
            self._group.expire(member)
        except (LookupError, RuntimeError) as error:
            self._note(f"not done: {error}")
        else:
            self._note(f"the session of {member} has ended")

    def _armed(self, number: int, act: Act) -> Fault:
        assert act.rule is not None
        match: dict[str, Any] = {}
        member = self._member(act.target)
        if act.scope == "group":
            match["group"] = self._group_id
        elif act.scope == "member" and member is not None:
            match.update(group=self._group_id, client_id=member.client_id)
        elif act.scope == "client" and member is not None:
            match["client_id"] = member.client_id
        elif act.scope == "partition":
            match["topic"], match["partition"] = self._place(act.target)
        elif act.scope == "offsets":
            match["topic"] = OFFSETS_TOPIC
        return self._thread.faults.add(
            {**act.rule, "match": match, "name": f"chaos {self.profile} seed {self.seed} act {number}"}
        )

    # Waiting

    def _go_on(self) -> None:
        """Until the group has recovered and, if it is one of ours, each partition has a new record, and that is committed."""
        self._recover(self._member_count)
        self._check()
        if self._application is None:
            return

        def ends() -> dict[Place, int]:
            topic = self._thread.brokers.cluster.topics.named(self._group_id)
            assert topic is not None
            return {(topic.name, each.index): each.high_watermark + 1 for each in topic.partitions}

        wanted = self._thread.call(ends)

        def look(brokers: Brokers) -> bool | None:
            reached = groups.committed(brokers.cluster, self._group_id)
            return all(reached.get(place, 0) >= end for place, end in wanted.items()) or None

        try:
            self._thread.until(look, self._bound_s, lambda _: "").result()
        except TimeoutError:
            self._invariants.violations.append(
                f"nothing new was written and committed within {self._bound_s:g} s to one of the partitions of {self._group_id}: "
                f"committed is {self._thread.call(lambda: groups.committed(self._thread.brokers.cluster, self._group_id))}, "
                f"and awaited was {wanted}"
            )
        self._check()

    def _recover(self, member_count: int) -> None:
        """Until every partition has an owner, and as many members are back; the latter is only noted."""
        if self._wait(lambda view: len(view.members) >= member_count and self._invariants.is_owned(view)):
            return
        self._thread.call(self._look)
        view = self._group.view
        if self._invariants.is_owned(view):
            self._note(f"{len(view.members)} members are left of {member_count}")
            self._member_count = min(self._member_count, len(view.members))
            return
        without = ", ".join(f"{topic}-{index}" for topic, index in sorted(self._invariants.without_owner(view)))
        self._invariants.violations.append(
            f"the group had not recovered {self._bound_s:g} s later: it is {view.state} with {len(view.members)} members; "
            f"without an owner: {without or 'none'}"
        )
        self._check()

    def _end_faults(self) -> None:
        """What was armed before an act is over after it, so that rules do not keep requests from one another."""
        for fault in self._faults:
            self._until_met(fault)
            fault.cancel()
        self._faults.clear()

    def _until_met(self, fault: Fault) -> None:
        if self._wait(lambda _: bool(fault.fired), min(self._bound_s, _UNMET_S)):
            return
        self.unmet.append(str(fault.rule.name))
        self._note(f"nothing met {fault}")

    def _wait(self, is_so: Callable[[GroupView], bool], timeout_s: float | None = None) -> bool:
        def look(brokers: Brokers) -> bool | None:
            return is_so(groups.group_view(brokers.cluster, self._group_id)) or None

        try:
            return self._thread.until(look, timeout_s or self._bound_s, lambda _: "").result()
        except TimeoutError:
            return False

    # Who

    def _member(self, target: int) -> MemberView | None:
        members = sorted(self._group.members, key=lambda each: (each.client_id, each.member_id))
        return members[target % len(members)] if members else None

    def _named(self, name: str) -> MemberView | None:
        return next((each for each in self._group.members if _is_named(each, name)), None)

    def _process(self, target: int) -> tuple[str, Any]:
        names = sorted(self._processes)
        return (names[target % len(names)], self._processes[names[target % len(names)]]) if names else ("", None)

    def _place(self, target: int) -> Place:
        places = sorted(self._invariants.partitions)
        return places[target % len(places)]

    # In the loop

    def _begin(self, topics: set[str]) -> None:
        self._brokers = brokers = self._thread.brokers
        cluster = brokers.cluster
        self._began_ms = brokers.clock.now().mono_ms
        places = []
        for name in sorted(topics):
            topic = cluster.topics.named(name)
            for partition in () if topic is None else topic.partitions:
                places.append((name, partition.index))
                self._from[name, partition.index] = partition.high_watermark
        self._invariants = Invariants(round(self._bound_s * 1_000), places)
        brokers.fault_rules.on_fired.append(self._on_fired)
        self._watch = brokers.waits.until(self._look)

    def _on_fired(self, firing: object) -> None:
        assert self._brokers is not None
        self._note(f"injected fault: {firing}")
        self._brokers.waits.look_again()

    def _look(self) -> None:
        """Called after each event and append; never settles."""
        assert self._brokers is not None
        cluster = self._brokers.cluster
        view = groups.group_view(cluster, self._group_id)
        self._invariants.look(view, groups.committed(cluster, self._group_id), self._brokers.clock.now().mono_ms)

    def _end(self) -> None:
        from kshim.harness.records import records_of

        assert self._watch is not None
        if self._watch.done():
            self._watch.result()  # raises what kept it from watching
        self._look()
        cluster = self._thread.brokers.loaded
        committed = groups.committed(cluster, self._group_id)
        skipped: dict[Place, list[int]] = {}
        processed, acknowledged = self._processed.copy(), self._acknowledged.copy()  # other threads go on adding
        for place, end in committed.items() if processed else ():
            for record in records_of(cluster, *place):
                offset = record.offset
                if self._from.get(place, 0) <= offset < end and (*place, offset) not in processed:
                    skipped.setdefault(place, []).append(offset)
        there = {topic: {record.value for record in records_of(cluster, topic)} for topic, _ in acknowledged}
        lost = [f"{value!r} of {topic}" for topic, value in acknowledged if value not in there[topic]]
        self._invariants.end(committed, skipped=skipped, lost=lost)

    def _forget(self) -> None:
        if self._brokers is None:
            return
        listeners = self._brokers.fault_rules.on_fired
        if self._on_fired in listeners:
            listeners.remove(self._on_fired)
        self._brokers.waits.look_again()  # lets go of what was cancelled

    # What is told

    @property
    def violations(self) -> list[str]:
        """A sentence for each invariant that was broken so far."""
        return list(self._invariants.violations)

    @property
    def longest_gap(self) -> float:
        """For how long a partition was without an owner at most, in seconds of the brokers' clock."""
        return self._invariants.longest_gap_ms / 1_000

    def _note(self, text: str) -> None:
        def note() -> None:
            seconds = (self._thread.brokers.clock.now().mono_ms - self._began_ms) / 1_000
            self.notes.append(f"{seconds:8.3f} s  {text}")

        self._thread.call(note)

    def _check(self) -> None:
        """Raises AssertionError."""
        if self._invariants.violations:
            raise ChaosError(self._report())

    def _report(self) -> str:
        plan = "\n".join(f"  {number}. {act}" for number, act in enumerate(self.plan, 1))
        done = "\n".join(self.notes)
        broken = "\n".join(f"- {each}" for each in self._invariants.violations) or "- nothing so far"
        timeline = self._thread.call(lambda: rebalances.timeline_of(self._thread.brokers.cluster, self._group_id))
        return (
            f"chaos {self.profile!r} with seed={self.seed}, group {self._group_id}: broken is\n{broken}\n"
            f"The plan:\n{plan}\nWhat was done:\n{done}\nThe group:\n{timeline}"
        )


class ChaosError(AssertionError):
    """An invariant was broken. The text has the plan, what was done, the timeline of the group, and the seed for a replay."""


def _has_partitions(view: GroupView | SeenGroup) -> bool:
    return view.is_synced and any(member.assignment for member in view.members)


def _is_named(member: MemberView, name: str) -> bool:
    return name in (member.client_id, member.instance_id, member.member_id)
