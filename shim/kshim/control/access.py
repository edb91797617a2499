"""Who may use the HTTP surface: those with the token, or programs of this machine; never a web page of another site."""

from __future__ import annotations

from base64 import b64decode
from hmac import compare_digest
from typing import Final

from kshim.control.http import ProblemError, Request

OPEN_PATHS: Final = frozenset({"/health"})
"""What answers without the token."""

PAGE_PATHS: Final = frozenset({"/", "/page"})
"""Where links of other sites may lead, such as one in a chat: looking changes nothing, and no page of another site can read it."""

_LOOKING: Final = frozenset({"GET", "HEAD"})
_CHALLENGES: Final = (("WWW-Authenticate", "Bearer"), ("WWW-Authenticate", 'Basic realm="kshim", charset="UTF-8"'))
"""Basic is what browsers ask their users for: any name, and the token for a password."""

_LOOPBACK_NAMES: Final = frozenset({"localhost", "127.0.0.1", "[::1]"})


class Access:
    """Checks the head of each request, before its body is read.

    `token` None: none is asked for, which only an address of this machine may be served with. `hosts` are the names by which
    browsers may call it, in addition to those of the loopback interface; None: any, because the token protects it.
    `is_read_only`: only what changes nothing is allowed.
    """

    def __init__(
        self, token: str | None, hosts: frozenset[str] | None = frozenset(), *, is_read_only: bool = False
    ) -> None:
        self._is_read_only = is_read_only
        self._token = None if token is None else token.encode()
        self._hosts = None if hosts is None else _LOOPBACK_NAMES | hosts

    def check(self, head: Request) -> None:
        """Raises ProblemError: 401 without the token; 403 for a page of another site, and for changes where only looking is
        allowed; 421 for a host of another name."""
        host = head.headers.get("host", "")
        if self._hosts is not None and _name_of(host) not in self._hosts:
            # A page whose name an attacker lets point to 127.0.0.1 sends its own name here (DNS rebinding).
            raise ProblemError(421, "the Host header names neither this machine nor the address that is listened on")
        origin = head.headers.get("origin")
        if origin is not None and origin != f"http://{host}":
            raise ProblemError(403, "requests of web pages of another origin are refused")
        if head.headers.get("sec-fetch-site", "none") not in ("none", "same-origin") and not _is_followed_link(head):
            raise ProblemError(403, "requests of web pages of another site are refused")
        if self._token is not None and head.path not in OPEN_PATHS and not compare_digest(_token_of(head), self._token):
            raise ProblemError(401, "this needs the header Authorization: Bearer TOKEN", _CHALLENGES)
        if self._is_read_only and head.method not in _LOOKING:
            raise ProblemError(403, "this interface is read-only: kshim serve has --control-read-only")


def _token_of(head: Request) -> bytes:
    """What was sent as the token: by programs as such, by browsers as a password."""
    scheme, _, sent = head.headers.get("authorization", "").partition(" ")
    match scheme.lower():
        case "bearer":
            return sent.strip().encode("utf-8", "replace")
        case "basic":
            try:
                return b64decode(sent.strip(), validate=True).partition(b":")[2]
            except ValueError:
                return b""
        case _:
            return b""


def _is_followed_link(head: Request) -> bool:
    """Whether somebody follows a link to a page: browsers say so, and no script can."""
    is_navigation = (
        head.headers.get("sec-fetch-mode") == "navigate" and head.headers.get("sec-fetch-dest") == "document"
    )
    return is_navigation and head.method in _LOOKING and head.path in PAGE_PATHS


def _name_of(host: str) -> str:
    name, colon, port = host.rpartition(":")
    return (name if colon and port.isdigit() else host).lower()
