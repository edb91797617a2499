"""The log of one partition, as the broker and the coordinator's appends see it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from kshim.storage.producer_snapshot import ProducerSnapshot


class LogError(Exception):
    """The log could not do what was asked: disk full, I/O error, corrupt file. `str(error)` says what and where."""


class OffsetOutOfRange(LogError):
    """The offset lies before `start_offset` or beyond `end_offset`."""


class CorruptLog(LogError):
    """A damaged batch with sound ones behind it: no torn write, which would be the last one.

    `path` is the file, `position` the byte in it, `offset` the first that the damaged batch may hold.
    """

    def __init__(self, path: str, offset: int, position: int, reason: str) -> None:
        super().__init__(f"{path} is damaged at byte {position}, offset {offset}: {reason}")
        self.path = path
        self.offset = offset
        self.position = position
        self.reason = reason


class UncleanableBatch(LogError):
    """A batch that is damaged, or compressed with a codec that is not installed: its log cannot be compacted."""


class Sync(Protocol):
    """A sync that has begun. `run` is called once, then `finish` or `failed`, also when the log has been closed since."""

    def run(self) -> None:
        """Sync; blocks, in any thread. Raises LogError, after which nothing is known of what is on the disk."""

    def finish(self) -> None:
        """`run` has returned: on the loop. Moves `durable_offset` up to the log's end when the sync began."""

    def failed(self, error: LogError) -> None:
        """`run` has raised `error`: on the loop. Appends fail from now on, see `Log.begin_sync`."""


class SegmentView(Protocol):
    """One segment of a log. What it says may raise LogError where it has to be read first."""

    @property
    def base_offset(self) -> int:
        """The offset it is named by."""

    @property
    def end_offset(self) -> int:
        """Offset behind its last batch."""

    @property
    def size_bytes(self) -> int:
        """Bytes of its batches."""

    @property
    def first_timestamp_ms(self) -> int:
        """The greatest of its first batch, negative when it has none."""

    @property
    def max_timestamp_ms(self) -> int:
        """The greatest of all its batches, negative when there is none."""

    def chunks(self) -> Iterator[Callable[[], bytes]]:
        """Jobs, to be done in order, in any thread: each reads the next whole batches, about 1 MiB of them.

        They go on when the segment is replaced or removed meanwhile, and raise LogError.
        """


class Replacement(Protocol):
    """A segment being written that will take the place of others. `abandon` it unless it was finished."""

    def write(self, batches: bytes) -> None:
        """Add whole batches. Blocks, in any thread; raises LogError."""

    def prepare(self) -> None:
        """Make it survive power loss. Blocks, in any thread; raises LogError."""

    def finish(self) -> bool:
        """Put it in the place of the old ones. On the loop; False when those are no longer what they were."""

    def abandon(self) -> None:
        """Remove what was written."""


class ProducerSnapshots(Protocol):
    """What outlives the process of a log's producers. Calls block; LogError when they fail."""

    def load(self, *, end_offset: int) -> ProducerSnapshot | None:
        """The newest sound snapshot that says nothing of what a log up to `end_offset` does not hold, or None."""

    def save(self, snapshot: ProducerSnapshot, segments: Sequence[int]) -> Callable[[], None]:
        """Writes a snapshot of what the log holds by now: to be called in any thread, one at a time for a log.

        `segments` are the base offsets of the log's segments, at least one.
        """


class Log(Protocol):
    """Record batches (v2) of one partition in offset order. Calls block; nothing here reads a clock.

    Any call may raise LogError when files are involved, since they are opened on first use.
    """

    segment_bytes: int
    """Size at which `append` begins a new segment."""
    segment_ms: int
    """Age at which it does: of a batch's greatest timestamp over that of the segment's first batch."""
    leader_epoch: int
    """What `append` stamps batches with; 0 at first."""

    @property
    def producer_files(self) -> ProducerSnapshots | None:
        """What is kept of its producers beside the records; None where nothing outlives the process."""

    @property
    def start_offset(self) -> int:
        """First offset that may be read (Kafka's LogStartOffset). It may lie inside the first batch."""

    @property
    def end_offset(self) -> int:
        """Offset the next record will get (Kafka's log end offset)."""

    @property
    def durable_offset(self) -> int:
        """Everything before this offset survives power loss; `end_offset` for a log in memory."""

    @property
    def size_bytes(self) -> int:
        """Bytes of all batches held."""

    def append(self, batch: bytes) -> int:
        """Append one whole, already validated batch; its base offset is set to `end_offset`, its epoch to `leader_epoch`.

        Returns the base offset. The bytes have reached the kernel (files) when this returns.
        Raises LogError, with the log as it was before.
        """

    def read(self, offset: int, max_bytes: int, *, at_least_one_batch: bool = True) -> bytes:
        """Whole batches from the one holding `offset`, up to `max_bytes`; at least one when asked, however large.

        b"" at `end_offset`. Raises OffsetOutOfRange, LogError.
        """

    def bytes_from(self, offset: int) -> int:
        """How many bytes `read(offset, unlimited)` would return, without reading them (for min_bytes of a Fetch).

        Raises OffsetOutOfRange.
        """

    def batches(self, offset: int | None = None) -> Iterator[bytes]:
        """Every batch from the one holding `offset` (default: `start_offset`) to the end, for replay.

        The first batch may begin before `offset`. Raises OffsetOutOfRange, LogError; while iterating.
        """

    def runs(self, offset: int | None = None, max_bytes: int = 1 << 16) -> Iterator[bytes]:
        """The same, many at a time: whole batches of up to `max_bytes`, or one that is larger. CRCs have been checked.

        What is appended, removed or replaced meanwhile is read as it is by then. Raises CorruptLog, as `batches` does.
        """

    def offset_for_timestamp(self, timestamp_ms: int) -> tuple[int, int] | None:
        """(offset, timestamp_ms) of the first record with timestamp >= `timestamp_ms`, or None.

        Raises LogError when the batch that holds it cannot be decoded (Produce does not look inside batches).
        """

    def max_timestamp(self) -> tuple[int, int] | None:
        """(offset, timestamp_ms) of the first record with the greatest timestamp, or None when no record has one.

        Raises LogError as `offset_for_timestamp` does.
        """

    def delete_before(self, offset: int) -> None:
        """Move `start_offset` up to `offset` and free what lies wholly before it; nothing if it is there already.

        Raises OffsetOutOfRange beyond `end_offset`.
        """

    def truncate_to(self, offset: int) -> None:
        """Drop every batch that holds `offset` or later ones; `end_offset` becomes the end of the last batch left.

        Nothing at `end_offset` or beyond. Raises OffsetOutOfRange before `start_offset`.
        """

    def roll(self) -> bool:
        """Begin a new segment; False when the active one is empty. Raises LogError."""

    def segments(self) -> Sequence[SegmentView]:
        """All segments in order, of which the last one is active; none before the first append to a log in files."""

    def begin_replacement(self, segments: Sequence[Any]) -> Replacement:
        """Begin to replace neighbouring sealed `segments`, as `segments` gave them, by one. Raises LogError."""

    def begin_sync(self) -> Sync | None:
        """Begin to make everything appended so far survive power loss; None when there is nothing to do.

        Also None while another sync of this log is under way, and after one has failed: then appends raise LogError
        until `cut_unsynced` or `rewrite_unsynced` has succeeded. Appends may go on between begin and finish.
        Raises LogError.
        """

    def cut_unsynced(self) -> None:
        """After a failed sync: drop what lies behind `durable_offset`, and go on from there.

        Blocks; may run in a thread while the log is not in use. Raises LogError, and may then be called again.
        """

    def rewrite_unsynced(self) -> None:
        """After a failed sync: write what lies behind `durable_offset` once more, to be synced by the next sync.

        Batches that cannot be read back whole are lost, with all behind them, and reported as a tail that was cut.
        Blocks; may run in a thread while the log is not in use. Raises LogError, and may then be called again.
        """

    def sync(self) -> None:
        """Make everything appended so far survive power loss. Blocks, for shutting down; raises LogError."""

    def delete(self) -> None:
        """Close and remove everything stored."""

    def forget(self) -> None:
        """Close without a sync: what it holds is no longer wanted."""

    def close(self) -> None:
        """Sync and close; the log is not used afterwards. Blocks; a sync under way should have ended before."""
