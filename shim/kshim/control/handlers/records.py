"""Records over HTTP, without a Kafka client."""

from __future__ import annotations

from typing import TypeVar

from msgspec import UNSET, UnsetType

from kshim.control.context import ControlContext
from kshim.control.documents import (
    RecordDocument,
    RecordInput,
    RecordPage,
    RecordPlace,
    RecordPlaces,
    RecordQuery,
    RecordsInput,
    TopicName,
)
from kshim.control.http import ProblemError
from kshim.control.routing import Table
from kshim.harness.record import Record
from kshim.harness.records import produce, record_page

T = TypeVar("T")

TABLE = Table()


@TABLE.post("/v1/topics/{topic}/records", status=201, problems=(404, 422, 503))
def produce_records(context: ControlContext, topic: TopicName, body: RecordsInput) -> RecordPlaces:
    """Write records, as a producer with acks=all does."""
    try:
        written = produce(context.cluster, topic, [_record(record) for record in body.records], context.now())
    except LookupError as error:
        raise ProblemError(404, str(error)) from None
    return RecordPlaces(
        records=[
            RecordPlace(partition=record.partition or 0, offset=record.offset, timestamp_ms=record.timestamp_ms or 0)
            for record in written
        ]
    )


@TABLE.get("/v1/topics/{topic}/records", problems=(404, 422))
def read_records(context: ControlContext, topic: TopicName, query: RecordQuery) -> RecordPage:
    """Read records of one partition, as a consumer would see them. No offset is committed."""
    try:
        records, next_offset, end = record_page(
            context.cluster, topic, query.partition, query.offset, query.limit, isolation=query.isolation
        )
    except LookupError as error:
        raise ProblemError(404, str(error)) from None
    return RecordPage(records=[_document(record) for record in records], next=next_offset, end=end)


def _record(given: RecordInput) -> Record:
    return Record(
        _chosen(given.value, given.value_base64),
        _chosen(given.key, given.key_base64),
        {name: value.encode() for name, value in given.headers.items()},
        None if given.partition is UNSET else given.partition,
        timestamp_ms=None if given.timestamp_ms is UNSET else given.timestamp_ms,
    )


def _chosen(text: str | None, data: bytes | UnsetType) -> str | bytes | None:
    return text if data is UNSET else data


def _document(record: Record) -> RecordDocument:
    key, key_base64 = _text(record.key)
    value, value_base64 = _text(record.value)
    headers = record.headers.items() if hasattr(record.headers, "items") else record.headers
    return RecordDocument(
        partition=record.partition or 0,
        offset=record.offset,
        timestamp_ms=record.timestamp_ms or 0,
        key=key,
        value=value,
        headers=[(name, None if data is None else data.decode("utf-8", "replace")) for name, data in headers],
        key_base64=key_base64,
        value_base64=value_base64,
    )


def _text(data: bytes | str | None) -> tuple[str | None, bytes | UnsetType]:
    """As text, or else as bytes."""
    if not isinstance(data, bytes):
        return data, UNSET
    try:
        return data.decode(), UNSET
    except UnicodeDecodeError:
        return None, data
