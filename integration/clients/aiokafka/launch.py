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


JUDGED = {
    "join-rebalance-in-progress": "its JoinGroup does not know the error, so that `start` raises it",
    **dict.fromkeys(
        ("sync-illegal-generation", "heartbeat-illegal-generation", "commit-illegal-generation"),
        "it gives up its member id: the coordinator waits for the old member until its session ends, and nobody consumes meanwhile (10 s by default)",
    ),
    **dict.fromkeys(
        (
            "offset-fetch-coordinator-load-in-progress",
            "offset-fetch-coordinator-not-available",
            "offset-fetch-not-coordinator",
        ),
        "it reads the errors of partitions, and not that of the whole answer (OffsetFetch from v2 on): a group that is being loaded has no offsets then, and is read from the beginning again, or from the end, by auto_offset_reset",
    ),
    "fenced-instance": "its requests do not name the instance, so that it is told UNKNOWN_MEMBER_ID, joins again and fences the newer process: the two take turns",
    "all-brokers-stop": "in one run of eight: it repeats a refused Fetch without a pause until it has asked for metadata, at times more than a hundred within a second",
}
"""What `kshim conform-client` finds, and why."""
