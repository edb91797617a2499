"""What clients do, connection by connection: the evidence for why a member was lost.

A request must cost nearly nothing more, so it only leaves its time and its API on its connection. The rest is worked out when somebody
asks, which is when a member has come or gone.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from itertools import count, pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from kshim.history.activity import Activity

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kshim.coordinator.step import Now
    from kshim_protocol.apis import Api

K = TypeVar("K")
V = TypeVar("V")

KEPT_MAX: Final = 100_000
"""So many members, and so many clients that fetch, are remembered; the oldest are forgotten first."""
_CONNECTIONS_MAX: Final = 64
"""So many connections that fetch, or speak for members, are remembered of one client id and host."""
_COMMITS_KEPT: Final = 12
"""So many commits of a member are remembered, to tell how much time there usually is between two."""
_PAUSES_NEEDED: Final = 3
_AT_ONCE_MS: Final = 500
"""Commits within so short a time are one: of several partitions, or the last ones of a consumer that closes."""
_TOGETHER_MS: Final = 500
"""Connections of one process are opened, and closed, within so short a time."""


class LastRequest(NamedTuple):
    """A request as it was parsed, by its route and its bytes behind the correlation id: the next one may be the same."""

    route: object
    said: bytes
    request: Any


class ConnectedClient:
    """What is known of the client of one connection, also after its end. Nothing is, before its first request."""

    __slots__ = (
        "closed_by",
        "closed_ms",
        "connection_id",
        "has_fetch_session",
        "last_api",
        "last_commit",
        "last_fetch",
        "last_fetch_ms",
        "last_heartbeat",
        "last_now",
        "last_offset_fetch",
        "member_id",
        "opened_ms",
        "software",
    )

    def __init__(self) -> None:
        self.connection_id = 0
        """Counts the connections that were of interest; 0: this was not, yet."""
        self.opened_ms = 0
        self.software: str | None = None
        self.member_id: str | None = None
        """The last member that spoke on it."""
        self.last_now: Now | None = None
        """When its last request came. The router sets it, as the following."""
        self.last_api: Api | None = None
        self.last_fetch_ms: int | None = None
        """When its last Fetch came; None: there was none."""
        self.has_fetch_session: bool | None = None
        """Whether it goes on with a session of fetches; False: it has ended its last one, None: it has none otherwise."""
        self.last_heartbeat: LastRequest | None = None
        """Its last Heartbeat, as the following kept for the one that comes next, as long as it is connected."""
        self.last_offset_fetch: LastRequest | None = None
        self.last_fetch: Any = None
        """A `UsualRequest` of `usual_fetch.py`."""
        self.last_commit: tuple[object, bytes, int, Any, bytes] | None = None
        """What its last OffsetCommit has in common with the one that comes next; see `usual_commit.py`."""
        self.closed_ms: int | None = None
        self.closed_by: str | None = None

    def closed(self, by: str, now: Now | None = None) -> None:
        """The connection has ended, as `Activity.closed_by` says. The first word about it counts; without a time, its last request has it."""
        self.last_heartbeat = self.last_offset_fetch = self.last_fetch = self.last_commit = None
        if self.closed_by is None:
            at = now or self.last_now
            self.closed_by, self.closed_ms = by, 0 if at is None else at.wall_ms


_OfClients = dict[tuple[str, str], list["ConnectedClient"]]
"""Connections, the newest last, by client id and host."""


class ClientActivity:
    """Who speaks for which member, and who fetches."""

    def __init__(self) -> None:
        self._numbers = count(1)
        self._members: dict[str, ConnectedClient] = {}
        self._fetchers: _OfClients = {}
        self._speakers: _OfClients = {}
        self._commits: dict[str, deque[int]] = {}

    def introduced(self, client: ConnectedClient, software: str | None, now: Now) -> None:
        """A client has said what it is (ApiVersions)."""
        self._enter(client, now)
        client.software = software or client.software

    def speaks(
        self, client: ConnectedClient, member_id: str, client_id: str | None, client_host: str, now: Now
    ) -> None:
        """A member sends a request, which is the first one of it, or on this connection."""
        self._enter(client, now)
        if client.member_id is None:
            _add(self._speakers, (client_id or "", client_host), client)
        client.member_id = member_id
        if member_id:
            _put(self._members, member_id, client)

    def fetched(self, client: ConnectedClient, client_id: str | None, client_host: str, now: Now) -> None:
        """A consumer sends a Fetch."""
        if client.last_fetch_ms is None:
            self._enter(client, now)
            _add(self._fetchers, (client_id or "", client_host), client)
        client.last_fetch_ms = now.wall_ms

    def committed(self, member_id: str, now: Now) -> None:
        """A member sends an OffsetCommit."""
        times_ms = self._commits.get(member_id)
        if times_ms is not None:
            times_ms.append(now.wall_ms)
        elif member_id:
            _put(self._commits, member_id, deque((now.wall_ms,), _COMMITS_KEPT))

    def of(self, member_id: str, client_id: str, client_host: str) -> Activity | None:
        """See `Activities`."""
        client = self._members.get(member_id)
        if client is None:
            return None
        key = (client_id, client_host)
        speakers = self._speakers.get(key, ())
        # Some clients join over one connection, and send heartbeats over another one: of the same millisecond, over the newer.
        own = [each for each in speakers if each.member_id == member_id]
        client = max(own, key=lambda each: (_heard_ms(each), each.connection_id), default=client)
        if client.last_now is None or client.last_api is None:
            return None
        mine, anybodys = _fetching(client, speakers, self._fetchers.get(key, ()))
        last = max(mine, key=_fetch_ms, default=None)
        if last is not None and _fetch_ms(last) < max(map(_fetch_ms, anybodys), default=0):
            last = None  # it may have fetched over another one since
        return Activity(
            client.connection_id,
            client.opened_ms,
            client.closed_ms,
            client.closed_by,
            client.last_now.wall_ms,
            client.last_api.name,
            None if last is None else last.last_fetch_ms,
            client.software,
            *_told_by_commits(self._commits.get(member_id, ())),
            None if last is None or _fetch_ms(last) < client.opened_ms else last.has_fetch_session,
        )

    def forget(self, member_id: str) -> None:
        """See `Activities`."""
        self._commits.pop(member_id, None)
        client = self._members.pop(member_id, None)
        if client is not None and client.member_id == member_id:
            client.member_id = None  # with the new protocol it may join again with the same id, on the same connection

    def _enter(self, client: ConnectedClient, now: Now) -> None:
        if not client.connection_id:
            client.connection_id, client.opened_ms = next(self._numbers), now.wall_ms


def _told_by_commits(times_ms: Iterable[int]) -> tuple[int | None, int | None, int | None]:
    """The last commit, the one before it, and how much time there usually is between two: three of four are no longer."""
    moments: list[int] = []
    last_ms = None
    for ts_ms in times_ms:
        if last_ms is None or ts_ms - last_ms >= _AT_ONCE_MS:
            moments.append(ts_ms)
        last_ms = ts_ms
    pauses_ms = sorted(after - before for before, after in pairwise(moments))
    usual_ms = pauses_ms[3 * len(pauses_ms) // 4] if len(pauses_ms) >= _PAUSES_NEEDED else None
    before_ms = next(
        (ts_ms for ts_ms in reversed(moments) if last_ms is not None and last_ms - ts_ms >= _AT_ONCE_MS), None
    )
    return last_ms, before_ms, usual_ms


def _heard_ms(client: ConnectedClient) -> int:
    return 0 if client.last_now is None else client.last_now.wall_ms


def _fetch_ms(client: ConnectedClient) -> int:
    return client.last_fetch_ms or 0


def _fetching(
    client: ConnectedClient, speakers: Sequence[ConnectedClient], fetchers: Sequence[ConnectedClient]
) -> tuple[list[ConnectedClient], list[ConnectedClient]]:
    """Which of the connections that fetch are of the process of a member, which mostly has others for it, and which may be of any.

    Where processes share a client id and a host, connections of one of them are closed together, and as long as they are not, were
    opened together. `speakers`: those that spoke for members with the client id and host.
    """
    if not fetchers:
        return [], []
    others = [each for each in speakers if each.member_id != client.member_id and _is_beside(each, client)]
    opened_ms = sorted([each.opened_ms for each in others])
    closed_ms = sorted([each.closed_ms for each in others if each.closed_ms is not None])
    mine: list[ConnectedClient] = []
    anybodys: list[ConnectedClient] = []
    for each in fetchers:
        if others and _outlived(each, client):
            continue
        is_near = _is_near(each, client)
        is_near_other = _is_near_any(closed_ms, each.closed_ms)
        # Where both have ended only that tells, for processes of a group are often started together.
        if client.closed_ms is None or each.closed_ms is None:
            is_near_other |= _is_near_any(opened_ms, each.opened_ms)
        if is_near_other and not is_near:
            continue
        found = mine if not others or (not is_near_other and is_near) else anybodys
        found.append(each)
    return mine, anybodys


def _is_near(one: ConnectedClient, other: ConnectedClient) -> bool:
    """Whether two connections are of one process, as far as times tell."""
    if one.closed_ms is None or other.closed_ms is None:
        return abs(one.opened_ms - other.opened_ms) <= _TOGETHER_MS
    return abs(one.closed_ms - other.closed_ms) <= _TOGETHER_MS


def _outlived(other: ConnectedClient, client: ConnectedClient) -> bool:
    """Whether a connection was still there when a process had ended, as another one of it tells: all of them end together."""
    return client.closed_ms is not None and (
        other.closed_ms is None or other.closed_ms > client.closed_ms + _TOGETHER_MS
    )


def _is_near_any(sorted_ms: list[int], at_ms: int | None) -> bool:
    """The same of one instant and those of many connections."""
    if at_ms is None:
        return False
    index = bisect_left(sorted_ms, at_ms - _TOGETHER_MS)
    return index < len(sorted_ms) and sorted_ms[index] <= at_ms + _TOGETHER_MS


def _is_beside(other: ConnectedClient, client: ConnectedClient) -> bool:
    """Whether a connection was there at the same time as another one: else it may be an earlier one of the same process."""
    return (other.closed_ms is None or other.closed_ms >= client.opened_ms) and (
        client.closed_ms is None or client.closed_ms >= other.opened_ms
    )


def _add(kept: _OfClients, key: tuple[str, str], client: ConnectedClient) -> None:
    known = kept.get(key, [])
    if client not in known:
        _put(kept, key, [*known[1 - _CONNECTIONS_MAX :], client])


def _put(kept: dict[K, V], key: K, value: V) -> None:
    if key not in kept and len(kept) >= KEPT_MAX:
        del kept[next(iter(kept))]
    kept[key] = value
