"""@platformatic/kafka 2.12.1, pinned with all it depends on by `package-lock.json`."""

from __future__ import annotations

from pathlib import Path

from integration.support.node import node_program

NAME = "@platformatic/kafka"
FAILS_ON_BOTH = {
    "static_fencing": "fenced, it joins again under a new member id and fences the newer member: they take turns for ever",
    "exactly_once_copy": "the copy is right, but its reader of committed records delivers aborted ones: of the aborted"
    " transactions that a Fetch lists it keeps one a producer",
    "restart_under_load": "it gives up after three tries a second apart (Kafka), and sends later records before those"
    " that it tries again (kshim, which is back sooner)",
}

CONSUMER_PROTOCOL: dict[str, str] = {}


def command() -> list[str]:
    """Raises as `node_program` does."""
    return node_program(Path(__file__).parent, "driver.js")


def consumer() -> list[str]:
    """The program that `kshim conform-client` judges. Raises as `command`."""
    return node_program(Path(__file__).parent, "consumer.js")


JUDGED = {
    "fenced-instance": "its commits do not name the instance, so that it is told UNKNOWN_MEMBER_ID, joins again and fences the newer process: the two take turns",
    "coordinator-stops": "its stream ends with an error after three tries",
    **dict.fromkeys(("heartbeat-throttled", "commit-throttled"), "it does not wait"),
}
"""What `kshim conform-client` finds, and why."""
