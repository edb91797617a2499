"""The operations of the HTTP surface."""

from __future__ import annotations

from kshim.control.handlers import server, topics
from kshim.control.routing import Routes

ROUTES = Routes([*server.TABLE.routes, *topics.TABLE.routes])
"""All of them."""

__all__ = ["ROUTES"]
