"""What the questions are about."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kshim_protocol.schema import Request

TOPICS = ("orders", "payments")
GROUPS = ("group-a", "group-b")
TRANSACTIONAL_IDS = ("txn-a", "txn-b")
MISSING = "missing"
"""A topic that is not there."""
NO_MEMBER = "nobody"

Rows = Iterator[tuple[str, Request[Any], int]]
"""(what it is, the request, its version)."""
