"""Parts of an event's JSON: texts, numbers, members, lists. By hand, for a dict through `json` takes five times as long."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kshim.coordinator.groups.events import MemberRef

try:  # the rest of `json` takes longer to import than the history
    from _json import encode_basestring
except ImportError:
    from json.encoder import encode_basestring

quoted: Final = encode_basestring
"""A string with what JSON needs; it may be of any characters."""

LIST_MAX_BYTES: Final = 400_000
"""About how much one list may take of an event's JSON; records of 1 MB are the usual limit of topics."""
BOOL: Final = ("false", "true")


def text(value: str | None) -> str:
    """A string or null."""
    return "null" if value is None else quoted(value)


def number(value: int | None) -> str:
    """A number or null."""
    return "null" if value is None else str(value)


def member(ref: MemberRef | None) -> str:
    """A member as an object, or null."""
    if ref is None:
        return "null"
    return f'{{{names(ref)},"client_reason":{text(ref.client_reason)}}}'


def names(ref: MemberRef) -> str:
    """Fields of a member; cached, because the same ones occur again and again."""
    try:
        return ref.rendered  # type: ignore[attr-defined, no-any-return]
    except AttributeError:
        rendered = (
            f'"member_id":{quoted(ref.member_id)},"instance_id":{text(ref.group_instance_id)},'
            f'"client_id":{quoted(ref.client_id)},"host":{quoted(ref.client_host.removeprefix("/"))}'
        )
        ref.rendered = rendered  # type: ignore[attr-defined]
        return rendered


def limited(name: str, entries: Sequence[str] | None) -> str:
    """A list and how many of it are left out; the first are kept."""
    if entries is None:
        return f'"{name}":null,"{name}_omitted":0'
    kept = entries
    if sum(map(len, entries)) > LIST_MAX_BYTES:
        kept = [entries[index] for index in fitting(entries, range(len(entries)))]
    return f'"{name}":[{",".join(kept)}],"{name}_omitted":{len(entries) - len(kept)}'


def fitting(entries: Sequence[str], order: Sequence[int]) -> list[int]:
    """Indexes of the entries that fit, taken in `order`."""
    left = LIST_MAX_BYTES
    found: list[int] = []
    for index in order:
        left -= len(entries[index])
        if left < 0:
            break
        found.append(index)
    return found
