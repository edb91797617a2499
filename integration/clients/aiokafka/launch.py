"""aiokafka in the matrix."""

from __future__ import annotations

import sys

NAME = "aiokafka"


def command() -> list[str]:
    """The driver, in this interpreter."""
    return [sys.executable, "-m", "integration.clients.aiokafka.driver"]


def consumer() -> list[str]:
    """The program that `kshim conform-client` judges."""
    return [sys.executable, "-m", "integration.clients.aiokafka.consumer"]


FAILS_ON_BOTH = {
    "static_fencing": "its heartbeats do not name the instance, so that it is told UNKNOWN_MEMBER_ID instead of"
    " FENCED_INSTANCE_ID, joins again and fences the newer one: the two take turns for ever",
}
