"""Causes that show in what members subscribe to: two applications with one group id, and topics that are found."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kshim.explain.candidate import Candidate
from kshim.explain.causes import Cause
from kshim.explain.client_reasons import Says
from kshim.explain.disturbances import Disturbance, What
from kshim.explain.facts import RETURN_MS, Kind, Known
from kshim.explain.hypotheses.chains import chains
from kshim.explain.hypotheses.departures import evidence_for
from kshim.explain.hypotheses.others import is_foreign, topics_of
from kshim.explain.life import Life
from kshim.explain.lives import Group
from kshim.explain.successors import stem
from kshim.explain.topic_news import is_due_to_topics, texts_of
from kshim.explain.weigh import Evidence, Step


def shared_group_ids(group: Group, found: Sequence[Disturbance], known: Known) -> Iterator[Candidate]:
    """Members of which some subscribe to nothing of what the others do, or may: no rebalance is over while they are there."""
    arrived = [each for each in found if each.what is What.ARRIVED and each.life is not None]
    for chain in chains(arrived, known):
        foreign: list[Disturbance] = []
        evidence: list[Evidence] = []
        for each in chain:
            if each.life is None:
                continue
            strangers = _processes(foreign)
            others = [life for life in group.before(each.life) if id(life.first) not in strangers]
            if not others:
                continue
            if is_foreign(each.life, others, known):
                foreign.append(each)
                evidence.append(Evidence(f"{each.name} subscribes to none of the others' topics", Step.MUST))
            elif all(is_passing_stranger(group, each.life, other, known) for other in others):
                foreign.append(each)
                evidence.append(Evidence(f"{each.name} has a name unlike the others'", Step.LIKELY))
                evidence.append(Evidence(f"no rebalance was over while {each.name} was a member", Step.LIKELY))
        if len(foreign) >= 2:
            strangers = _processes(foreign)
            gone = [
                each
                for each in found
                if each.what is What.DEPARTED
                and each.fact.kind in _ENDS
                and each.life is not None
                and id(each.life.first) in strangers
                and not each.life.is_followed(known)
            ]
            parts = (
                *foreign,
                *gone,
                *_forgetting(max((each.fact.ts_ms for each in gone), default=None), found),
            )
            yield Candidate(Cause.SHARED_GROUP_ID, parts, tuple(evidence), prior=-2.0)
            failed = [each for each in _failed_meanwhile(group, foreign, found) if each not in gone]
            if failed:
                # A process that ends because its assignor failed looks like one that was killed.
                evidence += [one for each in failed for one in evidence_for(each, known, Cause.KILLED)]
                evidence += [
                    Evidence(f"{each.name} expired while no rebalance was over", Step.LIKELY) for each in failed
                ]
                yield Candidate(Cause.SHARED_GROUP_ID, (*parts, *failed), tuple(evidence), prior=-2.0)


def _processes(found: Sequence[Disturbance]) -> set[int]:
    """Those behind these members, which go on as others after a restart of the broker."""
    return {id(each.life.first) for each in found if each.life is not None}


def _forgetting(left_ms: int | None, found: Sequence[Disturbance]) -> Iterator[Disturbance]:
    """The leader joins again when it has found that topics of members that are gone are none of its own any more."""
    for each in found:
        is_told = each.what is What.REQUESTED and each.fact.says is Says.METADATA_CHANGED
        if left_ms is not None and is_told and left_ms <= each.from_ms <= left_ms + RETURN_MS:
            yield each
            return


_ENDS = (Kind.LEFT, Kind.EXPIRED)


def is_passing_stranger(group: Group, life: Life, other: Life, known: Known) -> bool:
    """Whether a client with a name of another kind was gone before there was any record of it."""
    is_unlike = stem(life.member.client_id) != stem(other.member.client_id)
    is_unknown = life.member.instance_id is None and not topics_of(life, known)
    return is_unlike and is_unknown and _disturbs(group, life)


def _disturbs(group: Group, life: Life) -> bool:
    """Whether a member is gone again before any rebalance with it was over, as those before it were: there is no record of it."""
    first_ms, settled_ms = group.settled_ms(0), group.settled_ms(life.began_ms)
    had_settled = first_ms is not None and first_ms < life.began_ms
    return had_settled and life.gone is not None and (settled_ms is None or settled_ms >= life.gone.ts_ms)


def _failed_meanwhile(
    group: Group, foreign: Sequence[Disturbance], found: Sequence[Disturbance]
) -> Iterator[Disturbance]:
    """Members whose sessions expired while no rebalance was over: an assignor that does not know a topic fails."""
    if not any(each.life is not None and _disturbs(group, each.life) for each in foreign):
        return
    begin_ms = foreign[0].from_ms
    end_ms = group.settled_ms(begin_ms)
    for each in found:
        is_failure = each.what is What.DEPARTED and each.fact.kind is Kind.EXPIRED
        if is_failure and begin_ms <= each.fact.ts_ms and (end_ms is None or each.fact.ts_ms <= end_ms):
            yield each


def found_topics(found: Sequence[Disturbance], known: Known) -> Iterator[Candidate]:
    """Several members add the same topics to their subscriptions: those of a pattern, found in the metadata."""
    requests = [each for each in found if each.what is What.REQUESTED]
    for chain in chains(requests, known):
        yield from _topic(chain)


def _topic(chain: Sequence[Disturbance]) -> Iterator[Candidate]:
    """One for each topic, as far as it is known which were added."""
    adding = [each for each in chain if _is_told(each) or _added(each)]
    names = {name for each in adding for name in _added(each)}
    for name in sorted(names) or [""]:
        mine = [each for each in adding if not name or name in _added(each)]
        if len({each.member.member_id for each in mine if each.member is not None}) < 2:
            continue
        evidence = [
            Evidence(f"{each.name} added topics to its subscription", Step.MUST) for each in mine if _added(each)
        ]
        evidence += [
            Evidence(f"{each.name} said that there were more topics", Step.MUST) for each in mine if _is_told(each)
        ]
        if names:
            evidence.append(Evidence("they added the same topics", Step.MUST))
        if (new := _new(mine)) is not None:
            evidence.append(Evidence(new, Step.MUST))
        yield Candidate(Cause.TOPIC_CREATED, tuple(mine), tuple(evidence), prior=-2.0)


def _new(adding: Sequence[Disturbance]) -> str | None:
    """That what all of them added was created, if it was."""
    if not all(is_due_to_topics(each.fact) for each in adding):
        return None
    names = {name for each in adding for name in _added(each)}
    changes = {change for each in adding for change in each.fact.topic_changes or () if change.topic in names}
    return texts_of(sorted(changes, key=lambda change: change.changed_ms))


def _added(each: Disturbance) -> tuple[str, ...]:
    return () if each.fact.subscription is None else each.fact.subscription.added


def _is_told(each: Disturbance) -> bool:
    return each.fact.says is Says.TOPICS_FOUND
