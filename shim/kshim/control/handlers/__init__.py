"""The operations of the HTTP surface."""

from __future__ import annotations

from kshim.control.handlers import clock, faults, groups, history, nodes, records, server, topics
from kshim.control.routing import Routes

ROUTES = Routes(
    route
    for module in (server, topics, records, groups, history, faults, clock, nodes)
    for route in module.TABLE.routes
)
"""All of them."""

__all__ = ["ROUTES"]
