"""What all coordinators have in common: shards, how a request finds its shard, timers, loading and unloading.

Source: Kafka's CoordinatorRuntime.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from kshim.coordinator.deadlines import Deadlines, Key
from kshim.coordinator.step import Now, RequestContext, Step, Ticket
from kshim_protocol.errors import ErrorCode, KafkaError
from kshim_protocol.partitioner import partition_for
from kshim_protocol.schema import Request

S = TypeVar("S", bound="CoordinatorShard")
R = TypeVar("R", bound=Request[Any])
C = TypeVar("C", bound="CoordinatorRuntime[Any]")

FindShard = Callable[[str], S]
"""From a key to its shard. Raises KafkaError as `CoordinatorRuntime.find` does."""


class Replaying(Protocol):
    """Brings a shard's log back into the shard. Both do their work in slices of less than a millisecond."""

    def feed(self, run: bytes) -> Iterator[None]:
        """Take the next whole batches. Raises ProtocolError."""

    def finish(self) -> Iterator[None]:
        """Put what has come into the shard. Raises ProtocolError."""


class CoordinatorShard:
    """The state that one partition of a coordinator's topic stands for."""

    topic: ClassVar[str]

    def __init__(self, partition: int, deadlines: Deadlines, *, is_loading: bool) -> None:
        self.partition = partition
        self.alone = (partition,)  # `Step.partitions` of what concerns this shard only
        self.deadlines = deadlines  # of all shards of the coordinator
        self.is_loading = is_loading
        self.skipped: dict[int, int] = {}  # key type -> records that replay could not read

    def new_step(self) -> Step:
        """The Step of something that follows from an earlier input."""
        step = Step(self.topic)
        step.works_on(self.partition)
        return step

    def require_loaded(self) -> None:
        """Raises KafkaError: COORDINATOR_LOAD_IN_PROGRESS."""
        if self.is_loading:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)


class CoordinatorRuntime(ABC, Generic[S]):
    """All shards of one coordinator and their timers. A coordinator is a subclass: its APIs, and what its shards do.

    Every input is synchronous and returns a `Step`, which must be applied before the next input. Errors are answered,
    never raised: an exception that does come out is a defect, after which `step.at_work` names the shard to unload and
    load again (None: none is touched).

    A shard exists from its first use on and is then active at once, unless `begin_load` was called for it.
    `on_load_wanted(partition)` is called when a request needs one that is still loading, `on_fired(key)` with each
    deadline that is due, before what it is for is done.
    """

    def __init__(self, topic: str, partition_count: int) -> None:
        self.topic = topic
        self.step = Step()
        """Of the latest input."""
        self.on_load_wanted: Callable[[int], object] = lambda _: None
        self.on_fired: Callable[[Key], object] = lambda _: None
        self.next_check: Callable[[int, int], int] = lambda now_ms, interval_ms: now_ms + interval_ms
        """When something that is checked now, every `interval_ms`, is due again (monotonic ms)."""
        self._partition_count = partition_count
        self._deadlines = Deadlines()
        self._shards: dict[int, S] = {}
        self._unloaded: dict[int, ErrorCode] = {}
        self._homes: dict[str, S] = {}
        """The shards of keys that are in use; those of loading shards are not in here."""

    # What a coordinator says of its shards

    @abstractmethod
    def _new_shard(self, partition: int, *, is_loading: bool) -> S:
        """A shard that knows nothing yet."""

    @abstractmethod
    def _new_replay(self, shard: S) -> Replaying:
        """What reads the log of a loading shard."""

    def _activated(self, shard: S, now: Now) -> None:
        """The shard serves requests from now on: it is used for the first time, or has been loaded."""

    @abstractmethod
    def _loaded(self, shard: S, now: Now, step: Step) -> None:
        """A shard has seen its whole log."""

    @abstractmethod
    def _unload(self, shard: S, error: ErrorCode, step: Step) -> None:
        """A shard is unloaded: its waiting requests are answered with `error`, and its deadlines are removed."""

    @abstractmethod
    def _shard_of_deadline(self, key: Key) -> S | None:
        """Whose deadline it is; None: what it was for is not there any more."""

    @abstractmethod
    def _fire(self, key: Key, shard: S, now: Now, step: Step) -> None:
        """A deadline of a shard is due."""

    def _error_for(self, error: KafkaError, request: Request[Any], context: RequestContext) -> ErrorCode:
        """The error code of the response in this version of the API."""
        return error.code

    # Requests

    def begin(self) -> Step:
        """The Step of a new input."""
        step = self.step = Step(self.topic)
        return step

    def refuse(
        self, error: KafkaError, request: Request[Any], context: RequestContext, ticket: Ticket, step: Step
    ) -> None:
        """Answer a request with an error to all of it."""
        step.reply(ticket, request.error_response(self._error_for(error, request, context), context.api_version))

    def partition_for(self, key: str) -> int:
        """Partition of the coordinator's topic that holds `key` (a group id, a transactional id)."""
        return partition_for(key, self._partition_count)

    def find(self, key: str, context: RequestContext, step: Step) -> S:
        """The shard of a key, made on first use; `step` works on it from now on.

        Raises KafkaError: NOT_COORDINATOR where another node leads it, and the error that `unload` was given.
        """
        shard = self._homes.get(key)
        partition = self.partition_for(key) if shard is None else shard.partition
        leads_shard = context.leads_shard
        if leads_shard is not None and not leads_shard(self.topic, partition):
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        if shard is None:
            shard = self._serving(partition, context.now)
        step.works_on(partition)
        return shard

    def _serving(self, partition: int, now: Now) -> S:
        """A shard, perhaps one that is loading. Raises KafkaError: the error that `unload` was given."""
        shard = self._existing(partition)
        if shard is None:
            shard = self._shards[partition] = self._new_shard(partition, is_loading=False)
            self._activated(shard, now)
        return shard

    def _existing(self, partition: int) -> S | None:
        """The same, but None before its first use."""
        if partition in self._unloaded:
            raise KafkaError(self._unloaded[partition])
        shard = self._shards.get(partition)
        if shard is not None and shard.is_loading:
            self.on_load_wanted(partition)
        return shard

    # Time

    def next_deadline(self) -> int | None:
        """When `advance` is next due, in monotonic ms: never too late, perhaps too early. None: nothing runs."""
        return self._deadlines.earliest()

    def advance(self, now: Now) -> Step:
        """Fire what is due, by (deadline, key), up to the first thing that has to be written.

        What follows depends on how that write ends. A step ends before another shard's timer, too, so that no shard
        waits for what another one wrote. So after applying it ask `next_deadline` again: it may still be in the past.
        """
        step = self.begin()
        while not step.appends and not step.markers:
            key = self._deadlines.first_due(now.mono_ms)
            if key is None:
                break
            shard = self._shard_of_deadline(key)
            if shard is not None and step.at_work not in (None, shard.partition):
                break
            self._deadlines.pop_due(now.mono_ms)
            if shard is None:
                continue
            step.works_on(shard.partition)
            self.on_fired(key)
            self._fire(key, shard, now, step)
        return step

    # Shards

    def has_shard(self, partition: int) -> bool:
        """Whether a shard is there, loading ones included."""
        return partition in self._shards

    def is_loading(self, partition: int) -> bool:
        """Whether a shard is there and loading."""
        shard = self._shards.get(partition)
        return shard is not None and shard.is_loading

    def begin_load(self, partition: int) -> None:
        """Refuse requests to this shard (COORDINATOR_LOAD_IN_PROGRESS) until `finish_load`. It must not be there."""
        assert partition not in self._shards, f"shard {partition} is there already"
        self._unloaded.pop(partition, None)
        self._shards[partition] = self._new_shard(partition, is_loading=True)

    def begin_replay(self, partition: int) -> Replaying:
        """What is to be fed the log of a loading shard and then finished, before `finish_load`."""
        return self._new_replay(self._loading(partition))

    def replay(self, partition: int, runs: Iterable[bytes]) -> None:
        """The same at once, for runs of whole batches in offset order; may be repeated. Raises ProtocolError."""
        replaying = self.begin_replay(partition)
        for run in runs:
            for _ in replaying.feed(run):
                pass
        for _ in replaying.finish():
            pass

    def finish_load(self, partition: int, now: Now) -> Step:
        """The shard has seen its whole log: it serves requests from now on."""
        shard = self._loading(partition)
        step = self.begin()
        step.works_on(partition)
        shard.is_loading = False
        self._activated(shard, now)
        self._loaded(shard, now, step)
        return step

    def unload(self, partition: int, error: ErrorCode = ErrorCode.NOT_COORDINATOR) -> Step:
        """Unload a shard; its waiting requests are answered with `error`, and so are all others until `begin_load`.

        Works on a shard that a defect has left half changed.
        """
        step = Step(self.topic)  # not the step of an input, which may be at work in another shard
        if self.step.at_work == partition:
            self.step.at_work = None
        self._unloaded[partition] = error
        shard = self._shards.pop(partition, None)
        if shard is not None:
            self._unload(shard, error, step)
            for key in [key for key, home in self._homes.items() if home is shard]:
                del self._homes[key]
        return step

    def _loading(self, partition: int) -> S:
        shard = self._shards[partition]
        assert shard.is_loading, f"shard {partition} is not loading"
        return shard


# The APIs of a coordinator, as entries of its class: what answers a request, and in which shards.


def in_one_shard(
    key_of: Callable[[C, R], str], work: Callable[[Any, R, RequestContext, Ticket, Step], None]
) -> Callable[[C, R, RequestContext, Ticket], Step]:
    """An API that is about one key: `work(shard, request, context, ticket, step)`. KafkaErrors are answered.

    `key_of(coordinator, request)` may raise KafkaError.
    """

    def answer(self: C, request: R, context: RequestContext, ticket: Ticket) -> Step:
        step = self.begin()
        try:
            key = key_of(self, request)
            shard = self._homes.get(key)
            if shard is None or context.leads_shard is not None:
                shard = self.find(key, context, step)
            else:  # what `find` does, without asking who leads
                step.at_work, step.partitions = shard.partition, shard.alone
            work(shard, request, context, ticket, step)
        except KafkaError as error:
            self.refuse(error, request, context, ticket, step)
        return step

    answer.__name__ = work.__name__
    return answer


def in_many_shards(
    work: Callable[[FindShard[Any], R, RequestContext, Ticket, Step], None],
) -> Callable[[C, R, RequestContext, Ticket], Step]:
    """An API that is about many keys: `work(find_shard, request, context, ticket, step)`."""

    def answer(self: C, request: R, context: RequestContext, ticket: Ticket) -> Step:
        step = self.begin()
        try:
            work(lambda key: self.find(key, context, step), request, context, ticket, step)
        except KafkaError as error:
            self.refuse(error, request, context, ticket, step)
        return step

    answer.__name__ = work.__name__
    return answer


def in_all_shards(
    work: Callable[[list[Any], R, RequestContext, Ticket, Step], None],
) -> Callable[[C, R, RequestContext, Ticket], Step]:
    """An API that is about all there is: `work(shards, request, context, ticket, step)`, shards that the node leads."""

    def answer(self: C, request: R, context: RequestContext, ticket: Ticket) -> Step:
        step = self.begin()
        leads = context.leads_shard
        step.partitions = [index for index in sorted(self._shards) if leads is None or leads(self.topic, index)]
        shards = [self._shards[index] for index in step.partitions]
        try:
            work(shards, request, context, ticket, step)
        except KafkaError as error:
            self.refuse(error, request, context, ticket, step)
        return step

    answer.__name__ = work.__name__
    return answer
