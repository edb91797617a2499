"""The groups of any cluster as pages show them: as of the last look, which another thread takes."""

from __future__ import annotations

from threading import Lock

from kshim.explain import Incident
from kshim.explain.words import sentence
from kshim.page import GroupNow, GroupRow, Site
from kshim.tools.logs import SourceError
from kshim.tools.logs.broker import BrokerLogs
from kshim.tools.top.picture import who
from kshim.tools.top.watch import Row, View, Watch

_PATIENCE_S = 5.0


class Watched:
    """`look` from one thread, everything else from another. `groups` None: all. `interval_s`: as of a Watch."""

    def __init__(self, logs: BrokerLogs, groups: frozenset[str] | None, interval_s: float = 0.0) -> None:
        self._title = str(logs)
        self._watch = Watch(logs, groups, interval_s)
        self._rows: list[GroupRow] = []
        self._groups: dict[str, GroupNow | None] = {}
        self._view: View | None = None
        self._seen_ms = 0
        self._problem: str | None = None
        self._looking = Lock()

    def look(self, now_ms: int) -> None:
        """Look once. Raises SourceError when that is the first time, and the cluster cannot be reached."""
        with self._looking:
            try:
                view = self._watch.look(now_ms)
            except SourceError as error:
                if not self._seen_ms:
                    raise
                self._problem = f"{error}; trying again. What is shown was read before."
                return
            self._problem = None
            if view is self._view:
                return
            self._view = view
            last = {group: incident for incident in view.incidents for group in incident.groups}
            self._rows, self._groups = [_row(each, last.get(each.group), now_ms) for each in view.rows], {}
            self._seen_ms = view.ts_ms

    def cluster(self, group: str | None) -> Site:
        """What all pages have in common."""
        return Site(self._title, self._seen_ms, problem=self._problem)

    def rows(self, search: str) -> tuple[list[GroupRow], int]:
        """The groups whose names have the text, those with something wrong first; and how many groups there are."""
        rows, words = self._rows, search.casefold()
        return [row for row in rows if words in row.name.casefold()], len(rows)

    def group(self, name: str) -> GroupNow | None:
        """One group, as of the last look; None: there is none, or the cluster is being read for too long."""
        groups = self._groups
        if name not in groups and self._looking.acquire(timeout=_PATIENCE_S):
            try:
                groups = self._groups
                groups[name] = self._watch.group(name, self._seen_ms)
            finally:
                self._looking.release()
        return groups.get(name)


def _row(row: Row, incident: Incident | None, now_ms: int) -> GroupRow:
    """`incident`: the last one, where it is not long ago."""
    cause = row.last_cause
    what = None if cause is None else f"{cause.cause}{'?' if cause.is_guess else ''}, {cause.confidence:.0%} sure"
    if what is not None and incident is not None:
        what = f"{what}: {sentence(incident)}"
    since_ms = now_ms - row.unstable_ms if row.is_rebalancing and row.unstable_ms is not None else None
    if since_ms is None and cause is not None:
        since_ms = cause.at_ms
    named = who(row)
    return GroupRow(
        name=row.group,
        state=row.state,
        is_rebalancing=row.is_rebalancing,
        since_ms=since_ms,
        member_count=row.member_count,
        rebalance_count=row.rebalance_count,
        lag=row.lag,
        what=what,
        who=None if named == "-" else named,
    )
