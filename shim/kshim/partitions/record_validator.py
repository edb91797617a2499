"""Validation of the records that a producer sends: one by one, and in slices if there are many.

A batch of few bytes may hold a hundred million bytes of records. What is large is unpacked in a thread and checked as a
task; the others are checked at once. Kafka: LogValidator.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Generator
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from kshim_protocol.errors import ErrorCode, KafkaError
from kshim_protocol.frame import ProtocolError
from kshim_protocol.records.compression import Compression, CompressionUnavailableError, DecompressedTooLongError
from kshim_protocol.records.layout import ATTRIBUTES_AT, COMPRESSION_BITS, COUNT_AT, HEADER_BYTES
from kshim_protocol.records.selection import plain_records
from kshim_protocol.records.validation import RecordFacts, check_records, recompressed

if TYPE_CHECKING:
    from kshim.scheduling.background_tasks import BackgroundTask


MAX_PLAIN_BYTES: Final = 100 << 20
"""So large may the records of one batch be once they are unpacked; ten times the batch, if that is more."""
AT_ONCE_RECORDS: Final = 16_384
"""A batch of more records is checked in slices."""
_AT_ONCE_BYTES: Final = 1 << 20
_RECORDS_A_SLICE: Final = 1024

_unpack_count = struct.Struct(">i").unpack_from

Place = tuple[str, int]
"""Topic and partition."""


class CheckedRecords:
    """What was found in one batch. `batch` is None unless it was recompressed.

    `facts` are None where the package that reads the codec is not installed: then the batch is taken as it is.
    """

    __slots__ = ("batch", "facts")

    def __init__(self, facts: RecordFacts | None, batch: bytes | None) -> None:
        self.facts = facts
        self.batch = batch


class RecordValidator:
    """The batches of one request, each by its place. `codec`: what the topic of a batch wants it compressed with, None for as it is."""

    def __init__(self) -> None:
        self._found: dict[Place, CheckedRecords | KafkaError] = {}
        self._heavy: list[tuple[Place, bytes, Compression | None]] = []

    def add(self, place: Place, batch: bytes, codec: Compression | None) -> None:
        """Validate a batch if it is small. Errors are reported by `of`."""
        if len(batch) < HEADER_BYTES:
            return
        is_compressed = bool(batch[ATTRIBUTES_AT + 1] & COMPRESSION_BITS)
        if _unpack_count(batch, COUNT_AT)[0] > AT_ONCE_RECORDS:
            self._heavy.append((place, batch, codec))
            return
        try:
            data, at, count = plain_records(batch, max_decompressed_bytes=_AT_ONCE_BYTES)
            facts = RecordFacts()
            at = check_records(data, at, count, facts, is_numbered=is_compressed)
            self._found[place] = _found(batch, data, at, facts, codec)
        except DecompressedTooLongError:
            self._heavy.append((place, batch, codec))
        except ProtocolError as error:
            self._found[place] = _refused(error.reason)
        except CompressionUnavailableError as error:
            self._found[place] = _unchecked(codec, error)

    def of(self, place: Place) -> CheckedRecords:
        """What was found. Raises KafkaError INVALID_RECORD, UNSUPPORTED_COMPRESSION_TYPE."""
        found = self._found[place]
        if isinstance(found, KafkaError):
            raise found
        return found

    @property
    def has_heavy(self) -> bool:
        """Whether `look_closer` is needed before `of`."""
        return bool(self._heavy)

    def look_closer(self) -> BackgroundTask:
        """Check the heavy ones."""
        for place, batch, codec in self._heavy:
            try:
                self._found[place] = yield from _checked(batch, codec)
            except ProtocolError as error:
                self._found[place] = _refused(error.reason)
            except CompressionUnavailableError as error:
                self._found[place] = _unchecked(codec, error)
        self._heavy.clear()


def _checked(batch: bytes, codec: Compression | None) -> Generator[Callable[[], Any] | None, Any, CheckedRecords]:
    most_bytes = max(MAX_PLAIN_BYTES, 10 * len(batch))
    data, at, count = yield partial(plain_records, batch, max_decompressed_bytes=most_bytes)
    facts = RecordFacts()
    is_compressed = bool(batch[ATTRIBUTES_AT + 1] & COMPRESSION_BITS)
    while facts.count < count:
        at = check_records(data, at, min(_RECORDS_A_SLICE, count - facts.count), facts, is_numbered=is_compressed)
        yield None
    found: CheckedRecords = yield partial(_found, batch, data, at, facts, codec)
    return found


def _found(batch: bytes, data: bytes, at: int, facts: RecordFacts, codec: Compression | None) -> CheckedRecords:
    """Raises ProtocolError, CompressionUnavailableError."""
    if at != len(data):
        reason = f"{len(data) - at} bytes after the last record"
        raise ProtocolError(reason, message="RecordBatch", version=2, field="records", offset=at)
    old_codec = batch[ATTRIBUTES_AT + 1] & COMPRESSION_BITS
    if codec is None or codec == old_codec:
        return CheckedRecords(facts, None)
    return CheckedRecords(facts, recompressed(batch, data if old_codec else data[HEADER_BYTES:], codec))


def _unchecked(codec: Compression | None, error: CompressionUnavailableError) -> CheckedRecords | KafkaError:
    if codec is None:
        return CheckedRecords(None, None)
    return KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, str(error))


def _refused(reason: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_RECORD, reason)
