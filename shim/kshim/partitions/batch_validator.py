"""What a topic asks of the batches that are written to it, and what it does to them."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from kshim_protocol.errors import ErrorCode, KafkaError
from kshim_protocol.frame import ProtocolError
from kshim_protocol.records.batch import InvalidBatchError, validate_batch
from kshim_protocol.records.compression import Compression, CompressionUnavailableError
from kshim_protocol.records.crc import crc32c
from kshim_protocol.records.layout import ATTRIBUTES_AT, COMPRESSION_BITS, CRC_AT, LOG_APPEND_TIME_BIT, MAX_TIMESTAMP_AT
from kshim_protocol.records.record import iter_records, iter_timestamps

if TYPE_CHECKING:
    from kshim.config.broker_config import BrokerConfig
    from kshim.partitions.record_validator import CheckedRecords
    from kshim_protocol.records.batch import BatchHeader


_NO_LIMIT_MS = (1 << 63) - 1
_CODECS = {
    "producer": None,
    "uncompressed": Compression.NONE,
    "gzip": Compression.GZIP,
    "snappy": Compression.SNAPPY,
    "lz4": Compression.LZ4,
    "zstd": Compression.ZSTD,
}
_FRAMING = frozenset({"magic", "base_offset", "batch_length"})
"""Fields that Kafka checks before the log (ProduceRequest.validateRecords)."""
_pack_crc_and_attributes = struct.Struct(">Ih").pack_into
_pack_timestamp = struct.Struct(">q").pack_into


class RejectedRecords(KafkaError):
    """A sound batch that this log does not take; Kafka answers with the log start offset then.

    `reasons` holds (index in the batch, why) of the records that made it fail, in order.
    """

    def __init__(self, code: ErrorCode, message: str | None, reasons: tuple[tuple[int, str], ...] = ()) -> None:
        super().__init__(code, message)
        self.reasons = reasons


class BatchValidator:
    """The part of a topic's configuration that Produce uses, parsed once.

    Batches are passed through unchanged if possible; `codec` is the required codec, None for as they
    come. Records are decoded only to say which of them are refused. Kafka: LogValidator; the levels of
    `compression.<codec>.level` have no effect here.
    """

    def __init__(self, config: BrokerConfig, configs: Mapping[str, str]) -> None:
        def value(name: str) -> Any:
            return config.topic_value(configs, name)

        self.configs = configs
        self.max_bytes: int = value("max.message.bytes")
        self._is_log_append_time: bool = value("message.timestamp.type") == "LogAppendTime"
        self._is_compacted: bool = "compact" in value("cleanup.policy")
        self._before_max_ms: int = value("message.timestamp.before.max.ms")
        self._after_max_ms: int = value("message.timestamp.after.max.ms")
        self._max_record_bytes: int = value("max.decompressed.message.bytes")
        self._segment_bytes: int = value("segment.bytes")
        self.writable_max_bytes = min(self.max_bytes, self._segment_bytes)
        """A batch of more is refused."""
        self.codec = _CODECS[value("compression.type")]

    def check(self, data: bytes) -> BatchHeader:
        """The header of what a producer sent for one partition, if that is one sound batch of a size allowed.

        Raises KafkaError: MESSAGE_TOO_LARGE, CORRUPT_MESSAGE, INVALID_RECORD. Raises RejectedRecords INVALID_RECORD.
        """
        if len(data) > self.max_bytes:
            self.check_size(len(data))
        try:
            return validate_batch(data)
        except InvalidBatchError as error:
            refusal = KafkaError if error.field in _FRAMING else RejectedRecords
            raise refusal(ErrorCode.INVALID_RECORD, error.reason) from None
        except ProtocolError as error:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, error.reason) from None

    def check_size(self, size_bytes: int) -> None:
        """Raises KafkaError MESSAGE_TOO_LARGE. It is the whole batch that counts, header included."""
        if size_bytes > self.max_bytes:
            raise KafkaError(
                ErrorCode.MESSAGE_TOO_LARGE,
                f"the batch has {size_bytes} bytes, more than the maximum of {self.max_bytes}",
            )

    def admit(self, batch: bytes, header: BatchHeader, checked: CheckedRecords, now_ms: int) -> tuple[bytes, int]:
        """(the batch as the log shall hold it, log append time in ms or -1). `now_ms` is Unix time.

        Raises RejectedRecords: INVALID_RECORD (no key in a compacted topic), INVALID_TIMESTAMP. Raises KafkaError:
        INVALID_RECORD for a compressed record that is too large, MESSAGE_TOO_LARGE for a batch that has grown when it was recompressed, UNSUPPORTED_COMPRESSION_TYPE.
        """
        facts = checked.facts
        if facts is not None and facts.largest_bytes > self._max_record_bytes and header.attributes & COMPRESSION_BITS:
            raise KafkaError(
                ErrorCode.INVALID_RECORD,
                f"a record has {facts.largest_bytes} bytes, more than the maximum of {self._max_record_bytes}",
            )
        if self._is_compacted and (facts is None or facts.lacks_key):
            self._require_keys(batch)
        attributes = header.attributes
        if checked.batch is not None:
            batch = checked.batch
            attributes = int.from_bytes(batch[ATTRIBUTES_AT : ATTRIBUTES_AT + 2], "big")
            if len(batch) > self.max_bytes:
                raise KafkaError(
                    ErrorCode.MESSAGE_TOO_LARGE, f"the batch has {len(batch)} bytes after it was recompressed"
                )
        if self._is_log_append_time:
            return _stamped(batch, attributes | LOG_APPEND_TIME_BIT, now_ms), now_ms
        latest_ms = now_ms + self._after_max_ms
        claims_time = bool(attributes & LOG_APPEND_TIME_BIT)
        greatest_ms = least_ms = header.max_timestamp_ms
        if facts is None:
            least_ms = -_NO_LIMIT_MS
        elif not claims_time:
            greatest_ms = header.base_timestamp_ms + facts.greatest_delta_ms
            least_ms = header.base_timestamp_ms + facts.least_delta_ms
        earliest_ms = now_ms - self._before_max_ms
        if greatest_ms > latest_ms or (least_ms < earliest_ms and self._before_max_ms != _NO_LIMIT_MS):
            self._require_timestamps(batch, earliest_ms, latest_ms)
        if claims_time or greatest_ms != header.max_timestamp_ms:
            # Only the broker may claim to have set the time, and what the header promises has to be so; Kafka too puts
            # both right and takes the records in.
            return _stamped(batch, attributes & ~LOG_APPEND_TIME_BIT, max(greatest_ms, -1)), -1
        return batch, -1

    def check_segment(self, batch: bytes) -> None:
        """Raises KafkaError RECORD_LIST_TOO_LARGE for a batch, as the log shall hold it, that no segment can hold."""
        if len(batch) > self._segment_bytes:
            raise KafkaError(
                ErrorCode.RECORD_LIST_TOO_LARGE,
                f"the batch has {len(batch)} bytes, more than a segment ({self._segment_bytes})",
            )

    def check_coordinator_batch(self, batch: bytes) -> None:
        """What a log asks of its own coordinator, too. Raises KafkaError: MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE."""
        if len(batch) > self.writable_max_bytes:
            self.check_size(len(batch))
            self.check_segment(batch)

    def _require_keys(self, batch: bytes) -> None:
        reasons = _decoded(
            lambda: [(index, "no key") for index, record in enumerate(iter_records(batch)) if record.key is None]
        )
        if reasons:
            raise RejectedRecords(
                ErrorCode.INVALID_RECORD, f"{len(reasons)} records without a key in a compacted topic", tuple(reasons)
            )

    def _require_timestamps(self, batch: bytes, earliest_ms: int, latest_ms: int) -> None:
        reasons = _decoded(
            lambda: [
                (index, f"timestamp {timestamp_ms} is not in [{earliest_ms}, {latest_ms}]")
                for index, (_, timestamp_ms) in enumerate(iter_timestamps(batch))
                if timestamp_ms != -1 and not earliest_ms <= timestamp_ms <= latest_ms
            ]
        )
        if reasons:
            raise RejectedRecords(
                ErrorCode.INVALID_TIMESTAMP, f"{len(reasons)} records with an invalid timestamp", tuple(reasons)
            )


def _decoded(read: Callable[[], Iterable[tuple[int, str]]]) -> list[tuple[int, str]]:
    try:
        return list(read())
    except ProtocolError as error:
        raise KafkaError(ErrorCode.INVALID_RECORD, str(error)) from None
    except CompressionUnavailableError as error:
        raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, str(error)) from None


def _stamped(batch: bytes, attributes: int, max_timestamp_ms: int) -> bytes:
    """The batch with other attributes and maximum timestamp, and the CRC that follows."""
    changed = bytearray(batch)
    _pack_crc_and_attributes(changed, CRC_AT, 0, attributes)
    _pack_timestamp(changed, MAX_TIMESTAMP_AT, max_timestamp_ms)
    _pack_crc_and_attributes(changed, CRC_AT, crc32c(memoryview(changed)[ATTRIBUTES_AT:]), attributes)
    return bytes(changed)
