"""One coordinator with its logs, in virtual time, and everything that must hold after each input.

The world decides nothing by chance: the same inputs give the same run. A closed connection is no input; whoever sends
the inputs simply does not listen to an answer any more.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable
from itertools import count
from typing import Any

from kshim.coordinator.groups.classic.group import Group
from kshim.coordinator.groups.config import GroupConfig
from kshim.coordinator.groups.coordinator import GroupCoordinator
from kshim.coordinator.groups.events import Transition
from kshim.coordinator.groups.shard import Shard
from kshim.coordinator.step import Append, Event, Now, RequestContext, Step, Ticket
from kshim_protocol.codec import codec
from kshim_protocol.errors import ErrorCode
from kshim_protocol.records.batch import parse_batch_header, set_base_offset
from tests.simulation.invariants import check_group, deadline_count
from tests.simulation.judge import Judge
from tests.simulation.ledger import Cause, Ledger, decode
from tests.simulation.requests import Catalog, Memory, build_request, error_of, method_of
from tests.simulation.script import REQUEST_VERBS, Actor, Input, Setting
from tests.simulation.violation import Violation
from tests.simulation.watch import Watch

WALL_OFFSET_MS = 1_700_000_000_000
"""Unix time at instant 0 of the monotonic clock."""

ADMIN = "admin"
"""The actor of requests that no member sends."""

_PARKABLE = frozenset({"join", "sync"})

MakeCoordinator = Callable[..., GroupCoordinator]
"""GroupCoordinator, or a broken one, which a simulation must find out."""


class Call(Ticket):
    """One request that was delivered. `response` None: parked, or its coordinator has crashed (`is_lost`)."""

    __slots__ = ("answered_ms", "asked", "group_id", "is_lost", "request", "response", "since_ms")

    def __init__(self, asked: Input, group_id: str, request: Any, since_ms: int) -> None:
        self.asked = asked
        self.group_id = group_id
        self.request = request
        self.since_ms = since_ms
        self.response: Any = None
        self.answered_ms = -1
        self.is_lost = False

    @property
    def error(self) -> ErrorCode:
        """The error of its answer."""
        return error_of(self.asked.verb, self.asked.version, self.response)


class _Crash(Exception):
    """The process dies at an append."""


class World:
    """See above. `steps` counts inputs and firings of timers, `faults` what was injected, `coverage` what was met.

    `trace`, if given, is called with each input (None: a timer), its call, the answers and events it led to.
    """

    def __init__(
        self,
        setting: Setting,
        actors: dict[str, Actor],
        make_coordinator: MakeCoordinator = GroupCoordinator,
        trace: Callable[[Input | None, Call | None, list[Call], list[Event]], None] | None = None,
    ) -> None:
        self.setting = setting
        self.actors = actors
        self.config = GroupConfig(**setting.config)
        self.catalog = Catalog(setting.topics)
        self.now_ms = 0
        self.steps = 0
        self.faults: Counter[str] = Counter()
        self.coverage: Counter[tuple[str, str, str]] = Counter()
        self.logs: dict[int, list[bytes]] = {}
        self.next_offsets: Counter[int] = Counter()
        self.ledger = Ledger(setting.retention_ms)
        self.watch = Watch(setting, actors)
        self.judge = Judge(self.ledger, self.watch, self.catalog)
        self.waiting: dict[str, dict[Call, None]] = {}
        self.fates: deque[str] = deque()
        self.diverged: set[str] = set()
        self.unloaded: set[int] = set()
        self.loading: set[int] = set()
        self.group_ids: set[str] = set()  # every group that was ever named
        self._cause = Cause("time")
        self._released: list[Call] = []
        self._joins: dict[int, Call] = {}  # answered Joins that gave a member id, by serial
        self._joins_of: dict[str, list[int]] = {}
        self._numbers = count(1)
        self._make_coordinator = make_coordinator
        self.trace = trace
        self.coordinator = self._new_coordinator()

    def _new_coordinator(self) -> GroupCoordinator:
        return self._make_coordinator(self.config, topics=self.catalog, new_id=lambda: f"id{next(self._numbers)}")

    @property
    def now(self) -> Now:
        """The instant it is."""
        return Now(self.now_ms, self.now_ms + WALL_OFFSET_MS)

    # Inputs

    def apply(self, what: Input) -> list[Call]:
        """Let time pass until it happens, then let it happen. Returns the calls answered meanwhile.

        Raises Violation.
        """
        self.move_to(what.at_ms)
        before = len(self._released)
        self.steps += 1
        call = None
        events: list[Event] = []
        try:
            if what.verb in REQUEST_VERBS:
                call, events = self._request(what)
            else:
                events = self._happen(what)
        except Violation:
            if self.trace is not None:
                self.trace(what, None, self._released[before:], [])
            raise
        released = self._take_released()
        if self.trace is not None:
            self.trace(what, call, released[before:], events)
        return released

    def move_to(self, at_ms: int) -> list[Call]:
        """Let time pass; each timer fires at its own instant. Answers are also part of what the next input releases."""
        while (due_ms := self.coordinator.next_deadline()) is not None and due_ms <= at_ms:
            self.now_ms = max(due_ms, self.now_ms)
            self._fire()
        self.now_ms = max(at_ms, self.now_ms)
        return self._released

    def fire_next(self) -> list[Call]:
        """Move to the next deadline and fire what is due. Returns the calls answered."""
        due_ms = self.coordinator.next_deadline()
        assert due_ms is not None
        self.now_ms = max(due_ms, self.now_ms)
        self._fire()
        return self._take_released()

    def _take_released(self) -> list[Call]:
        released, self._released = self._released, []
        return released

    def memory(self, actor: str, basis: int | None) -> Memory:
        """What an actor knows after the answer to its Join `basis`, as far as that was answered."""
        answered = self.answered_basis(actor, basis)
        return Memory() if answered is None else Memory.of(self._joins[answered].response)

    def answered_basis(self, actor: str, basis: int | None) -> int | None:
        """`basis`, or the actor's Join before it if that one was taken out of the script or has no answer."""
        if basis is None or basis in self._joins:
            return basis
        before = [serial for serial in self._joins_of.get(actor, ()) if serial < basis]
        return before[-1] if before else None

    def _request(self, what: Input) -> tuple[Call, list[Event]]:
        actor = self.actors.get(what.actor)
        memory = self.memory(what.actor, what.basis)
        request = build_request(what, actor, memory, self.catalog)  # type: ignore[arg-type]
        group_id = actor.group_id if actor is not None else what.detail.get("group", "")
        call = Call(what, group_id, request, self.now_ms)
        named = what.detail.get("groups", ())
        state = self._state_name(group_id or (named[0] if named else ""))
        self.waiting.setdefault(group_id, {})[call] = None
        self.group_ids.update((group_id,) if group_id else named)
        self.watch.asked(call)
        self._cause = self.judge.cause_of(call, self.now)
        context = RequestContext(what.version, actor.client_id if actor else ADMIN, "/10.0.0.1", self.now)
        parsed = request
        if self.setting.is_through_codecs:
            coder = codec(type(request), what.version)
            parsed, _ = coder.parse(coder.build(request), 0)
        handler = getattr(self.coordinator, method_of(what.verb))
        events = self._carry_out(lambda: handler(parsed, context, call), call)
        if call.is_lost:
            outcome = "crash"
        elif call.response is None:
            outcome = "parked"
            if what.verb not in _PARKABLE:
                raise Violation("ticket-forgotten", f"no answer to {what}")
        else:
            if what.verb == "list" and call.error is ErrorCode.NONE:
                self._check_list(call)
            outcome = call.error.name
        self.coverage[state, what.verb, outcome] += 1
        return call, events

    def _happen(self, what: Input) -> list[Event]:
        detail = what.detail
        self._cause = Cause(what.verb)
        match what.verb:
            case "fail-next-append":
                self.fates.append(detail["error"])
            case "crash-next-append":
                self.fates.append(f"crash-{detail['when']}")
            case "crash":
                if detail:  # the broker comes back with other settings
                    self.config = GroupConfig(**{**self.setting.config, **detail})
                self.crash()
            case "create-topic":
                if self.catalog.partition_count(detail["topic"]) is None:
                    self.catalog.create(detail["topic"], detail["partitions"])
            case "delete-topic":
                if self.catalog.partition_count(detail["topic"]) is not None:
                    self.catalog.delete(detail["topic"])
                    self._cause = Cause("delete-topic", topics=frozenset({detail["topic"]}))
                    return self._forget_topic(detail["topic"])
            case "pause":
                # Nobody looks at the timers meanwhile; then all that are due fire.
                self.now_ms += detail["ms"]
                self.watch.begin_pause(detail["ms"])
                while (due_ms := self.coordinator.next_deadline()) is not None and due_ms <= self.now_ms:
                    self._fire()
                self.watch.end_pause()
            case "wait":
                pass
            case "compare":
                self.compare()
            case "unload":
                return self._unload(detail["partition"])
            case "load":
                return self._load(detail["partition"])
            case "begin-load":
                self._begin_load(detail["partition"])
            case _:
                raise ValueError(what.verb)
        return []

    def _forget_topic(self, name: str) -> list[Event]:
        coordinator = self.coordinator
        steps = coordinator.topics_deleted([name], self.now)
        events: list[Event] = []
        is_over = False

        def forget() -> Step:
            nonlocal is_over
            step = next(steps, None)
            is_over = step is None
            return step or Step()

        while not is_over and self.coordinator is coordinator:  # a crash ends it
            events += self._carry_out(forget)
        return events

    def calm(self) -> None:
        """No more faults: appends succeed, topics and shards are there."""
        self.fates.clear()
        for topic, partitions in self.setting.topics.items():
            if self.catalog.partition_count(topic) is None:
                self.catalog.create(topic, partitions)
        for partition in sorted(self.unloaded):
            self._load(partition)
        self.compare()

    def _fire(self) -> None:
        self._cause = Cause("time")
        before = len(self._released)
        events = self._carry_out(lambda: self.coordinator.advance(self.now))
        if events:
            self.steps += 1
        if self.trace is not None and (events or len(self._released) > before):
            self.trace(None, None, self._released[before:], events)

    # Effects

    def _carry_out(self, act: Callable[[], Step], asked: Call | None = None) -> list[Event]:
        """What the broker does: one input, its appends, its replies, its events. Then everything is checked."""
        step = Step()
        try:
            step = act()
            for append in step.appends:  # may grow
                self._append(append, step)
        except _Crash:
            self.crash()
            return step.events
        except Violation:
            raise
        except Exception as error:
            raise Violation(f"exception-{type(error).__name__}", f"{error} in {self._cause.verb}") from error
        answered = [self._answer(ticket, response) for ticket, response in step.replies]
        self.judge.events(step.events, self.find_group, self.now_ms)
        for call in answered:
            self.judge.learn(call)
        self.judge.phases(step.events, answered)
        for event in step.events:
            if isinstance(event, Transition):
                self.coverage[str(event.previous), f"-> {event.new}", str(event.cause)] += 1
        for call in answered:
            is_own = call is asked
            self.judge.answer(call, self.find_group(call.group_id), self.now, is_own=is_own)
        self._check(step, answered)
        return step.events

    def _answer(self, ticket: Ticket, response: Any) -> Call:
        assert isinstance(ticket, Call)
        if ticket.response is not None or ticket.is_lost:
            raise Violation("second-reply", f"{ticket.asked}: {response} after {ticket.response}")
        if self.setting.is_through_codecs:
            coder = codec(type(response), ticket.asked.version)
            response, _ = coder.parse(coder.build(response), 0)
        ticket.response = response
        ticket.answered_ms = self.now_ms
        del self.waiting[ticket.group_id][ticket]
        if ticket.asked.verb == "join" and response.member_id:
            self._joins[ticket.asked.serial] = ticket
            self._joins_of.setdefault(ticket.asked.actor, []).append(ticket.asked.serial)
        self._released.append(ticket)
        return ticket

    def _append(self, append: Append, step: Step) -> None:
        fate = self.fates.popleft() if self.fates else ""
        if fate:
            self.faults["append " + fate] += 1
        if fate == "crash-before":
            raise _Crash
        records = list(decode(append.batch))
        if fate and fate != "crash-after":
            for group_id in {key.group for key, _ in records}:
                self.diverged.add(group_id)
            append.failed(ErrorCode[fate], step)
            return
        shard = self._shard(append.partition)
        self.ledger.judge(records, self._cause, shard, self.now)
        base_offset = self.next_offsets[append.partition]
        batch = set_base_offset(append.batch, base_offset)
        self.logs.setdefault(append.partition, []).append(batch)
        self.next_offsets[append.partition] = parse_batch_header(batch).last_offset + 1
        self.ledger.write(records)
        self.diverged.difference_update(key.group for key, value in records if not hasattr(key, "topic"))
        if fate == "crash-after":
            raise _Crash
        append.written(base_offset, step)

    # Crash and load

    def crash(self) -> None:
        """The process dies and a new one reads the logs. Whoever waits gets no answer."""
        self.faults["crash"] += 1
        for calls in self.waiting.values():
            for call in calls:
                call.is_lost = True
                self._released.append(call)
            calls.clear()
        self.fates.clear()
        self.unloaded.clear()
        self.loading.clear()
        self.diverged.clear()
        self.coordinator = self._new_coordinator()
        for partition in sorted(self.logs):
            self.coordinator.begin_load(partition)
            self._replay(self.coordinator, partition)
        loaded = list(self._shards())
        self._compare(loaded, is_replayed=True)
        self.judge.loaded(self.group_ids)
        self.watch.loaded(self.ledger, self.group_ids, self.now_ms)
        self._cause = Cause("load")
        for partition in sorted(self.logs):
            self._carry_out(lambda partition=partition: self.coordinator.finish_load(partition, self.now))  # type: ignore[misc]

    def _unload(self, partition: int) -> list[Event]:
        if partition in self.unloaded:
            return []
        self.faults["unload"] += 1
        self.unloaded.add(partition)
        return self._carry_out(lambda: self.coordinator.unload(partition))

    def _begin_load(self, partition: int) -> None:
        if partition in self.unloaded and partition not in self.loading:
            self.loading.add(partition)
            self.coordinator.begin_load(partition)

    def _load(self, partition: int) -> list[Event]:
        if partition not in self.unloaded:
            return []
        self._begin_load(partition)
        self.unloaded.discard(partition)
        self.loading.discard(partition)
        self._replay(self.coordinator, partition)
        shard = self._shard(partition)
        if shard is not None:
            self._compare([shard], is_replayed=True)
        groups = {group_id for group_id in self.group_ids if self.coordinator.partition_for(group_id) == partition}
        self.diverged -= groups
        self.judge.loaded(groups)
        self.watch.loaded(self.ledger, groups, self.now_ms)
        return self._carry_out(lambda: self.coordinator.finish_load(partition, self.now))

    def _replay(self, coordinator: GroupCoordinator, partition: int) -> None:
        try:
            coordinator.replay(partition, self.logs.get(partition, []))
        except Exception as error:
            raise Violation(f"exception-{type(error).__name__}", f"{error} in replay") from error

    # Checks

    def find_group(self, group_id: str) -> Group | None:
        """A group, if it exists in a shard that is served."""
        shard = self.coordinator.shard_of(group_id)
        return None if shard is None or shard.partition in self.unloaded else shard.classic_groups.get(group_id)

    def _state_name(self, group_id: str) -> str:
        if self.coordinator.partition_for(group_id) in self.unloaded:
            return "unloaded"
        group = self.find_group(group_id)
        return "none" if group is None else str(group.state)

    def _shards(self) -> Iterable[Shard]:
        found = {}
        for group_id in self.group_ids:
            shard = self.coordinator.shard_of(group_id)
            if shard is not None:
                found[shard.partition] = shard
        return (found[partition] for partition in sorted(found))

    def _shard(self, partition: int) -> Shard | None:
        return next((shard for shard in self._shards() if shard.partition == partition), None)

    def _check(self, step: Step, answered: list[Call]) -> None:
        """What must hold after every step, of the groups it can have touched."""
        touched = {call.group_id for call in answered}
        touched.update(getattr(event, "group_id", "") for event in step.events)
        touched.update(self._cause.groups)
        for group_id in touched:
            group = self.find_group(group_id)
            if group is not None:
                shard = self.coordinator.shard_of(group_id)
                assert shard is not None
                check_group(shard, group, self.waiting.get(group_id, ()), self.now)
                self.judge.group(group)
                self.watch.check(group, self.now_ms)
            elif self.waiting.get(group_id):
                raise Violation("ticket-forgotten", f"requests wait in {group_id}, which does not exist")
        self.watch.check_waiting(self.waiting, self.now_ms)

    def _check_list(self, call: Call) -> None:
        """Exactly the groups in the states asked for are listed."""
        states = set(call.request.states_filter)
        found = {group_id: group for group_id in self.group_ids if (group := self.find_group(group_id)) is not None}
        expected = {group_id for group_id, group in found.items() if not states or str(group.state).lower() in states}
        listed = {entry.group_id for entry in call.response.groups}
        if listed != expected:
            raise Violation("list-wrong", f"{sorted(listed)} are listed, {sorted(expected)} should be")

    def compare(self) -> None:
        """All groups are sound, the memory is what the log says, and so is what a fresh coordinator reads."""
        shards = [shard for shard in self._shards() if shard.partition not in self.unloaded]
        for shard in shards:
            for group in shard.classic_groups.values():
                check_group(shard, group, self.waiting.get(group.group_id, ()), self.now)
                self.watch.check(group, self.now_ms)
        if shards and not self.unloaded:
            deadlines = shards[0].deadlines
            checks = (("expiry", f"{number:05}") for number in range(self.config.offsets_topic_num_partitions))
            expected = sum(map(deadline_count, shards)) + sum(deadlines.get(key) is not None for key in checks)
            found = len(deadlines)
            if found != expected:
                raise Violation("timer-left", f"{found} deadlines run, {expected} have an owner")
        self._compare(shards, is_replayed=False)
        fresh = self._new_coordinator()
        for partition in sorted(self.logs):
            fresh.begin_load(partition)
            self._replay(fresh, partition)
        replayed = {}
        for group_id in self.group_ids:
            shard_or_none = fresh.shard_of(group_id)
            if shard_or_none is not None:
                replayed[shard_or_none.partition] = shard_or_none
        self._compare(replayed.values(), is_replayed=True)

    def _compare(self, shards: Iterable[Shard], *, is_replayed: bool) -> None:
        for shard in shards:
            owns = frozenset(
                group_id
                for group_id in self.ledger.known
                if self.coordinator.partition_for(group_id) == shard.partition
            )
            self.ledger.compare(shard, is_replayed=is_replayed, diverged=self.diverged, owns=owns)
