"""Checks of what a test passes to the brokers, so that a mistake is one sentence and not a failure deep inside."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from os import PathLike, fspath
from typing import TYPE_CHECKING

from kshim.harness.record import Record

if TYPE_CHECKING:
    from kshim.harness.record import Headers

MAX_BROKERS = 100

TIMEOUT_S = float(os.environ.get("KSHIM_TEST_TIMEOUT_S") or 10)
"""How long waits last unless they are told otherwise. The variable is for machines that are slow."""


def check_text(what: str, value: object) -> None:
    """Raises TypeError."""
    if not isinstance(value, str):
        raise TypeError(f"{what} must be a string, not {value!r}")


def check_integer(what: str, value: object) -> None:
    """Raises TypeError."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{what} must be an integer, not {value!r}")


def check_timeout(timeout_s: object) -> None:
    """Raises TypeError, ValueError."""
    if not isinstance(timeout_s, (int, float)) or isinstance(timeout_s, bool):
        raise TypeError(f"timeout must be a number of seconds, not {timeout_s!r}")
    if not timeout_s >= 0:  # NaN neither
        raise ValueError(f"timeout must be a number of seconds from 0 on, not {timeout_s!r}")


def check_count(what: str, count: int) -> None:
    """Raises TypeError, ValueError."""
    check_integer(what, count)
    if not 1 <= count <= MAX_BROKERS:
        raise ValueError(f"{what} must be a number of brokers from 1 to {MAX_BROKERS}, not {count}")


def checked_records(
    topic: object,
    values: Sequence[bytes | str | Record | None],
    key: bytes | str | None,
    partition: int | None,
    headers: Headers,
) -> list[Record]:
    """What `produce` is to write. Raises TypeError."""
    check_text("topic", topic)
    if partition is not None:
        check_integer("partition", partition)
    if not values:
        raise TypeError(f'produce needs at least one value or Record: kshim.produce("{topic}", "one coffee")')
    given = [
        name
        for name, value in (("key", key), ("partition", partition), ("headers", headers or None))
        if value is not None
    ]
    if given and any(isinstance(value, Record) for value in values):
        raise TypeError(
            f"produce: {' and '.join(given)} would apply to plain values only, and a Record has its own: "
            f"Record(value, {', '.join(f'{name}=...' for name in given)})"
        )
    return [value if isinstance(value, Record) else Record(value, key, headers, partition) for value in values]


def checked_topics(topics: Mapping[str, int] | None) -> dict[str, int]:
    """Numbers of partitions by name. Raises TypeError."""
    if topics is None:
        return {}
    if not isinstance(topics, Mapping):
        raise TypeError(f"topics must map names to numbers of partitions, such as {{'orders': 3}}, not {topics!r}")
    for name, partitions in topics.items():
        check_text("topics: a name", name)
        check_integer(f"topics: the number of partitions of {name}", partitions)
    return dict(topics)


def checked_configuration(what: str, pairs: Mapping[str, str] | None) -> dict[str, str]:
    """Values by key. Raises TypeError."""
    if pairs is None:
        return {}
    if not isinstance(pairs, Mapping):
        raise TypeError(f"{what} must map keys to values, such as {{'key': 'value'}}, not {pairs!r}")
    for key, value in pairs.items():
        check_text(f"{what}: a key", key)
        if not isinstance(value, str):
            raise TypeError(f"{what}: the value of {key} must be a string, as in server.properties, not {value!r}")
    return dict(pairs)


def checked_users(users: Mapping[str, str] | None) -> dict[str, str]:
    """Passwords by user. Raises TypeError, ValueError."""
    if users is None:
        return {}
    if not isinstance(users, Mapping):
        raise TypeError(f"users must map names to passwords, such as {{'ann': 'secret'}}, not {type(users).__name__}")
    for user, password in users.items():
        check_text("users: a name", user)
        if not isinstance(password, str):
            raise TypeError(f"users: the password of {user} must be a string")
        if not user or not password:
            raise ValueError("users: neither a name nor a password may be empty")
    return dict(users)


def checked_control(control: object) -> tuple[str, int] | None:
    """Host and port of the HTTP interface, 0 for a free one; None without it. Raises TypeError, ValueError."""
    if isinstance(control, bool):
        return ("127.0.0.1", 0) if control else None
    if not isinstance(control, str):
        raise TypeError(f"control must be True, or HOST:PORT such as '127.0.0.1:0', not {control!r}")
    host, _, port = control.rpartition(":")
    if not (host == "localhost" or host.startswith("127.")) or not port.isdecimal() or int(port) > 65_535:
        raise ValueError(
            f"control must be True, or HOST:PORT of this machine such as '127.0.0.1:0', not {control!r}; "
            "`kshim serve --control` serves others, with a token"
        )
    return host, int(port)


def checked_directory(data_dir: str | PathLike[str] | None) -> str | None:
    """Raises TypeError, ValueError."""
    path = None if data_dir is None else fspath(data_dir)
    if path == "":
        raise ValueError("data_dir must name a directory, or be None to keep everything in memory")
    return path
