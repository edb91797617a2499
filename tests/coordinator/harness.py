"""The coordinator in a world of its own: a hand-set clock, logs in memory, clients that remember who they are.

    sim = a_group().stable("a", "b", session_timeout_ms=10_000)     # a leads
    assert sim["b"].heartbeat() == ErrorCode.NONE
    late = sim.peer("c")
    call = late.join(...)                                           # a Call: parked, or with a reply
    sim.pass_ms(10_000)                                             # timers fire in order, each at its own instant
    assert sim.group.state is GroupState.STABLE
    sim.restart()                                                   # a crash: only the logs are left

Every request and reply goes through its codec. A second reply to a request fails the test in which it happens.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import count
from typing import Any, Generic, TypeVar

from kshim.coordinator.groups.classic.group import Group
from kshim.coordinator.groups.config import GroupConfig
from kshim.coordinator.groups.coordinator import GroupCoordinator
from kshim.coordinator.groups.events import Transition
from kshim.coordinator.groups.shard import Shard
from kshim.coordinator.runtime import CoordinatorRuntime
from kshim.coordinator.step import Append, Errand, Event, Lookup, Now, RequestContext, Step, Ticket
from kshim_protocol.codec import codec
from kshim_protocol.errors import ErrorCode
from kshim_protocol.internal.records import UnknownKey, parse_key, parse_value
from kshim_protocol.records.batch import parse_batch_header, set_base_offset
from kshim_protocol.records.record import iter_records
from kshim_protocol.schema import Request, Struct

R = TypeVar("R", bound=Struct)

START_MONO_MS = 1_000_000
START_WALL_MS = 1_700_000_000_000


def topic_id(name: str, life: int = 0) -> bytes:
    """The id of a topic; each `life` is another topic of that name."""
    return bytes([life + 1]) + name.encode().ljust(15, b"\0")


class Topics:
    """Implements `TopicCatalog`: name -> (partitions, life)."""

    def __init__(self, counts: Mapping[str, int]) -> None:
        self.topics = {name: (partitions, 0) for name, partitions in counts.items()}

    @property
    def version(self) -> int:
        return hash(tuple(self.topics.items()))

    def partition_count(self, name: str) -> int | None:
        return self.topics[name][0] if name in self.topics else None

    def topic_id(self, name: str) -> bytes | None:
        return topic_id(name, self.topics[name][1]) if name in self.topics else None

    def topic_name(self, id_: bytes) -> str | None:
        return next((name for name, (_, life) in self.topics.items() if topic_id(name, life) == id_), None)


class Call(Ticket, Generic[R]):
    """One request on its way: parked until `reply` is there."""

    __slots__ = ("_reply", "request", "version")

    def __init__(self, request: Request[R], version: int) -> None:
        self.request = request
        self.version = version
        self._reply: R | None = None

    @property
    def is_parked(self) -> bool:
        """Whether it has no answer yet."""
        return self._reply is None

    @property
    def reply(self) -> R:
        """The answer."""
        assert self._reply is not None, f"{type(self.request).__name__} is parked"
        return self._reply

    @property
    def error(self) -> ErrorCode:
        """The answer's top-level error."""
        return ErrorCode(self.reply.error_code)  # type: ignore[attr-defined]

    def complete(self, response: Any) -> None:
        """The answer arrives, through its codec."""
        assert self._reply is None, f"a second reply to {self.request}: {response} after {self._reply}"
        assert type(response).info.api_key == type(self.request).info.api_key
        coder = codec(type(response), self.version)
        data = coder.build(response)
        parsed, end = coder.parse(data, 0)
        assert end == len(data)
        self._reply = parsed


class Written:
    """One record in a log of the offsets topic, decoded. `value` is None in a tombstone."""

    def __init__(self, batch_number: int, key: Any, value: Any, timestamp_ms: int) -> None:
        self.batch_number = batch_number
        self.key = key
        self.value = value
        self.timestamp_ms = timestamp_ms

    def __repr__(self) -> str:
        return f"Written(batch {self.batch_number}: {self.key} -> {self.value})"


class Sim:
    """A coordinator, its logs and its time. `calls` are all requests ever sent, `events` all events published, `lookups`
    and `errands` those that nobody has answered."""

    def __init__(self, topics: Mapping[str, int] | None = None, **config: Any) -> None:
        self.config = GroupConfig(**config)
        self.topics = Topics(topics if topics is not None else {"orders": 4, "audit": 2})
        self.mono_ms = START_MONO_MS
        self.wall_ms = START_WALL_MS
        self.logs: dict[int, list[bytes]] = {}
        self.calls: list[Call[Any]] = []
        self.events: list[Event] = []
        self.lookups: list[Lookup] = []
        self.errands: list[Errand] = []
        self.append_errors: deque[ErrorCode] = deque()
        self._numbers = count(1)
        self.coordinator = self._new_coordinator()

    def _new_coordinator(self) -> GroupCoordinator:
        return GroupCoordinator(self.config, topics=self.topics, new_id=lambda: f"uuid-{next(self._numbers)}")

    # Requests

    @property
    def now(self) -> Now:
        """The instant it is."""
        return Now(self.mono_ms, self.wall_ms)

    def send(
        self, request: Request[R], version: int, *, client_id: str | None = "client", client_host: str = "/127.0.0.1"
    ) -> Call[R]:
        """Send a request in a version of its API; it may be parked."""
        coder = codec(type(request), version)
        parsed, _ = coder.parse(coder.build(request), 0)
        call = Call(request, version)
        self.calls.append(call)
        context = RequestContext(version, client_id, client_host, self.now)
        self.apply(handler_of(self.coordinator, request)(parsed, context, call))
        return call

    def ask(self, request: Request[R], version: int) -> R:
        """The answer to a request that is not parked."""
        return self.send(request, version).reply

    def apply(self, step: Step) -> None:
        """What the broker does with a Step."""
        for append in step.appends:
            self._append(append, step)
        for ticket, response in step.replies:
            assert isinstance(ticket, Call)
            ticket.complete(response)
        self.events += step.events
        self.lookups += step.lookups
        self.errands += step.errands

    def _append(self, append: Append, step: Step) -> None:
        if self.append_errors:
            append.failed(self.append_errors.popleft(), step)
            return
        log = self.logs.setdefault(append.partition, [])
        base_offset = 0
        if log:
            base_offset = parse_batch_header(log[-1]).last_offset + 1
        log.append(set_base_offset(append.batch, base_offset))
        append.written(base_offset, step)

    def fail_appends(self, *errors: ErrorCode) -> None:
        """Let the next appends fail, one for each error."""
        self.append_errors += errors

    # Time

    def pass_ms(self, ms: int) -> None:
        """Let time pass on both clocks; each timer fires at its own instant."""
        end_ms = self.mono_ms + ms
        while (due_ms := self.coordinator.next_deadline()) is not None and due_ms <= end_ms:
            self._move_to(max(due_ms, self.mono_ms))
            self.apply(self.coordinator.advance(self.now))
        self._move_to(end_ms)

    def jump_ms(self, ms: int) -> None:
        """Let time pass while nobody looks at the timers; then all that are due fire."""
        self._move_to(self.mono_ms + ms)
        while (due_ms := self.coordinator.next_deadline()) is not None and due_ms <= self.mono_ms:
            self.apply(self.coordinator.advance(self.now))

    def _move_to(self, mono_ms: int) -> None:
        self.wall_ms += mono_ms - self.mono_ms
        self.mono_ms = mono_ms

    # Crash and load

    def restart(self) -> None:
        """Crash: whoever waits is forgotten, and a new coordinator reads the logs."""
        self.coordinator = self._new_coordinator()
        for partition in self.logs:
            self.coordinator.begin_load(partition)
        for partition, batches in self.logs.items():
            self.coordinator.replay(partition, batches)
            self.apply(self.coordinator.finish_load(partition, self.now))

    # Looking inside

    def shard(self, group_id: str = "g") -> Shard:
        """The shard of a group, which must exist."""
        found = self.coordinator.shard_of(group_id)
        assert found is not None, f"no shard for {group_id}"
        return found

    def find_group(self, group_id: str = "g") -> Group | None:
        """A group, if it exists."""
        shard = self.coordinator.shard_of(group_id)
        return None if shard is None else shard.classic_groups.get(group_id)

    @property
    def group(self) -> Group:
        """The group `g`."""
        found = self.find_group()
        assert found is not None, "there is no group g"
        return found

    def deadline_ms(self, *key: str) -> int | None:
        """How far away the deadline of `key` is."""
        at_ms = self.shard(key[1]).deadlines.get(key)
        return None if at_ms is None else at_ms - self.mono_ms

    def records(self, group_id: str = "g") -> list[Written]:
        """Everything ever written about a group, in order."""
        log = self.logs.get(self.coordinator.partition_for(group_id), [])
        return [written for written in decode(log) if written.key.group == group_id]

    def transitions(self) -> list[str]:
        """Every transition so far, as `Empty -> PreparingRebalance member-joined`."""
        return [
            f"{event.previous} -> {event.new} {event.cause}" for event in self.events if isinstance(event, Transition)
        ]


def decode(batches: Iterable[bytes]) -> Iterator[Written]:
    """The records of whole batches."""
    for number, batch in enumerate(batches):
        for record in iter_records(batch):
            assert record.key is not None
            key = parse_key(record.key)
            assert not isinstance(key, UnknownKey)
            value = None if record.value is None else parse_value(key, record.value)
            yield Written(number, key, value, record.timestamp_ms)


def handler_of(
    coordinator: CoordinatorRuntime[Any], request: Request[Any]
) -> Callable[[Any, RequestContext, Ticket], Step]:
    """The coordinator's method for a request: `JoinGroupRequest` -> `join_group`."""
    name = type(request).__name__.removesuffix("Request")
    snake = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("_")
    method: Callable[[Any, RequestContext, Ticket], Step] = getattr(coordinator, snake)
    return method
