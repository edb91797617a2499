"""Documents as lines for people: one a record, and one indented below it for each member."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

Document = dict[str, Any]

_INDENT = "    "
_MISLEADING = frozenset(' "=[](),')
_MILLISECONDS_OF_DAYS = "timestamp_ms"


def lines_of(document: Document) -> Iterator[str]:
    """The lines of one document."""
    match document["kind"]:
        case "damage":
            what = "INCOMPLETE WRITE" if document["is_torn_tail"] else "DAMAGED"
            yield f"{document['partition']:>2} {what} {document['size_bytes']} bytes, {document['place']}: {document['error']}"
        case "malformed_batch":
            yield f"{_place(document)} MALFORMED BATCH {document['place']}: {document['error']}"
        case "marker":
            yield f"{_place(document)} {_marker(document)}{_batch(document['batch'])}"
        case _:
            yield from _record(document)


def _place(document: Document) -> str:
    return f"{document['partition']:>2}@{document['offset']} {_time(document.get('timestamp_ms', -1))}"


def _marker(document: Document) -> str:
    if "error" in document:
        return f"MALFORMED control record: {document['error']}, key {document['key_base64']}"
    if document["control_type"] is None:
        return f"control record of another kind, key {document['key_base64']}"
    return f"{document['control_type'].upper()} transaction"


def _record(document: Document) -> Iterator[str]:
    place = _place(document)
    key = document.get("key")
    if key is None:
        yield f"{place} MALFORMED key {document['key_base64']}: {document['error']}"
        return
    if key["name"] is None:
        yield f"{place} WARNING {document['warning']}: key {document['key_base64']}, value {document['value_base64']}"
        return
    subject = " ".join([key["name"], *(_pair(name, key[name]) for name in key if name not in ("type", "name"))])
    batch = _batch(document["batch"])
    if "error" in document:
        yield f"{place} {subject} UNREADABLE value: {document['error']}, bytes {document['value_base64']}{batch}"
        return
    value = document["value"]
    if value is None:
        yield f"{place} {subject} tombstone{batch}"
        return
    members = value.get("members", ())
    rest = [_pair(name, value[name]) for name in value if name != "members"]
    if "members" in value:
        rest.append(f"members={len(members)}")
    yield f"{place} {subject} v{document['value_version']} {' '.join(rest)}{batch}"
    for member in members:
        yield _INDENT + _member(member)


def _member(member: Document) -> str:
    plain = [_pair(name, member[name]) for name in member if name not in ("subscription", "assignment")]
    return " ".join(
        [
            *plain,
            f"subscription={_subscription(member['subscription'])}",
            f"assignment={_assignment(member['assignment'])}",
        ]
    )


def _subscription(subscription: Document) -> str:
    if "topics" not in subscription:
        return _opaque(subscription)
    parts = [f"v{subscription['version']}", f"topics=[{','.join(subscription['topics'])}]"]
    if subscription.get("owned_partitions"):
        parts.append(f"owned=[{_partitions(subscription['owned_partitions'])}]")
    if subscription.get("generation_id", -1) != -1:
        parts.append(f"generation={subscription['generation_id']}")
    if subscription.get("rack_id") is not None:
        parts.append(_pair("rack", subscription["rack_id"]))
    if subscription["user_data"]:
        parts.append(f"user_data={subscription['user_data']}")
    return f"({' '.join(parts)})"


def _assignment(assignment: Document) -> str:
    if "assigned_partitions" not in assignment:
        return _opaque(assignment)
    user_data = f" user_data={assignment['user_data']}" if assignment["user_data"] else ""
    return f"(v{assignment['version']} {_partitions(assignment['assigned_partitions']) or 'nothing'}{user_data})"


def _partitions(topics: list[Document]) -> str:
    return " ".join(f"{one['topic']}[{','.join(map(str, one['partitions']))}]" for one in topics)


def _opaque(data: Document) -> str:
    if "error" in data:
        return f"MALFORMED {data['base64']} ({data['error']})"
    return data["base64"] or "none"


def _batch(batch: Document) -> str:
    """What is not so in most batches."""
    parts = []
    if batch["is_transactional"]:
        parts.append(f"transactional producer={batch['producer_id']}:{batch['producer_epoch']}")
    elif batch["producer_id"] != -1:
        parts.append(f"producer={batch['producer_id']}:{batch['producer_epoch']}")
    if batch["compression"] != "none":
        parts.append(batch["compression"])
    if batch["delete_horizon_ms"] is not None:
        parts.append(f"delete_horizon={_time(batch['delete_horizon_ms'])}")
    return f" [{', '.join(parts)}]" if parts else ""


def _pair(name: str, value: Any) -> str:
    if name.endswith(_MILLISECONDS_OF_DAYS) and isinstance(value, int):
        return f"{name.removesuffix('_ms')}={_time(value)}"
    return f"{name}={_text(value)}"


def _text(value: Any) -> str:
    """Without quotes where that is unambiguous, otherwise as JSON."""
    if value is None:
        return "-"
    if isinstance(value, str):
        if not value.isprintable():
            return json.dumps(value)
        is_plain = value and value != "-" and _MISLEADING.isdisjoint(value)
        return value if is_plain else json.dumps(value, ensure_ascii=False)
    if isinstance(value, int):
        return str(value)
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _time(time_ms: int) -> str:
    """UTC to the millisecond; the number itself where no calendar reaches."""
    if time_ms == -1:
        return "-"
    second = _second(time_ms // 1000)
    return f"{time_ms}ms" if second is None else f"{second}.{time_ms % 1000:03d}Z"


@lru_cache
def _second(time_s: int) -> str | None:
    try:
        return datetime.datetime.fromtimestamp(time_s, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S")
    except (OverflowError, ValueError, OSError):
        return None
