"""What each cause reads like in a report, and what to change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kshim_pipeline.diagnosis.causes import Cause, Confidence

_SENTENCES: Final[Mapping[Cause, str]] = {
    Cause.DEPLOY: "A deployment: {count} processes were replaced, one after the other or all at once.",
    Cause.RESTART: "{who} shut down cleanly and it or a successor joined again.",
    Cause.STATIC_RESTART: "{who}, a static member, was restarted within its session timeout; no other member had to wait.",
    Cause.CRASH_LOOP: "{who} crashed and restarted {times} times; each crash blocked the group until the session timed out.",
    Cause.FLAPPING: "{who} left and rejoined {times} times without crashing.",
    Cause.SLOW_POLL: "{who} did not poll in time while it processed records: the others waited for it, or it was removed.",
    Cause.SLOW_LEADER: "{who}, the leader, was slow to compute the assignment; all members waited for it.",
    Cause.KILLED: "{who} was killed or lost without leaving the group, which noticed only after the session timeout.",
    Cause.PAUSED: "{who} was paused for longer than its session timeout, was removed, and rejoined.",
    Cause.HOST_STALLED: "Host {host} stalled or was lost: all its members stopped sending at the same time ({whos}).",
    Cause.ONE_BY_ONE_START: "The group started with its {count} members one by one, each in a rebalance of its own.",
    Cause.SCALE_UP: "{count} members were added: {whos}.",
    Cause.SCALE_DOWN: "{count} members were removed: {whos}.",
    Cause.PARTITIONS_ADDED: "Partitions were added to a subscribed topic.",
    Cause.SUBSCRIPTION_CHANGED: "{who} changed its subscription.",
    Cause.REBALANCE_ENFORCED: "The application of {who} requested a rebalance.",
    Cause.DUPLICATE_INSTANCE: "Two processes use the instance id {who}; they replaced each other {times} times.",
    Cause.UNEXPLAINED: "The history does not show the cause of this rebalance.",
}

_ADVICE: Final[Mapping[Cause, str]] = {
    Cause.DEPLOY: "Set group.instance.id: static members restart within session.timeout.ms without a rebalance.",
    Cause.RESTART: "Set group.instance.id: static members restart within session.timeout.ms without a rebalance.",
    Cause.CRASH_LOOP: "See the client's log for the crash; meanwhile delay restarts.",
    Cause.FLAPPING: "Check what stops the process: health checks, an autoscaler, scheduled jobs.",
    Cause.SLOW_POLL: "Raise max.poll.interval.ms above the time of the slowest batch, or lower max.poll.records.",
    Cause.SLOW_LEADER: "Check the leader's assignor and heap; fewer topics per pattern and a simpler assignor help.",
    Cause.KILLED: "Close the consumer on SIGTERM; a shorter session.timeout.ms detects the loss sooner.",
    Cause.PAUSED: "Check for garbage collection and CPU throttling; session.timeout.ms must exceed the pause.",
    Cause.HOST_STALLED: "Check the host rather than the clients.",
    Cause.ONE_BY_ONE_START: "Raise group.initial.rebalance.delay.ms, so that members that start together join in one rebalance.",
    Cause.DUPLICATE_INSTANCE: "Give each process a group.instance.id of its own.",
}

_DOUBT: Final = " (Other causes leave nearly the same evidence.)"


def sentence(cause: Cause, clients: tuple[str, ...], *, host: str | None, times: int, confidence: Confidence) -> str:
    """What happened, in one sentence. `times`: how often."""
    text = _SENTENCES[cause].format(
        who=clients[0] if clients else "A member", whos=", ".join(clients), count=len(clients), host=host, times=times
    )
    return text + _DOUBT if confidence is Confidence.LOW else text


def advice(cause: Cause) -> str | None:
    """A recommendation; None: nothing is wrong."""
    return _ADVICE.get(cause)
