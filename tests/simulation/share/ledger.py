"""What the members of one share group were told of the records of a partition, and what they may be told next.

All of it is known from outside: from requests, answers and the clock. A record is *open* until an answer says that it is
accepted or rejected, or that it was released after the last delivery that is allowed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from kshim.share_partitions.share_partition import RELEASE, RENEW
from kshim_protocol.errors import ErrorCode
from tests.simulation.violation import require

NOBODY = ""


class Told(NamedTuple):
    """One answered acquisition: offsets with their values, all of the same delivery count, answered at `at_ms`.

    `since_ms`: when the records were acquired at the earliest. What the same request said of others may have to be written
    before it is answered.
    """

    reader: str
    values: Mapping[int, bytes | None]
    delivery_count: int
    at_ms: int
    since_ms: int


_UNKNOWN = 2**63
"""Where the batch of a record ends whose producer was not answered."""


class _Record:
    """`low` and `high`: between these is how often it was delivered, as the broker has to know.

    A crash may forget deliveries after which nothing was written: `written` is what it cannot forget. `held_until_ms` is
    the earliest and the latest end of the lock of `holder`. `is_said`: what `holder` said of it is on its way; `may_return`: it
    releases it with a request that may be answered only long after that was written.
    `late_count`: how often it had been delivered when the broker forgot what it knew. Locks that had begun before may end only
    after the next delivery, which then is written to be as many.
    `unsure_count`: with this number of deliveries it may be done with, for nobody was told what became of the write.
    """

    __slots__ = (
        "batch_last",
        "held_until_ms",
        "high",
        "holder",
        "is_done",
        "is_gone",
        "is_said",
        "late_count",
        "low",
        "may_return",
        "must_come",
        "unsure_count",
        "value",
        "written",
    )

    def __init__(self, value: bytes) -> None:
        self.value = value
        self.must_come = False
        self.holder = NOBODY
        self.held_until_ms = (0, 0)
        self.low = self.high = self.written = self.late_count = 0
        self.is_said = False
        self.may_return = False
        self.is_done = False
        self.is_gone = False
        self.unsure_count = 0
        self.batch_last = _UNKNOWN

    @property
    def most(self) -> int:
        """How often it may have been delivered, as the broker may come to know."""
        return max(self.high, self.late_count)

    @property
    def is_open(self) -> bool:
        return not self.is_done and not self.is_gone


class Statement:
    """What one request says of records. `outcome`: whether it must be taken (True), refused (False), or may be either."""

    def __init__(self, reader: str, types: Mapping[int, int], outcome: bool | None, at_ms: int) -> None:
        self.reader = reader
        self.types = types
        self.outcome = outcome
        self.at_ms = at_ms


class Ledger:
    """One partition. `is_troubled`: writes have failed since the last `calm`, so that less is certain."""

    def __init__(self, name: str, *, lock_ms: int, delivery_limit: int, window: int, largest_batch: int) -> None:
        self.name = name
        self.is_troubled = False
        self.begins_later = False  # records were deleted
        self._log_start = 0
        self._unanswered = 0
        self._unheard = 0  # requests that were never answered
        self._producing: list[int] = []  # of each unanswered producer, how many these were when it began
        self._lock_ms = lock_ms
        self._delivery_limit = delivery_limit
        self._window = window
        self._largest_batch = largest_batch
        self._records: dict[int, _Record] = {}

    # Producers

    def produces(self) -> int:
        """A producer asks. What it writes may be delivered before it is answered; the number is for `produced`."""
        self._producing.append(self._unheard)
        return self._unheard

    def produced(self, base_offset: int, values: Iterable[bytes], unheard_before: int) -> None:
        """A producer was told so. Raises Violation."""
        found = [self._record(offset, value) for offset, value in enumerate(values, base_offset)]
        self._producing.remove(unheard_before)
        for record in found:
            record.must_come = True
            record.batch_last = base_offset + len(found) - 1

    def _record(self, offset: int, value: bytes | None) -> _Record:
        record = self._records.get(offset)
        if record is None:
            record = self._records[offset] = _Record(value or b"")
            record.high = self._unheard - min(self._producing, default=self._unheard)
            record.unsure_count = record.high if record.high >= self._delivery_limit else 0
        require(record.value == value, "other-record", f"{self.name} {offset}: {value!r}, not {record.value!r}")
        return record

    def deleted_before(self, offset: int) -> None:
        """An administrator asks for records to be deleted: nobody is to be told of them any more."""
        self.begins_later = True
        self._log_start = max(self._log_start, offset)
        for at, record in self._records.items():
            record.is_gone |= at < offset

    # Deliveries

    def delivered(self, told: Told) -> None:
        """A member was given records. Raises Violation."""
        for offset, value in told.values.items():
            where = f"{self.name} {offset} for {told.reader}"
            require(value is not None, "acquired-without-record", where)
            record = self._record(offset, value)
            if record.is_said and record.may_return:
                record.is_said = False
                self._ends(record, RELEASE)
            if told.at_ms >= told.since_ms + self._lock_ms:
                # The answer waited for a write for so long that the lock is over: others may have had the record since.
                record.high = max(record.high, told.delivery_count)
                continue
            require(not record.is_done, "delivered-after-its-end", where)
            # As in Kafka a batch of which only a part was deleted may come as a whole.
            is_gone = record.is_gone and record.batch_last < self._log_start
            require(not is_gone, "delivered-although-deleted", where)
            require(not record.is_said, "delivered-while-written", where)
            is_held = record.holder != NOBODY and told.at_ms < record.held_until_ms[0]
            require(not is_held, "held-by-two", f"{where}: {record.holder} has it until {record.held_until_ms[0]}")
            count = told.delivery_count
            is_possible = record.low + 1 <= count <= record.most + 1 + self._unanswered
            require(is_possible, "count-wrong", f"{where}: {count} after {record.low} to {record.high} deliveries")
            require(count <= self._delivery_limit, "too-often", f"{where}: the {count}th time")
            record.low = record.high = count
            record.holder = told.reader
            record.held_until_ms = (told.since_ms + self._lock_ms, told.at_ms + self._lock_ms)
        held = sum(self._is_held(record, told.at_ms) for record in self._records.values())
        # What is acquired last is a whole batch.
        require(held < self._window + self._largest_batch, "too-many-held", f"{self.name}: {held}")

    def asks_and_says(self) -> None:
        """A member asks for records and says something: what it is given now it hears of when the latter is written."""
        self._unanswered += 1

    def has_heard(self) -> None:
        """It was answered."""
        self._unanswered -= 1

    def never_hears(self) -> None:
        """It will not be answered: any record may have been delivered once more, perhaps for the last time."""
        self._unanswered -= 1
        self._unheard += 1
        for record in self._records.values():
            record.high += 1
            if record.is_open and record.high >= self._delivery_limit:
                record.unsure_count = record.high

    @staticmethod
    def _is_held(record: _Record, now_ms: int) -> bool:
        return record.is_open and record.holder != NOBODY and now_ms < record.held_until_ms[0]

    def held_by(self, reader: str, now_ms: int) -> list[int]:
        """The offsets of the records that a member still has."""
        return sorted(
            offset
            for offset, record in self._records.items()
            if record.holder == reader and not record.is_said and self._is_held(record, now_ms)
        )

    def known(self) -> list[int]:
        """All offsets that anybody was told of."""
        return sorted(self._records)

    # What members say

    def says(self, reader: str, types: Mapping[int, int], now_ms: int, *, is_fetch: bool = False) -> Statement:
        """A member says of records what became of them; the request is about to be sent. `is_fetch`: it asks for others, too."""
        rights = {self._has_right(reader, offset, now_ms) for offset in types}
        outcome = False if False in rights else None if None in rights else True
        if self.is_troubled:
            outcome = None
        if outcome is not False:
            for offset, type_ in types.items():
                record = self._records.get(offset)
                if record is None or record.holder != reader or not record.is_open:
                    continue
                if type_ == RENEW:
                    record.held_until_ms = (record.held_until_ms[0], now_ms + self._lock_ms)
                else:
                    record.is_said = True
                    record.may_return = is_fetch and type_ == RELEASE
        return Statement(reader, types, outcome, now_ms)

    def _has_right(self, reader: str, offset: int, now_ms: int) -> bool | None:
        record = self._records.get(offset)
        if record is None or not record.is_open or record.is_said or record.unsure_count:
            return None  # what is said of records that are done with is passed over at the start of what is in flight
        if record.holder == reader and now_ms < record.held_until_ms[0]:
            return True
        if record.holder == reader and now_ms < record.held_until_ms[1]:
            return None
        is_archived = record.most >= self._delivery_limit  # when its lock ended, or its holder left
        return None if is_archived else False

    def answered(self, statement: Statement, error: ErrorCode) -> None:
        """What a member said has been answered. Raises Violation."""
        is_taken = error is ErrorCode.NONE
        where = f"{self.name} {sorted(statement.types)} by {statement.reader}: {error.name}"
        if statement.outcome is not None and not self.is_troubled:
            require(is_taken == statement.outcome, "wrongly-refused" if statement.outcome else "wrongly-taken", where)
        is_written = is_taken or error is not ErrorCode.INVALID_RECORD_STATE
        for offset, type_ in statement.types.items():
            record = self._records.get(offset)
            if record is None or not record.is_open:
                continue
            if record.holder != statement.reader:
                # The end of its session may not have been written, so that its holder still had it on a new connection.
                if is_taken and self.is_troubled and type_ != RENEW:
                    record.unsure_count = record.high
                continue
            if type_ == RENEW:
                if is_taken:
                    record.held_until_ms = (statement.at_ms + self._lock_ms,) * 2
                continue
            record.is_said = False
            if is_taken and statement.at_ms >= record.held_until_ms[0]:
                # It was perhaps done with since its lock had ended, which need not have been written.
                record.holder = NOBODY
                record.unsure_count = record.high
            elif is_taken:
                self._ends(record, type_)
            elif is_written:
                record.unsure_count = record.high

    def _ends(self, record: _Record, type_: int) -> None:
        record.holder = NOBODY
        record.written = record.low
        if record.unsure_count < record.high:
            record.unsure_count = 0
        if type_ != RELEASE or record.low >= self._delivery_limit:
            record.is_done = True

    def gives_up(self, reader: str) -> None:
        """The session of a member is over: others may have what it holds."""
        for record in self._records.values():
            if record.holder == reader:
                record.holder = NOBODY
                if record.is_said:
                    record.is_said = False
                    record.unsure_count = record.high

    def forgotten(self) -> None:
        """Nobody of the group has a session any more: the broker may know only what is written, as in Kafka."""
        for record in self._records.values():
            if record.holder != NOBODY or record.is_said or record.low != record.written:
                record.unsure_count = record.high
                record.late_count = record.most
            record.holder = NOBODY
            record.is_said = False
            record.low = record.written

    def crashed(self) -> None:
        """The broker is gone, and what it had not written."""
        for record in self._records.values():
            record.late_count = 0
            if record.is_said:
                record.unsure_count = record.high
            record.holder = NOBODY
            record.is_said = False
            record.low = record.written

    # What must come

    def available(self, now_ms: int) -> list[int]:
        """The records that the next who asks must be given, as long as nothing is being written."""
        if self.is_troubled:
            return []
        open_offsets = sorted(offset for offset, record in self._records.items() if record.is_open)
        return [
            offset
            for offset in open_offsets
            if offset < open_offsets[0] + self._window and self._must_come(self._records[offset], now_ms)
        ]

    def _must_come(self, record: _Record, now_ms: int) -> bool:
        is_free = record.holder == NOBODY or now_ms >= record.held_until_ms[1]
        is_certain = record.must_come and not record.is_said and not record.unsure_count
        return record.is_open and is_free and is_certain and record.most + self._unanswered < self._delivery_limit

    def missing(self) -> Iterator[int]:
        """What should have been done with when everything was delivered and accepted."""
        for offset, record in self._records.items():
            if record.is_open and record.must_come and not record.unsure_count and record.most < self._delivery_limit:
                yield offset
