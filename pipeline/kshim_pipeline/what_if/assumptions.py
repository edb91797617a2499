"""What each strategy's costs assume, in words: what was measured in a group, and what is a constant (`Settings`)."""

from __future__ import annotations

from collections.abc import Mapping

from kshim_pipeline.what_if.changes import Settings


def assumptions(settings: Settings | None = None) -> Mapping[str, str]:
    """By the names of `kshim_pipeline.what_if.compare.STRATEGIES`."""
    given = settings or Settings()
    measured = (
        f"session.timeout.ms and the time until a member joins are those of each group, else {_seconds(given.session_timeout_ms)} and "
        f"{_seconds(given.poll_ms)}; heartbeats every {_seconds(given.heartbeat_interval_ms)}, or a third of a shorter session"
    )
    sync = f"the leader's assignment takes {_seconds(given.sync_ms)}, which is not measured"
    return {
        "zookeeper watchers": (
            f"nothing is measured: a session of {_seconds(given.zookeeper_session_ms)}, a watch of {_seconds(given.zookeeper_watch_ms)}, "
            f"{_seconds(given.zookeeper_write_ms)} for a write, {_seconds(given.zookeeper_backoff_ms)} before a failed claim is retried; range assignor"
        ),
        "server-side": f"{measured}; the broker assigns at once; range assignor",
        "classic, eager": f"{measured}; {sync}; range assignor, every member gives up everything",
        "classic, eager, static members": f"{measured}; {sync}; every member is static, and back in time after a restart shorter than its session",
        "classic, cooperative": f"{measured}; {sync}; sticky assignor, two rounds when partitions move",
        "consumer protocol": (
            "session.timeout.ms as in the classic group, else "
            f"{_seconds(given.session_timeout_ms)}; heartbeats every {_seconds(given.consumer_heartbeat_interval_ms)}, the default of "
            f"group.consumer.heartbeat.interval.ms, or a third of a shorter session; {_seconds(given.revoke_ms)} to give up a partition, which is not measured"
        ),
    }


def _seconds(duration_ms: int) -> str:
    return f"{duration_ms / 1_000:g} s"
