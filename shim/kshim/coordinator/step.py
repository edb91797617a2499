"""What goes into the coordinator and what comes out of it: requests with their context in, `Step`s out."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from kshim.coordinator.groups.events import Event
    from kshim.coordinator.transactions.markers import Marker
    from kshim_protocol.errors import ErrorCode


OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTIONS_TOPIC = "__transaction_state"


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

    leads_group_shard: Callable[[int], bool] | None = None
    """Whether the node that was asked answers for a partition of the offsets topic. None: it does for all."""
    leads_transaction_shard: Callable[[int], bool] | None = None
    """The same for a partition of the transaction topic."""

    def __init__(self, api_version: int, client_id: str | None, client_host: str, now: Now, real_ms: int = 0) -> None:
        self.api_version = api_version
        self.client_id = client_id
        self.client_host = client_host
        self.now = now
        self.real_ms = real_ms


class Append:
    """One record batch for one partition of the offsets topic or of the transaction topic, and what follows from its fate.

    `written(base_offset, step)` or `failed(error, step)` is called exactly once, at once after the append was tried,
    with the Step this append is from, which it fills further: replies, events in the order of what happened, perhaps
    further appends. State described by the batch changes only in `written`.
    """

    __slots__ = ("batch", "failed", "partition", "topic", "written")

    def __init__(
        self,
        partition: int,
        batch: bytes,
        written: Callable[[int, Step], None],
        failed: Callable[[ErrorCode, Step], None],
        *,
        topic: str = OFFSETS_TOPIC,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.batch = batch
        self.written = written
        self.failed = failed

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


class Step:
    """The effects of one input, for `broker.apply`: append first, then release replies, then publish events.

    `appends` may grow while they are tried one after the other. `replies` holds (ticket, response message). At most
    one reply is ever made for a ticket. `partitions`: those of `topic` whose state this step is made from, written or
    only read; nobody may hear of it before what is in their logs by now is as durable as was promised. All appends are
    for that topic, too. `markers` and `once_durable`: see `TransactionStep`.
    """

    __slots__ = ("appends", "events", "partitions", "replies")

    topic: str = OFFSETS_TOPIC
    markers: Sequence[Marker] = ()
    once_durable: Sequence[Callable[[], Step | None]] = ()

    def __init__(self) -> None:
        self.partitions: Collection[int] = ()
        self.appends: list[Append] = []
        self.replies: list[tuple[Ticket, Any]] = []
        self.events: list[Event] = []

    def reply(self, ticket: Ticket, response: object) -> None:
        """Answer `ticket`; released after this step's appends are in the log."""
        self.replies.append((ticket, response))
