"""What goes into a coordinator and what comes out of it: requests with their context in, `Step`s out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

from kshim.coordinator.value_object import ValueObject
from kshim_protocol.errors import ErrorCode

OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTIONS_TOPIC = "__transaction_state"
SHARE_STATE_TOPIC = "__share_group_state"


class Now(NamedTuple):
    """One instant on two clocks: deadlines use `mono_ms` (monotonic), record timestamps use `wall_ms` (Unix epoch)."""

    mono_ms: int
    wall_ms: int


class Ticket:
    """Stands for one request that is owed an answer, compared by identity. The broker's subclass can send it."""

    __slots__ = ()


class RequestContext:
    """What the coordinator may know about a request besides its body.

    `client_host` is in Java's text form with the slash, e.g. `/127.0.0.1`, as it stands in group metadata records.
    `now` is the group clock; `real_ms` the real monotonic clock, which only waiting Fetches use.
    """

    __slots__ = ("api_version", "client_host", "client_id", "now", "real_ms")

    leads_shard: Callable[[str, int], bool] | None = None
    """Whether the node that was asked leads a partition (topic, index) of a coordinator. None: it leads all."""

    may_describe: Callable[[str], bool] | None = None
    """Whether the client may know of a topic. None: of all. Set for requests that may begin a `Lookup`."""

    may_create: Callable[[str], bool] | None = None
    """Whether the client may create a topic. None: it may create all. Set for requests that may need topics made."""

    may_read: Callable[[str], bool] | None = None
    """Whether the client may read a topic. None: it may read all. Set for requests that go on with a share session."""

    def __init__(self, api_version: int, client_id: str | None, client_host: str, now: Now, real_ms: int = 0) -> None:
        self.api_version = api_version
        self.client_id = client_id
        self.client_host = client_host
        self.now = now
        self.real_ms = real_ms


class Append:
    """One record batch for one partition of the Step's topic, and what follows from its fate.

    `written(base_offset, step)` or `failed(error, step)` is called exactly once, at once after the append was tried,
    with the Step this append is from, which it fills further: replies, events in the order of what happened, perhaps
    further appends. State described by the batch changes only in `written`. `now_ms` (Unix time) is when the producer
    named in the batch was heard of, -1 where that does not matter.
    """

    __slots__ = ("batch", "failed", "now_ms", "partition", "written")

    def __init__(
        self,
        partition: int,
        batch: bytes,
        written: Callable[[int, Step], None],
        failed: Callable[[ErrorCode, Step], None],
        *,
        now_ms: int = -1,
    ) -> None:
        self.partition = partition
        self.batch = batch
        self.written = written
        self.failed = failed
        self.now_ms = now_ms

    def then(self, written: Callable[[Step], None], failed: Callable[[ErrorCode, Step], None]) -> None:
        """Have one of these called as well, after what follows already."""
        before_written, before_failed = self.written, self.failed

        def both_written(base_offset: int, step: Step) -> None:
            before_written(base_offset, step)
            written(step)

        def both_failed(error: ErrorCode, step: Step) -> None:
            before_failed(error, step)
            failed(error, step)

        self.written, self.failed = both_written, both_failed


class Marker(NamedTuple):
    """One marker to be written to a partition of any topic, to end a producer's transaction there.

    `settle(error)` is called exactly once: with NONE when the marker is durable, as the policy has it, or when there is
    no such partition any more; with any other error when the marker may not be there. What it returns is to be applied.
    """

    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    is_commit: bool
    coordinator_epoch: int
    now: Now
    settle: Callable[[ErrorCode], Step | None]
    transaction_version: int = 0

    def __repr__(self) -> str:
        outcome = "commit" if self.is_commit else "abort"
        return (
            f"<{outcome} of producer {self.producer_id} epoch {self.producer_epoch} in {self.topic}-{self.partition}>"
        )


class Lookup(NamedTuple):
    """A wish to know for which topics the regular expressions of a group stand. The answer comes back as an input.

    `version` is that of the topics when it was wished, `now` the time. `may_describe` says of which topics the client may
    know whose heartbeat asked; None: of all.
    """

    group_id: str
    expressions: frozenset[str]
    version: int
    now: Now
    may_describe: Callable[[str], bool] | None = None


class Errand(NamedTuple):
    """A request of one coordinator to another, that of `topic`. `settle(response, now)` returns what is to be applied.

    It is called exactly once, later or within the same application; what it is about may be gone by then.
    """

    topic: str
    request: Any
    now: Now
    settle: Callable[[Any, Now], Step | None]


class WantedTopic(NamedTuple):
    """A topic that a group needs. A replication factor of 0: the cluster's default."""

    name: str
    partition_count: int
    replication_factor: int
    configs: tuple[tuple[str, str], ...]


class TopicsWanted(NamedTuple):
    """A wish to have topics made. `settle(errors)` is called once, with a sentence for each topic that was not made."""

    topics: tuple[WantedTopic, ...]
    now: Now
    settle: Callable[[Mapping[str, str]], None]


class Event(ValueObject):
    """Base of all events. `partition` is that of `topic` concerned, `now` the time of the input.

    `is_routine`: it occurs so often in normal operation that it is logged with -v only.
    """

    coordinator: ClassVar[str] = "GroupCoordinator"
    topic: ClassVar[str] = OFFSETS_TOPIC
    is_routine: ClassVar[bool] = False

    partition: int
    now: Now


class Step:
    """The effects of one input, for `StepApplier.apply`: append first, then release replies, then publish events.

    `appends` are for partitions of `topic`, and may grow while they are tried one after the other. `replies` holds
    (ticket, response message); at most one reply is ever made for a ticket. `markers` are written after the appends.
    `lookups`, `errands` and `topics_wanted` are begun after that, too; their results are other inputs.
    Each of `once_durable` is called once what the logs of the Step's partitions hold by then is as durable as was
    promised, and not at all when that is lost; what it returns is to be applied. `log_starts` has pairs of a partition of
    `topic` and the offset at which its log is to begin; what is before is deleted under the same condition.

    `partitions`: those of `topic` whose state this step is made from, written or only read; no response may be sent
    before what is in their logs by now is as durable as was promised. `at_work`: the one of them that may be half
    changed when an exception ends the input or its application; None before a shard was found and after all is done.
    """

    __slots__ = (
        "appends",
        "at_work",
        "errands",
        "events",
        "log_starts",
        "lookups",
        "markers",
        "once_durable",
        "partitions",
        "replies",
        "topic",
        "topics_wanted",
    )

    def __init__(self, topic: str = OFFSETS_TOPIC) -> None:
        self.topic = topic
        self.at_work: int | None = None
        self.partitions: Sequence[int] = ()
        self.markers: Sequence[Marker] = ()
        self.lookups: Sequence[Lookup] = ()
        self.errands: Sequence[Errand] = ()
        self.topics_wanted: Sequence[TopicsWanted] = ()
        self.once_durable: Sequence[Callable[[], Step | None]] = ()
        self.log_starts: Sequence[tuple[int, int]] = ()
        self.appends: list[Append] = []
        self.replies: list[tuple[Ticket, Any]] = []
        self.events: list[Event] = []

    def works_on(self, partition: int) -> None:
        """The shard of `partition` is going to be read or changed."""
        self.at_work = partition
        if not self.partitions:
            self.partitions = (partition,)
        elif partition not in self.partitions:
            self.partitions = (*self.partitions, partition)

    def ask(self, errand: Errand) -> None:
        """Have an errand run after this Step."""
        if isinstance(self.errands, list):
            self.errands.append(errand)
        else:
            self.errands = [errand]

    def reply(self, ticket: Ticket, response: object) -> None:
        """Answer `ticket`; released after this step's appends are in the log."""
        self.replies.append((ticket, response))
