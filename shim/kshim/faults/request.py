"""What a rule can see of a request."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from kshim.faults.entries import TRANSACTIONAL_ID_FIELDS, Entry

AUTHENTICATION: Final = frozenset({"SaslHandshake", "SaslAuthenticate"})
"""APIs that come before a client may ask anything: a rule is for them only when it names them."""
Names = tuple[str, ...]


class FaultableRequest(NamedTuple):
    """One request, as rules match it. `entries` are what it names one by one."""

    api: str
    version: int
    correlation_id: int
    client_id: str | None
    client_host: str
    listener: str
    broker: int
    groups: tuple[str, ...]
    member_ids: tuple[str, ...]
    instance_ids: tuple[str, ...]
    transactional_ids: tuple[str, ...]
    entries: tuple[Entry, ...]


def names_in(request: Any, entries: tuple[Entry, ...]) -> tuple[Names, Names, Names, Names]:
    """(groups, member ids, instance ids, transactional ids) that a request names."""
    rows = [request, *(getattr(request, "members", None) or ()), *(getattr(request, "groups", None) or ())]
    groups = [entry.group for entry in entries]
    transactional_ids = [getattr(request, name, None) for name in TRANSACTIONAL_ID_FIELDS]
    transactional_ids += getattr(request, "transactional_ids", None) or ()
    match getattr(request, "key_type", None):  # of FindCoordinator
        case 0:
            groups.append(request.key)
        case 1:
            transactional_ids += (request.key, *request.coordinator_keys)
        case _:
            pass
    return (
        _distinct([*groups, *(getattr(row, "group_id", None) for row in rows)]),
        _distinct([getattr(row, "member_id", None) for row in rows]),
        _distinct([getattr(row, "group_instance_id", None) for row in rows]),
        _distinct(transactional_ids),
    )


def _distinct(names: list[Any]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for name in names if name))
