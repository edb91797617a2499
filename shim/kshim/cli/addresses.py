"""`HOST:PORT`, as users write it and as it is advertised."""

from __future__ import annotations

from typing import NamedTuple

_WILDCARDS = frozenset({"", "0.0.0.0", "::", "0:0:0:0:0:0:0:0"})


class Address(NamedTuple):
    """A host (name or literal, IPv6 without brackets) and a port. `str()` puts the brackets back."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(text: str) -> Address:
    """Read `HOST:PORT`. Raises ValueError with a reason that names `text`.

    >>> parse_address("[::1]:9092")
    Address(host='::1', port=9092)
    """
    if "://" in text:
        raise ValueError(f"{text!r} is not HOST:PORT but a URL")
    host, colon, port_text = text.strip().rpartition(":")
    if not colon or not host:
        raise ValueError(f"{text!r} is not HOST:PORT")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ValueError(f"{text!r} is not HOST:PORT (an IPv6 address needs brackets, as in [::1]:9092)")
    if not (port_text.isascii() and port_text.isdigit()) or int(port_text) > 65_535:
        raise ValueError(f"{port_text!r} in {text!r} is not a port (0 to 65535)")
    if not host or not host.isprintable() or any(character in host for character in " /@[]"):
        raise ValueError(f"{host!r} in {text!r} is not a host")
    return Address(host, int(port_text))


def is_wildcard(host: str) -> bool:
    """Whether it means every interface: nothing that a client could dial."""
    return host in _WILDCARDS


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach it."""
    return host in ("localhost", "::1") or (host.startswith("127.") and host.replace(".", "").isdigit())
