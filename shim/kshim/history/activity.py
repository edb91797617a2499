"""What a member's process was seen doing, besides what its group knows of it."""

from __future__ import annotations

import json
from typing import NamedTuple, Protocol


class Activity(NamedTuple):
    """Of the connection that last spoke for a member, as it was when an event happened. Times are ms since 1970.

    `closed_ms` and `closed_by` are None while it is open; `closed_by` is `client` (orderly), `reset` or `broker`. `last_api` is the
    name of its last request. `last_fetch_ms` is the last Fetch of the process, over any connection with the same client id and host; None when
    there was none, or when several processes share both, and times of connections do not tell whose it was. `software` is the client library's name and version, where it says them.

    `last_commit_ms` is the last OffsetCommit of the member, on any connection, `commit_before_ms` the one before that, and `commit_pause_ms`
    how much time there usually is between two, where there were enough. Commits of one moment are one.

    `has_fetch_session`: whether the process had a session of fetches (KIP-227) on the connection on which it fetched last; False: it had
    ended it, as some clients do when they close; None: it had none otherwise, or it is not known which connection that is.
    """

    connection_id: int
    opened_ms: int
    closed_ms: int | None
    closed_by: str | None
    last_request_ms: int
    last_api: str
    last_fetch_ms: int | None
    software: str | None
    last_commit_ms: int | None = None
    commit_before_ms: int | None = None
    commit_pause_ms: int | None = None
    has_fetch_session: bool | None = None


class Activities(Protocol):
    """Who knows them."""

    def of(self, member_id: str, client_id: str, client_host: str) -> Activity | None:
        """What the process of a member was seen doing; None when nothing is known of it."""

    def forget(self, member_id: str) -> None:
        """A member is gone for good."""


def activity_json(activity: Activity | None) -> str:
    """As in an event."""
    return "null" if activity is None else json.dumps(activity._asdict(), separators=(",", ":"))
