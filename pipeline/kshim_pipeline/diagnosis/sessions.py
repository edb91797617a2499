"""The history of a group, cut into sessions at quiet times: each is explained by itself, and fits in memory. No Spark here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from kshim_pipeline.diagnosis.facts import Told

Row = Mapping[str, Any]

ENOUGH_ROWS: Final = 2_000
"""A history is cut at the first quiet time after so many rows, again and again. What has fewer is not cut."""

MOST_ROWS: Final = 20_000
"""Without a quiet time in so many rows it is cut all the same, so that they fit in memory."""

QUIET_MS: Final = 600_000
"""Quiet is so long a time without anything; for groups with long timeouts, twice the longest."""

_COLUMNS: Final = {
    "record": "records",
    "last": "last_commits",
    "event": "events",
    "line": "lines",
    "epoch": "epochs",
    "commit": "commits",
}
"""Columns of `told`, and what they are in Told."""


def sessions_of(rows: Iterable[Row], *, enough_rows: int = ENOUGH_ROWS, most_rows: int = MOST_ROWS) -> Iterator[Told]:
    """The sessions of a group, from rows of `told` in order of time.

    A group of the new protocol is not cut: its records say what changed, and to know what it is all of them have to be read.
    """
    before = _Before()
    session: list[Row] = []
    has_epochs = False
    at_ms = timeout_ms = 0
    for row in rows:
        is_quiet = row["ts_ms"] - at_ms > max(QUIET_MS, 2 * timeout_ms)
        if not has_epochs and ((len(session) >= enough_rows and is_quiet) or len(session) >= most_rows):
            yield before.then(session)
            session = []
        session.append(row)
        at_ms = row["ts_ms"]
        timeout_ms = max(timeout_ms, row["timeout_ms"] or 0)
        has_epochs |= row["epoch"] is not None
    yield before.then(session)


class _Before:
    """Who is in the group when a session begins."""

    def __init__(self) -> None:
        self._record: Row | None = None
        self._members: dict[str, Row] = {}

    def then(self, rows: Iterable[Row]) -> Told:
        """The next session; what is known then is what came before the one after it."""
        kinds: dict[str, list[Row]] = {kind: [] for kind in _COLUMNS.values()}
        for row in rows:
            for column, kind in _COLUMNS.items():
                if row[column] is not None:
                    kinds[kind].append(row[column])
        opening = None if self._record is None else {**self._record, "members": list(self._members.values())}
        for record in sorted(kinds["records"], key=lambda each: int(each["number"])):
            for member_id in record["gone"] or ():
                self._members.pop(member_id, None)
            self._members |= {each["member_id"]: each for each in record["came"] or ()}
            self._record = record
        return Told(opening, **kinds)
