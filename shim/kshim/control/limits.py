"""What the HTTP surface allows its peers, so that none costs the brokers their loop or memory."""

from __future__ import annotations

from typing import NamedTuple


class ControlLimits(NamedTuple):
    """Sizes in bytes, durations in seconds.

    - `connections`: open at once; more wait in the backlog.
    - `head_bytes`, `body_bytes`: of one request; larger ones are answered 431 and 413.
    - `read_s`: for a whole request to arrive once it has begun; `idle_s`: between two requests of a connection.
    - `write_s`: for a peer to take a piece of an answer; a slower one is disconnected.
    - `streams`: event streams open at once; more are answered 503.
    - `keep_alive_s`: a stream without events sends a comment as often, which finds peers that have gone.
    """

    connections: int = 100
    head_bytes: int = 128 * 1024
    body_bytes: int = 1024 * 1024
    read_s: float = 10.0
    idle_s: float = 30.0
    write_s: float = 10.0
    streams: int = 20
    keep_alive_s: float = 15.0
