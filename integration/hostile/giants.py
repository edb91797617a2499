"""Requests that are well-formed and huge: for every array of every API that is served, one in which it is that long."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from kshim_protocol.apis import API_TABLE, Api
from kshim_protocol.codec import codec
from kshim_protocol.schema import Row, Struct, row_is_in
from kshim_protocol.shape import default_of

ZEROS: dict[str, Any] = {
    "boolean": False,
    "float64": 0.0,
    "uuid": bytes(16),
    "string": "",
    "bytes": b"",
    "records": b"",
}
WORDS = {"group_id": "giant", "transactional_id": "giant", "mechanism": "PLAIN", "principal": "User:giant", "host": "*"}
NUMBERS = {
    "replica_id": -1,
    "max_wait_ms": 0,
    "acks": -1,
    "timeout_ms": 10_000,
    "session_timeout_ms": 10_000,
    "rebalance_timeout_ms": 10_000,
    "generation_id": -1,
    "generation_id_or_member_epoch": -1,
    "max_bytes": 1 << 20,
    "partition_max_bytes": 1 << 10,
    "replication_factor": 1,
    "num_partitions": 1,
    "resource_type": 2,
    "resource_pattern_type": 3,
    "operation": 3,
    "permission_type": 3,
    "current_leader_epoch": -1,
    "session_epoch": -1,
    "iterations": 4_096,
    "response_partition_limit": 2_000,
}


class Giant(NamedTuple):
    """`array` says which one is long, as a path of rows; `elements` how many all arrays of the request have together."""

    api: Api
    version: int
    array: str
    elements: int
    body: bytes

    def __str__(self) -> str:
        return f"{self.api.name} v{self.version} {self.array}"


def giants(count: int, apis: frozenset[int] = frozenset(API_TABLE)) -> Iterator[Giant]:
    """In the newest version that has it, each array with `count` elements, as different as their type allows.

    All other arrays have one, but what stands inside those in a long one has none: elements count together.
    """
    for api in API_TABLE.values():
        if api.key not in apis:
            continue
        cls = api.request_class()
        done = set[str]()
        for version in range(api.max_version, api.min_version - 1, -1):
            for path in _arrays(cls, version, ""):
                if path not in done:
                    done.add(path)
                    message = _message(cls, version, 0, "", path, count)
                    yield Giant(api, version, path, _elements(message), codec(cls, version).build(message))


def _arrays(cls: type[Struct], version: int, prefix: str) -> Iterator[str]:
    for row in cls.info.rows:
        if row_is_in(row, version) and row.type in ("array", "struct"):
            path = f"{prefix}{row.name}"
            if row.type == "array":
                yield path
            if not isinstance(row.element, str):
                yield from _arrays(row.element, version, f"{path}.")


def _message(cls: type[Struct], version: int, number: int, prefix: str, long: str, count: int) -> Any:
    values = {}
    for row in cls.info.rows:
        path = f"{prefix}{row.name}"
        if not row_is_in(row, version):
            values[row.name] = default_of(row)
        elif row.type == "struct":
            values[row.name] = _message(row.element, version, 0, f"{path}.", long, count)
        elif row.type == "array":
            values[row.name] = tuple(
                _plain(row, row.element, each)
                if isinstance(row.element, str)
                else _message(row.element, version, each, f"{path}.", long, count)
                for each in range(_count(path, long, count))
            )
        else:
            values[row.name] = _plain(row, row.type, number)
    return cls(**values)


def _elements(message: Any) -> int:
    if isinstance(message, tuple):
        return len(message) + sum(map(_elements, message))
    if isinstance(message, Struct):
        return sum(_elements(getattr(message, row.name)) for row in message.info.rows)
    return 0


def _count(path: str, long: str, count: int) -> int:
    if path == long:
        return count
    inside = path.removeprefix(f"{long}.")
    return 0 if inside != path and "." in inside else 1


def _plain(row: Row, type_: str, number: int) -> Any:
    name = row.name
    if type_ == "string":
        if name in ("topic", "topics") or (name == "name" and not number):
            return f"t{number or ''}"
        return WORDS.get(name) or f"{name}-{number}"
    if type_.startswith(("int", "uint")):
        if "partition" in name and name not in NUMBERS:
            return number % (1 << int(type_.lstrip("uint")) - 1)
        return NUMBERS.get(name, 0)
    if type_ == "uuid":
        return number.to_bytes(16, "big")
    return ZEROS[type_]
