"""Keys and values of records as what JSON knows: dicts, lists, numbers, text, None."""

from __future__ import annotations

from binascii import b2a_base64
from functools import cache
from typing import Any, Final

from kshim.tools.logs.ids import uuid_text
from kshim_protocol.codec import codec
from kshim_protocol.frame import ProtocolError
from kshim_protocol.internal.consumer import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from kshim_protocol.schema import ZERO_UUID, Row, Struct, row_is_in

CONSUMER_PROTOCOL_TYPE: Final = "consumer"
_NEWEST_EMBEDDED: Final = 3

_UNITS: Final = {
    "assignment_timestamp": "assignment_timestamp_ms",
    "commit_timestamp": "commit_timestamp_ms",
    "create_timestamp": "create_timestamp_ms",
    "current_state_timestamp": "current_state_timestamp_ms",
    "expire_timestamp": "expire_timestamp_ms",
    "rebalance_timeout": "rebalance_timeout_ms",
    "session_timeout": "session_timeout_ms",
    "timestamp": "timestamp_ms",
    "write_timestamp": "write_timestamp_ms",
}
"""Kafka's rows that are times and do not say in what unit."""

_SHOWN_AS_IT_IS: Final = frozenset({"boolean", "int8", "int16", "int32", "int64", "string", "uint16"})

_EMBEDDED: Final[dict[tuple[str, str], type[Struct]]] = {
    ("MemberMetadata", "subscription"): ConsumerProtocolSubscription,
    ("MemberMetadata", "assignment"): ConsumerProtocolAssignment,
    ("ClassicProtocol", "metadata"): ConsumerProtocolSubscription,
}
"""Bytes in records whose meaning the consumer protocol knows, by table and row."""


def document_of(message: Struct, version: int, protocol_type: str | None = None) -> dict[str, Any]:
    """The rows of `message` that travel in `version`, times with `_ms` at the end; uuids and bytes as base64 text.

    What is embedded in it is decoded when `protocol_type` is "consumer".
    """
    protocol_type = getattr(message, "protocol_type", protocol_type)
    document: dict[str, Any] = {}
    cls: Any = type(message)  # classes can be keys, though mypy thinks of their objects, which cannot
    for name, shown_name, row in _rows(cls, version):
        value = getattr(message, name)
        document[shown_name] = value if row is None else _value(message, value, row, version, protocol_type)
    if message.unknown_tagged_fields:
        document["unknown_tagged_fields"] = {str(tag): base64_text(data) for tag, data in message.unknown_tagged_fields}
    return document


def embedded(cls: type[Struct], data: bytes) -> dict[str, Any]:
    """A subscription or an assignment with its version; `base64` and `error` when it is malformed.

    Newer versions are read by what is known of them, as Kafka does.
    """
    if not data:
        return {"base64": ""}
    try:
        version = int.from_bytes(data[:2], "big", signed=True)
        if len(data) < 2 or version < 0:
            raise ProtocolError("no version", message=cls.__name__, field="version", offset=0)
        known = min(version, _NEWEST_EMBEDDED)
        message, _ = codec(cls, known).parse(data, 2)
    except ProtocolError as error:
        return {"base64": base64_text(data), "error": str(error)}
    return {"version": version, **document_of(message, known)}


def base64_text(data: bytes) -> str:
    """Base64 with padding, without a line end."""
    return b2a_base64(data, newline=False).decode()


@cache
def _rows(cls: Any, version: int) -> list[tuple[str, str, Row | None]]:
    """(name, name to show, row) of what travels in a version; the row is None where the value is shown as it is."""
    return [
        (row.name, _UNITS.get(row.name, row.name), None if row.type in _SHOWN_AS_IT_IS else row)
        for row in cls.info.rows
        if row_is_in(row, version)
    ]


def _value(message: Struct, value: Any, row: Row, version: int, protocol_type: str | None) -> Any:
    if value is None:
        return None
    match row.type:
        case "array" if isinstance(row.element, type):
            return [document_of(one, version, protocol_type) for one in value]
        case "array":
            return [_plain(one, row.element) for one in value]
        case "struct":
            return document_of(value, version, protocol_type)
        case "bytes":
            cls = _EMBEDDED.get((type(message).__name__, row.name))
            # Only members of consumer groups have ClassicProtocols, whatever the record says.
            if cls is not None and (protocol_type == CONSUMER_PROTOCOL_TYPE or row.name == "metadata"):
                return embedded(cls, value)
            return {"base64": base64_text(value)} if cls is not None else base64_text(value)
        case _:
            return _plain(value, row.type)


def _plain(value: Any, type_: str) -> Any:
    if type_ == "uuid":
        return None if value == ZERO_UUID else uuid_text(value)
    if type_ == "bytes":
        return base64_text(value)
    return value
