"""Findings in sentences that a tired operator understands, and what to change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kshim_pipeline.diagnosis.causes import Cause, Confidence

_SENTENCES: Final[Mapping[Cause, str]] = {
    Cause.DEPLOY: "A deploy: {count} processes were replaced one after the other or all at once.",
    Cause.RESTART: "{who} ended in an orderly way and came back, or a successor did.",
    Cause.STATIC_RESTART: "{who}, a static member, was restarted within its session timeout; nobody had to wait.",
    Cause.CRASH_LOOP: "{who} died and was started again {times} times; each death held the group up until a session ended.",
    Cause.FLAPPING: "{who} left and joined again {times} times, in an orderly way.",
    Cause.SLOW_POLL: "{who} was busy with its records and did not poll: the others waited for it, or it was expelled.",
    Cause.SLOW_LEADER: "{who}, the leader, took long over the assignment; everybody waited for it.",
    Cause.KILLED: "{who} ended without leaving; the group noticed after its session timeout.",
    Cause.PAUSED: "{who} stood still for longer than its session timeout, was expelled, and came back.",
    Cause.HOST_STALLED: "Host {host} stood still or was lost: all members on it went silent at the same time ({whos}).",
    Cause.ONE_BY_ONE_START: "The group started, its {count} members one by one, each with a rebalance of its own.",
    Cause.SCALE_UP: "{count} members were added: {whos}.",
    Cause.SCALE_DOWN: "{count} members were taken away: {whos}.",
    Cause.PARTITIONS_ADDED: "A subscribed topic has more partitions than before.",
    Cause.SUBSCRIPTION_CHANGED: "{who} subscribed to other topics than before.",
    Cause.REBALANCE_ENFORCED: "The application of {who} asked for a rebalance.",
    Cause.DUPLICATE_INSTANCE: "Two processes have the instance id {who}; each took the other's place, {times} times.",
    Cause.UNEXPLAINED: "A rebalance whose cause the history does not tell.",
}

_ADVICE: Final[Mapping[Cause, str]] = {
    Cause.DEPLOY: "Static members (group.instance.id) restart within session.timeout.ms without a rebalance.",
    Cause.RESTART: "Static members (group.instance.id) restart within session.timeout.ms without a rebalance.",
    Cause.CRASH_LOOP: "Look for the crash in the client's own log; until then keep it from being restarted at once.",
    Cause.FLAPPING: "Look at what stops the process in an orderly way: health checks, autoscalers, jobs.",
    Cause.SLOW_POLL: "Raise max.poll.interval.ms above its slowest batch, or lower max.poll.records.",
    Cause.SLOW_LEADER: "Look at the leader's assignor and heap; fewer topics by pattern and a simpler assignor help.",
    Cause.KILLED: "Let the process close its consumer at SIGTERM; a shorter session.timeout.ms notices sooner.",
    Cause.PAUSED: "Look for garbage collection or CPU throttling; session.timeout.ms must outlast the pause.",
    Cause.HOST_STALLED: "Look at the host, not at the clients.",
    Cause.ONE_BY_ONE_START: "group.initial.rebalance.delay.ms lets members that start together join together.",
    Cause.DUPLICATE_INSTANCE: "Give each process a group.instance.id of its own.",
}

_DOUBT: Final = " (Other causes would leave nearly the same traces.)"


def sentence(cause: Cause, clients: tuple[str, ...], *, host: str | None, times: int, confidence: Confidence) -> str:
    """What happened, in one sentence. `times` is how often the client did what it did."""
    text = _SENTENCES[cause].format(
        who=clients[0] if clients else "Somebody", whos=", ".join(clients), count=len(clients), host=host, times=times
    )
    return text + _DOUBT if confidence is Confidence.LOW else text


def advice(cause: Cause) -> str | None:
    """What to change; None: nothing is wrong."""
    return _ADVICE.get(cause)
