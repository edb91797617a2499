"""How bad a cause is, for all that sorts incidents."""

from __future__ import annotations

from typing import Final

CRITICAL: Final = ("crash_loop", "host_stalled", "network_cut", "duplicate_instance", "shared_group_id")
"""It goes on or comes back until somebody does something."""

HARMLESS: Final = (
    "scale_up",
    "scale_down",
    "static_restart",
    "partitions_added",
    "topic_created",
    "subscription_changed",
    "assignor_changed",
    "rebalance_enforced",
    "protocol_changed",
    "one_by_one_start",
    "deploy",
    "restart",
)
"""Somebody wanted it."""


def severity_of(cause: str) -> str:
    """`critical`, `warning` or `info`."""
    return "critical" if cause in CRITICAL else "info" if cause in HARMLESS else "warning"
