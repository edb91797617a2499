"""What clients do, connection by connection: the evidence for why a member was lost.

A request must cost nearly nothing more, so it only leaves its time and its API on its connection. The rest is worked out when somebody
asks, which is when a member has come or gone.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Final, TypeVar

from kshim.history.activity import Activity

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kshim.coordinator.step import Now
    from kshim_protocol.apis import Api

K = TypeVar("K")
V = TypeVar("V")

KEPT_MAX: Final = 100_000
"""So many members, and so many clients that fetch, are remembered; the oldest are forgotten first."""
_FETCHERS_MAX: Final = 64
"""So many connections that fetch are remembered of one client id and host."""
_TOGETHER_MS: Final = 500
"""Connections of one process are opened, and closed, within so short a time."""


class ConnectedClient:
    """What is known of the client of one connection, also after its end. Nothing is, before its first request."""

    __slots__ = (
        "closed_by",
        "closed_ms",
        "connection_id",
        "last_api",
        "last_fetch_ms",
        "last_now",
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
        self.closed_ms: int | None = None
        self.closed_by: str | None = None

    def closed(self, by: str, now: Now | None = None) -> None:
        """The connection has ended, as `Activity.closed_by` says. The first word about it counts; without a time, its last request has it."""
        if self.closed_by is None:
            at = now or self.last_now
            self.closed_by, self.closed_ms = by, 0 if at is None else at.wall_ms


class ClientActivity:
    """Who speaks for which member, and who fetches."""

    def __init__(self) -> None:
        self._numbers = count(1)
        self._members: dict[str, ConnectedClient] = {}
        self._fetchers: dict[tuple[str, str], list[ConnectedClient]] = {}

    def introduced(self, client: ConnectedClient, software: str | None, now: Now) -> None:
        """A client has said what it is (ApiVersions)."""
        self._enter(client, now)
        client.software = software or client.software

    def speaks(self, client: ConnectedClient, member_id: str, now: Now) -> None:
        """A member sends a request, which is the first one of it, or on this connection."""
        self._enter(client, now)
        client.member_id = member_id
        if member_id:
            _put(self._members, member_id, client)

    def fetched(self, client: ConnectedClient, client_id: str | None, client_host: str, now: Now) -> None:
        """A consumer sends a Fetch."""
        if client.last_fetch_ms is None:
            self._enter(client, now)
            key = (client_id or "", client_host)
            _put(self._fetchers, key, [*self._fetchers.get(key, ())[1 - _FETCHERS_MAX :], client])
        client.last_fetch_ms = now.wall_ms

    def of(self, member_id: str, client_id: str, client_host: str) -> Activity | None:
        """See `Activities`."""
        client = self._members.get(member_id)
        if client is None or client.last_now is None or client.last_api is None:
            return None
        return Activity(
            client.connection_id,
            client.opened_ms,
            client.closed_ms,
            client.closed_by,
            client.last_now.wall_ms,
            client.last_api.name,
            _last_fetch_ms(client, self._fetchers.get((client_id, client_host), ())),
            client.software,
        )

    def forget(self, member_id: str) -> None:
        """See `Activities`."""
        client = self._members.pop(member_id, None)
        if client is not None and client.member_id == member_id:
            client.member_id = None  # with the new protocol it may join again with the same id, on the same connection

    def _enter(self, client: ConnectedClient, now: Now) -> None:
        if not client.connection_id:
            client.connection_id, client.opened_ms = next(self._numbers), now.wall_ms


def _last_fetch_ms(client: ConnectedClient, fetchers: Sequence[ConnectedClient]) -> int | None:
    """The last Fetch of the process of a member, which mostly has other connections for it; None: it is not known which.

    Where processes share a client id and a host, its own connections are opened together, or closed together.
    """
    mine = [each for each in fetchers if each is client] or list(fetchers)
    for time_of in (_closed_ms, _opened_ms):
        at_ms = time_of(client)
        if len(mine) > 1 and at_ms is not None:
            near = [each for each in mine if abs((time_of(each) or 0) - at_ms) <= _TOGETHER_MS]
            mine = near or mine
    return mine[0].last_fetch_ms if len(mine) == 1 else None


def _opened_ms(client: ConnectedClient) -> int | None:
    return client.opened_ms


def _closed_ms(client: ConnectedClient) -> int | None:
    return client.closed_ms


def _put(kept: dict[K, V], key: K, value: V) -> None:
    if key not in kept and len(kept) >= KEPT_MAX:
        del kept[next(iter(kept))]
    kept[key] = value
