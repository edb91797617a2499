"""From the model's memberships to changes independent of the protocol: starts, stops, crashes and restarts."""

from __future__ import annotations

from collections import defaultdict
from operator import itemgetter
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

from kshim.explain.facts import DEFAULT_REBALANCE_MS
from kshim_pipeline.by_group import Row
from kshim_pipeline.what_if.changes import Change

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import DataFrame


RESTART_WINDOW_MS = DEFAULT_REBALANCE_MS
"""Who leaves and is followed within this time by a member of the same client id and host has been restarted, as for the diagnosis."""

_HALF_HEARTBEAT_MS = 1_500  # a member learns of a rebalance half a heartbeat interval (3 s) late, on average
_SILENT = frozenset({"session_timeout"})
_ORDER = ("partitions", "left", "replaced", "joined", "kept")
"""Of one instant: sizes first, then who left, so that a restart seen in one generation is one."""


class _Membership(NamedTuple):
    """Some columns of memberships, or with `change` "partitions" of generations."""

    group_id: str
    ts_ms: int
    change: str
    owner: str
    member_id: str
    group_instance_id: str | None
    client_id: str | None
    client_host: str | None
    left_reason: str | None
    session_timeout_ms: int | None
    join_wait_ms: int | None
    partitions: int | None


_COLUMNS = list(_Membership._fields)
_in_order = itemgetter(*_COLUMNS)


class GroupChanges(NamedTuple):
    """The changes of a group, and its own times in ms; None: they are not known."""

    group: str
    changes: list[Change]
    session_timeout_ms: int | None
    poll_ms: int | None


def rows_that_tell(memberships: DataFrame, generations: DataFrame) -> DataFrame:
    """Of the tables memberships and generations the rows that tell of changes, of several kinds by `change`."""
    from pyspark.sql import functions as sql

    sizes = generations.where("partitions is not null").select("group_id", "ts_ms", "partitions")
    for name in _COLUMNS:
        if name not in sizes.columns:
            sizes = sizes.withColumn(name, sql.lit(None).cast(memberships.schema[name].dataType))
    sizes = sizes.withColumn("change", sql.lit("partitions"))
    # Nine in ten rows are of members that stayed, and tell nothing if it is not known how long they took to join again.
    told = memberships.where("change != 'kept' or join_wait_ms is not null")
    return told.select(_COLUMNS).unionByName(sizes.select(_COLUMNS))


def of_group(rows: Iterable[Row]) -> GroupChanges:
    """What rows of one group, in any order, tell of it."""
    known = [_Membership(*_in_order(row)) for row in rows]
    known.sort(key=lambda row: (row.ts_ms, _ORDER.index(row.change)))
    waits = [row.join_wait_ms for row in known if row.change == "kept" and row.join_wait_ms is not None]
    return GroupChanges(
        known[0].group_id,
        changes_of_group(known),
        max((row.session_timeout_ms for row in known if row.session_timeout_ms), default=None),
        max(int(median(waits)) - _HALF_HEARTBEAT_MS, 0) if waits else None,
    )


def changes_of_group(rows: Iterable[Any]) -> list[Change]:
    """The changes of one group from its rows in order of time. A row has the columns of memberships in `_COLUMNS`.

    A member that left and one that joined later with the same client id and host (static: the same instance id) are one
    that was restarted. A crash is dated back by the session timeout.
    """
    changes: list[Change] = []
    identities: dict[str, str] = {}  # owner -> the identity its chain of restarts began with
    gone: dict[tuple[Any, ...], list[tuple[int, str]]] = defaultdict(list)  # who is -> (place in changes, identity)
    size = 0
    for row in rows:
        at_ms = int(row.ts_ms)
        key = (row.group_instance_id,) if row.group_instance_id else (row.client_id, row.client_host)
        match row.change:
            case "partitions":
                if int(row.partitions) != size:
                    size = int(row.partitions)
                    changes.append(Change(at_ms, "partitions", partitions=size))
            case "joined":
                place, identity = _returning(gone[key], changes, at_ms)
                if place < 0:
                    identities[row.owner] = row.owner
                    changes.append(Change(at_ms, "join", row.owner))
                else:
                    identities[row.owner] = identity
                    left = changes[place]
                    changes[place] = Change(left.at_ms, "restart", identity, away_ms=at_ms - left.at_ms)
            case "replaced":
                changes.append(Change(at_ms, "restart", identities.setdefault(row.owner, row.owner)))
            case "left":
                identity = identities.pop(row.owner, row.owner)
                is_silent = row.left_reason in _SILENT and row.session_timeout_ms is not None
                since_ms = at_ms - int(row.session_timeout_ms) if is_silent else at_ms
                gone[key].append((len(changes), identity))
                changes.append(Change(since_ms, "crash" if is_silent else "leave", identity))
            case _:
                pass  # kept
    return sorted(changes, key=lambda change: change.at_ms)


def _returning(gone: list[tuple[int, str]], changes: list[Change], at_ms: int) -> tuple[int, str]:
    """The first lost member that may have rejoined at `at_ms`; place -1: none."""
    while gone:
        place, identity = gone.pop(0)
        if at_ms - changes[place].at_ms <= RESTART_WINDOW_MS:
            return place, identity
    return -1, ""
