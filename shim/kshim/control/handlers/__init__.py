"""The operations of the HTTP surface."""

from __future__ import annotations

from kshim.control.handlers import clock, faults, groups, history, nodes, page, records, server, topics
from kshim.control.routing import Routes

DESCRIBED = tuple(
    route
    for module in (server, topics, records, groups, history, faults, clock, nodes)
    for route in module.TABLE.routes
)
"""Those of the API, which its description lists."""

ROUTES = Routes((*DESCRIBED, *page.TABLE.routes))
"""All of them: the pages, too."""

__all__ = ["DESCRIBED", "ROUTES"]
