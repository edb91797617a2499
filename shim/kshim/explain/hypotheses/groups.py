"""Causes of several disturbances of one group: deploys, loops, starts, shared ids, created topics.

Such a hypothesis pays its prior once. It replaces those about single disturbances if it weighs more than their sum,
so that two restarts of one client may be two restarts, and six are a loop.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kshim.explain.candidate import Candidate
from kshim.explain.causes import Cause
from kshim.explain.disturbances import Disturbance, What
from kshim.explain.facts import BEGINS_MS, HEARTBEAT_MS, POLL_MS, RETURN_MS, Kind, Known
from kshim.explain.hypotheses.chains import chains
from kshim.explain.hypotheses.deploys import deploys
from kshim.explain.hypotheses.loops import loops
from kshim.explain.hypotheses.others import not_admitted, what_was_slow
from kshim.explain.hypotheses.starts import starts
from kshim.explain.hypotheses.subscriptions import found_topics, shared_group_ids
from kshim.explain.lives import Group
from kshim.explain.weigh import Evidence, Step


def candidates_of_group(group: Group, found: Sequence[Disturbance], known: Known) -> Iterator[Candidate]:
    """All hypotheses about several disturbances of the group."""
    yield from deploys(group, found, known)
    yield from loops(group, found, known)
    yield from starts(group, found, known)
    yield from shared_group_ids(group, found, known)
    yield from found_topics(found, known)
    yield from _slow_joins(found)
    yield from _not_admitted(found, known)


def _not_admitted(found: Sequence[Disturbance], known: Known) -> Iterator[Candidate]:
    """Several clients that may not join, with the members of the same clients that had left just before."""
    refused = [each for each in found if each.what is What.NOT_ADMITTED]
    for part in chains(refused, known):
        for reason in {each.fact.reason for each in part}:
            mine = [each for each in part if each.fact.reason == reason]
            gone = [
                each
                for each in found
                if each.what is What.DEPARTED
                and each.fact.kind is Kind.LEFT
                and any(one.name == each.name and 0 <= one.from_ms - each.to_ms <= RETURN_MS for one in mine)
            ]
            if len(mine) + len(gone) > 1:
                yield not_admitted(mine, gone)


def _slow_joins(found: Sequence[Disturbance]) -> Iterator[Candidate]:
    """A member for which all waited, with the arrival that began the rebalance: without it that would have been short."""
    for slow in found:
        if slow.what is not What.SLOW_JOIN:
            continue
        phases = slow.fact.phases
        # In the new protocol a member is told with a heartbeat after the arrival.
        told_ms = HEARTBEAT_MS + POLL_MS if phases is not None and phases.has_epochs else BEGINS_MS
        begins_ms = slow.from_ms - told_ms
        arrived = [each for each in found if each.what is What.ARRIVED and begins_ms <= each.from_ms <= slow.to_ms]
        if len(arrived) == 1:
            evidence = (
                Evidence(what_was_slow(slow), Step.LIKELY),
                Evidence(f"{arrived[0].name} joined, which is harmless", Step.LIKELY),
            )
            yield Candidate(Cause.SLOW_POLL, (slow, *arrived), evidence)
