"""Who may use the HTTP surface: those with the token, or programs of this machine; never a web page of another site."""

from __future__ import annotations

from hmac import compare_digest
from typing import Final

from kshim.control.http import ProblemError, Request

OPEN_PATHS: Final = frozenset({"/health"})
"""What answers without the token."""

_LOOPBACK_NAMES: Final = frozenset({"localhost", "127.0.0.1", "[::1]"})


class Access:
    """Checks the head of each request, before its body is read.

    `token` None: none is asked for, which only an address of this machine may be served with. `hosts` are the names by which
    browsers may call it, in addition to those of the loopback interface; None: any, because the token protects it.
    """

    def __init__(self, token: str | None, hosts: frozenset[str] | None = frozenset()) -> None:
        self._token = None if token is None else token.encode()
        self._hosts = None if hosts is None else _LOOPBACK_NAMES | hosts

    def check(self, head: Request) -> None:
        """Raises ProblemError: 401 without the token; 403 for a page of another site; 421 for a host of another name."""
        host = head.headers.get("host", "")
        if self._hosts is not None and _name_of(host) not in self._hosts:
            # A page whose name an attacker lets point to 127.0.0.1 sends its own name here (DNS rebinding).
            raise ProblemError(421, "the Host header names neither this machine nor the address that is listened on")
        origin = head.headers.get("origin")
        if origin is not None and origin != f"http://{host}":
            raise ProblemError(403, "requests of web pages of another origin are refused")
        if head.headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            raise ProblemError(403, "requests of web pages of another site are refused")
        if self._token is None or head.path in OPEN_PATHS:
            return
        scheme, _, token = head.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not compare_digest(token.strip().encode("utf-8", "replace"), self._token):
            raise ProblemError(
                401, "this needs the header Authorization: Bearer TOKEN", (("WWW-Authenticate", "Bearer"),)
            )


def _name_of(host: str) -> str:
    name, colon, port = host.rpartition(":")
    return (name if colon and port.isdigit() else host).lower()
