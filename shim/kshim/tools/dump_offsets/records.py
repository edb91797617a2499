"""Batches of `__consumer_offsets` or `__share_group_state` become one document a record, marker, or piece of damage.

`docs/dump-offsets.md` lists the fields: they are an interface.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kshim.tools.dump_offsets.values import base64_text, document_of
from kshim_protocol.frame import ProtocolError
from kshim_protocol.internal.record_types import (
    RECORD_TYPES,
    RecordType,
    parse_typed_key,
    parse_versioned_value,
)
from kshim_protocol.internal.versioned import UnknownValueVersion
from kshim_protocol.records.batch import BatchHeader
from kshim_protocol.records.compression import CompressionUnavailableError
from kshim_protocol.records.control import parse_control_record
from kshim_protocol.records.record import Record, iter_records
from kshim_protocol.records.scan import Batch, Damage

Document = dict[str, Any]


class Tally:
    """What was met so far. `problem_count` is what could not be decoded: damage, malformed or unknown values."""

    def __init__(self) -> None:
        self.partition_count = 0
        self.batch_count = 0
        self.record_count = 0
        self.tombstone_count = 0
        self.marker_count = 0
        self.unknown_types: dict[int, int] = {}
        self.unknown_version_count = 0
        self.malformed_count = 0
        self.damage_count = 0

    @property
    def problem_count(self) -> int:
        return self.unknown_version_count + self.malformed_count + self.damage_count


class PartitionDump:
    """The documents of one partition, in offset order.

    With `group` only what concerns that group: its records, the markers of its transactions, and all damage, for
    nobody knows whose that was. Offsets before `start` and from `end` on are left out.
    """

    def __init__(
        self,
        partition: int,
        tally: Tally,
        *,
        types: Mapping[int, RecordType] = RECORD_TYPES,
        group: str | None = None,
        start: int = 0,
        end: int | None = None,
    ) -> None:
        self._partition = partition
        self._types = types
        self._tally = tally
        self._group = group
        self._start = start
        self._end = end
        self._open_transactions: set[int] = set()  # producers whose open transaction has records of the group
        tally.partition_count += 1

    def documents(self, pieces: Iterator[Batch | Damage]) -> Iterator[Document]:
        """Raises SourceError, from `pieces`."""
        for piece in pieces:
            if isinstance(piece, Damage):
                yield self._damage(piece)
                continue
            if self._end is not None and piece.header.base_offset >= self._end:
                return
            self._tally.batch_count += 1
            yield from self._batch(piece)

    def _batch(self, batch: Batch) -> Iterator[Document]:
        about: Document | None = None
        make = self._marker if batch.header.is_control else self._record
        try:
            for record in iter_records(batch.data):
                if record.offset < self._start or (self._end is not None and record.offset >= self._end):
                    continue
                document = make(record, batch.header)
                if document is not None:
                    document["batch"] = about = about or _about_batch(batch.header)
                    yield document
        except (ProtocolError, CompressionUnavailableError) as error:
            self._tally.malformed_count += 1
            yield {
                "kind": "malformed_batch",
                "partition": self._partition,
                "offset": batch.header.base_offset,
                "place": batch.place,
                "error": str(error),
                "batch": _about_batch(batch.header),
            }

    def _damage(self, damage: Damage) -> Document:
        self._tally.damage_count += 1
        return {
            "kind": "damage",
            "partition": self._partition,
            "place": damage.place,
            "size_bytes": damage.size_bytes,
            "is_torn_tail": damage.is_tail,
            "error": damage.reason,
        }

    def _marker(self, record: Record, header: BatchHeader) -> Document | None:
        if self._group is not None and header.producer_id not in self._open_transactions:
            return None
        self._open_transactions.discard(header.producer_id)
        self._tally.record_count += 1
        document: Document = {
            "kind": "marker",
            "partition": self._partition,
            "offset": record.offset,
            "timestamp_ms": record.timestamp_ms,
        }
        try:
            marker = parse_control_record(record)
        except ProtocolError as error:
            self._tally.malformed_count += 1
            return {**document, **_raw(record), "error": str(error)}
        if marker is None:
            return {**document, **_raw(record), "control_type": None}
        self._tally.marker_count += 1
        return {
            **document,
            "control_type": marker.control_type.name.lower(),
            "coordinator_epoch": marker.coordinator_epoch,
        }

    def _record(self, record: Record, header: BatchHeader) -> Document | None:
        document: Document = {
            "kind": "record",
            "partition": self._partition,
            "offset": record.offset,
            "timestamp_ms": record.timestamp_ms,
        }
        try:
            if record.key is None:
                raise ProtocolError("a record without a key", message="Record", field="key", offset=0)
            number, key = parse_typed_key(record.key, self._types)
        except ProtocolError as error:
            return self._malformed(document, record, error)
        if key is None:
            return self._unknown_type(document, record, number)
        type_ = self._types[number]
        group_row = key.info.rows[0].name  # `group`, or `group_id` in newer types
        group = getattr(key, group_row)
        if self._group is not None and group != self._group:
            return None
        if header.is_transactional:
            self._open_transactions.add(header.producer_id)
        self._tally.record_count += 1
        described = document_of(key, 0)
        del described[group_row]
        document["key"] = {"type": number, "name": type_.name, "group": group, **described}
        if record.value is None:
            self._tally.tombstone_count += 1
            return {**document, "value_version": None, "value": None}
        try:
            version, value = parse_versioned_value(type_, record.value)
        except UnknownValueVersion as error:
            self._tally.unknown_version_count += 1
            return {**document, "value_version": error.version, **_raw(record), "error": str(error)}
        except ProtocolError as error:
            self._tally.malformed_count += 1
            return {**document, **_raw(record), "error": str(error)}
        return {**document, "value_version": version, "value": document_of(value, version)}

    def _malformed(self, document: Document, record: Record, error: ProtocolError) -> Document:
        self._tally.record_count += 1
        self._tally.malformed_count += 1
        return {**document, **_raw(record), "error": str(error)}

    def _unknown_type(self, document: Document, record: Record, number: int) -> Document | None:
        if self._group is not None:
            return None  # its group is unknown
        self._tally.record_count += 1
        self._tally.unknown_types[number] = self._tally.unknown_types.get(number, 0) + 1
        warning = f"key type {number} is unknown"
        return {**document, "key": {"type": number, "name": None}, **_raw(record), "warning": warning}


def _about_batch(header: BatchHeader) -> Document:
    return {
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "record_count": header.record_count,
        "size_bytes": header.size_bytes,
        "partition_leader_epoch": header.partition_leader_epoch,
        "compression": _compression(header),
        "is_transactional": header.is_transactional,
        "is_control": header.is_control,
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
        "delete_horizon_ms": header.base_timestamp_ms if header.has_delete_horizon else None,
    }


def _compression(header: BatchHeader) -> str:
    try:
        return header.compression.name.lower()
    except ProtocolError:
        return f"codec {header.attributes & 7}"


def _raw(record: Record) -> Document:
    """Key and value as they are, where they cannot be shown otherwise."""
    return {
        "key_base64": None if record.key is None else base64_text(record.key),
        "value_base64": None if record.value is None else base64_text(record.value),
    }
