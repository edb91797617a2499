"""Why one member arrived, asked for a rebalance, or let the others wait."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kshim.explain.candidate import Candidate
from kshim.explain.causes import TOLD_BY_BROKER, Cause
from kshim.explain.client_reasons import Says
from kshim.explain.disturbances import Disturbance, What
from kshim.explain.facts import NOTHING_CHANGED, OTHER_TYPE, START_MS, Kind, Known
from kshim.explain.life import Life
from kshim.explain.lives import Group
from kshim.explain.topic_news import is_due_to_topics, is_unchanged, texts_of, unheard
from kshim.explain.weigh import Evidence, Step

EMPTY = "the group had no members"
_OF_TOPICS = ("topics_changed", "expression_resolved")
_NONE_CREATED = "what it added had not been created in the ten minutes before"
_ALL_THE_SAME = "members, subscriptions and partitions were the same before it and after it"
_NO_NEWS = "none of its topics had been created, deleted or given partitions in the ten minutes before"


def candidates_of_other(disturbance: Disturbance, group: Group, known: Known) -> Iterator[Candidate]:
    """The causes of a disturbance that ends no membership."""
    match disturbance.what:
        case What.ARRIVED:
            yield from _arrival(disturbance, group, known)
        case What.REQUESTED:
            yield from _request(disturbance, group, known)
        case What.SLOW_JOIN:
            # Where nobody is known to be the last, a slow network or broker explains a long phase as well.
            prior = 0.0 if disturbance.name else -1.0
            yield _only(Cause.SLOW_POLL, disturbance, what_was_slow(disturbance), prior)
        case What.GREW:
            grew = [change for change in disturbance.fact.topic_changes or () if change.has_grown]
            text = texts_of(grew) or "more partitions of its topics were assigned than before"
            yield Candidate(Cause.PARTITIONS_ADDED, (disturbance,), (Evidence(text, Step.MUST),))
        case What.REFUSED:
            text = "it went on while another process asked for its instance id"
            yield Candidate(Cause.DUPLICATE_INSTANCE, (disturbance,), (Evidence(text, Step.MUST),))
        case What.NOT_ADMITTED:
            yield not_admitted([disturbance])
        case What.SLOW_SYNC:
            # A record says when its phase SYNC began, and when it was written.
            yield _only(Cause.SLOW_LEADER, disturbance, "all members waited for its assignment", prior=-0.5)
        case _:
            yield _only(Cause.BROKER_RESTARTED, disturbance, "the coordinator read the group from its log")


def not_admitted(refused: Sequence[Disturbance], gone: Sequence[Disturbance] = ()) -> Candidate:
    """Why clients may not join, which were refused for the same reason; `gone` are the members in whose place they came."""
    if refused[0].fact.reason == OTHER_TYPE:
        texts = [f"{each.name} is of another kind than the members, such as a worker of Connect" for each in refused]
        return Candidate(Cause.SHARED_GROUP_ID, (*refused, *gone), tuple(Evidence(text, Step.MUST) for text in texts))
    evidence = [Evidence(_offers(each), Step.MUST) for each in refused]
    evidence += [Evidence(f"{each.name} had left just before", Step.LIKELY) for each in gone]
    return Candidate(Cause.ASSIGNOR_CHANGED, (*gone, *refused), tuple(evidence))


def _offers(refused: Disturbance) -> str:
    offered = refused.fact.subscription.assignors if refused.fact.subscription is not None else ()
    return f"{refused.name} could not join with {' and '.join(offered) or 'no assignor'}, which not all members have"


def what_was_slow(disturbance: Disturbance) -> str:
    """What the others had to wait for."""
    if disturbance.fact.kind is Kind.JOINED:
        return "it had found the coordinator again, and joined only when its application polled"
    phases = disturbance.fact.phases
    if phases is not None and phases.has_epochs:
        return "members waited for the partitions that it had to give up"
    return "all members waited for it to join again"


def _only(cause: Cause, disturbance: Disturbance, text: str, prior: float = 0.0) -> Candidate:
    return Candidate(cause, (disturbance,), (Evidence(text, Step.LIKELY),), prior)


def is_foreign(life: Life, others: list[Life], known: Known) -> bool | None:
    """Whether a member subscribes to nothing of what the others do: another application; None: unknown."""
    mine = topics_of(life, known)
    if not mine:
        return None
    knows_theirs = False
    for other in others:
        theirs = topics_of(other, known)
        if not mine.isdisjoint(theirs):
            return False
        knows_theirs = knows_theirs or bool(theirs)
    return True if knows_theirs else None


def topics_of(life: Life, known: Known) -> set[str]:
    """What a member subscribes to; empty: unknown."""
    joined = life.joined
    if joined is not None and joined.subscription is not None and joined.subscription.topics:
        return set(joined.subscription.topics)
    return set(known.topics(life.member.member_id))


def _arrival(disturbance: Disturbance, group: Group, known: Known) -> Iterator[Candidate]:
    life = disturbance.life
    assert life is not None
    others = group.before(life)
    within_ms = min(max(known.session_ms(life.member.member_id), START_MS), 2 * START_MS)
    is_young = bool(others) and all(life.began_ms - other.first.began_ms <= within_ms for other in others)
    young = Evidence("all other members had joined just before", Step.UNLIKELY)
    is_first = Evidence(EMPTY, Step.MUST if not others else Step.MUST_NOT)
    # A slow process may be the last of a start.
    yield Candidate(Cause.ONE_BY_ONE_START, (disturbance,), (young if is_young else is_first,))
    evidence = [Evidence("a client joined that had not been a member", Step.LIKELY)]
    if not others:
        evidence.append(Evidence(EMPTY, Step.MUST_NOT))
    if is_young:
        evidence.append(young)
    if not group.knows_name_before(life):
        evidence.append(Evidence("no client of this name has been seen in the group before", Step.LIKELY))
    if disturbance.fact.says is Says.GOES_ON:
        evidence.append(Evidence("it said that it had been a member before", Step.MUST_NOT))
    # A new name says little: processes that are replaced, or come back late, may have one as well.
    yield Candidate(Cause.SCALE_UP, (disturbance,), tuple(evidence), prior=-1.5)
    foreign = is_foreign(life, others, known)
    if foreign is not None:
        text = "it subscribes to none of the others' topics" if foreign else "it subscribes to the others' topics"
        step = Step.MUST if foreign else Step.MUST_NOT
        yield Candidate(Cause.SHARED_GROUP_ID, (disturbance,), (Evidence(text, step),), prior=-1.5)


def _request(disturbance: Disturbance, group: Group, known: Known) -> Iterator[Candidate]:
    if disturbance.fact.reason in TOLD_BY_BROKER:
        cause, text = TOLD_BY_BROKER[disturbance.fact.reason]
        news = list(unheard(disturbance.fact, group)) if disturbance.fact.reason in _OF_TOPICS else []
        yield Candidate(cause, (disturbance,), (Evidence(texts_of(news) if news else text, Step.MUST),))
        return
    reason = disturbance.fact.says
    subscription = disturbance.fact.subscription
    changed = subscription is not None and bool(subscription.added or subscription.removed)
    by_topics = is_due_to_topics(disturbance.fact)
    news = [change for change in unheard(disturbance.fact, group) if not change.is_new or not by_topics]

    is_same = disturbance.fact.reason == NOTHING_CHANGED
    against = [Evidence(_ALL_THE_SAME, Step.UNLIKELY)] if is_same else []

    def told(meaning: Says, text: str) -> list[Evidence]:
        return [Evidence(f"it said that {text}", Step.MUST)] if reason is meaning else []

    yield Candidate(
        Cause.PARTITIONS_ADDED,
        (disturbance,),
        (
            *against,
            *told(Says.METADATA_CHANGED, "its topics had changed"),
            *([Evidence("its subscription changed", Step.MUST_NOT)] if changed and not (by_topics and news) else []),
            *([Evidence(texts_of(news), Step.MUST)] if news else []),
            *([Evidence(_NO_NEWS, Step.UNLIKELY)] if is_unchanged(disturbance.fact) else []),
            *([Evidence("it said that there were more topics", Step.UNLIKELY)] if reason is Says.TOPICS_FOUND else []),
            *(
                [Evidence("the leader joined again", Step.LIKELY)]
                if disturbance.fact.reason == "leader_rejoined"
                else []
            ),
        ),
        prior=-1.0,
    )
    of_change = [*against, *told(Says.SUBSCRIPTION_CHANGED, "its subscription had changed")]
    by_pattern = Evidence("its subscription changed as topics were created or deleted", Step.UNLIKELY)
    if changed and not by_topics:
        of_change.append(Evidence("its subscription changed", Step.MUST))
    elif subscription is not None and not changed:
        of_change.append(Evidence("its subscription is the same", Step.UNLIKELY))
    of_own = [*of_change, by_pattern] if by_topics else of_change
    yield Candidate(Cause.SUBSCRIPTION_CHANGED, (disturbance,), tuple(of_own), prior=-1.0)
    of_topic = told(Says.TOPICS_FOUND, "there were more topics to consume")
    if (new := _added_of_new(disturbance)) is not None:
        of_topic.append(Evidence(new, Step.MUST))
    elif changed and disturbance.fact.topic_changes is not None:
        of_topic.append(Evidence(_NONE_CREATED, Step.UNLIKELY))
    yield Candidate(
        Cause.TOPIC_CREATED,
        (disturbance,),
        (*of_change, *of_topic, *_of_pattern(disturbance, group, known)),
        prior=-1.5,
    )
    of_force = [Evidence(_ALL_THE_SAME, Step.MUST)] if is_same else []
    of_force += told(Says.ENFORCED, "its application asked for a rebalance")
    of_force += told(Says.OWN_WORDS, "its application had a reason of its own")
    if is_unchanged(disturbance.fact) and not changed and disturbance.fact.reason == "leader_rejoined":
        of_force.append(Evidence(_NO_NEWS, Step.LIKELY))
    yield Candidate(Cause.REBALANCE_ENFORCED, (disturbance,), tuple(of_force), prior=-1.5)


def _added_of_new(disturbance: Disturbance) -> str | None:
    """That the topics that it added were new, if all of them were."""
    subscription = disturbance.fact.subscription
    if subscription is None or subscription.removed or not is_due_to_topics(disturbance.fact):
        return None
    return texts_of(change for change in disturbance.fact.topic_changes or () if change.topic in subscription.added)


def _of_pattern(disturbance: Disturbance, group: Group, known: Known) -> Iterator[Evidence]:
    """Whether a change of subscription is one that a pattern makes when a topic is created, as far as one member shows it.

    Several members that add the same are weighed together (hypotheses/groups.py).
    """
    subscription = disturbance.fact.subscription
    if subscription is None:
        return
    if subscription.removed:
        yield Evidence("it removed topics", Step.MUST_NOT)
    elif subscription.added:
        if _adds_alone(disturbance, group, known):
            # Events tell nothing of those that join again with it. To topics that were just created hardly anybody subscribes by name.
            step = Step.UNLIKELY if is_due_to_topics(disturbance.fact) else Step.MUST_NOT
            yield Evidence("the other members did not add them", step)
        else:
            yield Evidence("it added topics and removed none", Step.LIKELY)
        if _had_before(disturbance, group, known):
            yield Evidence("members of the group had subscribed to them before", Step.UNLIKELY)


def _had_before(disturbance: Disturbance, group: Group, known: Known) -> bool:
    """Whether somebody in the group had all that was added long before: those with the same pattern find it within minutes."""
    fact = disturbance.fact
    member_id = fact.member.member_id if fact.member is not None else None
    until_ms = fact.ts_ms - known.rebalance_ms(member_id)
    had: set[str] = set()
    for other in group.facts:
        is_own = other.member is not None and other.member.member_id == member_id
        if is_own and other.ts_ms < fact.ts_ms and other.subscription is not None:
            had.update(other.subscription.removed)
        if other.ts_ms < until_ms and other.subscription is not None:
            had.update(other.subscription.topics)
        if other.ts_ms < until_ms and other.phases is not None:
            had.update(other.phases.partitions or ())
    return fact.subscription is not None and set(fact.subscription.added) <= had


def _adds_alone(disturbance: Disturbance, group: Group, known: Known) -> bool:
    """Whether the group has other members, and none has added the same: those with the same pattern find it as well.

    Clients look for new topics every few minutes, so that what others have not done yet says nothing before.
    """
    fact = disturbance.fact
    member_id = fact.member.member_id if fact.member is not None else None
    within_ms = known.rebalance_ms(member_id)
    if fact.subscription is None or known.end_ms - fact.ts_ms <= within_ms:
        return False
    mine = set(fact.subscription.added)
    adding = [
        other
        for other in group.facts
        if other.subscription is not None
        and other.member is not None
        and other.member.member_id != member_id
        and abs(other.ts_ms - fact.ts_ms) <= within_ms
        and mine & set(other.subscription.topics)
    ]
    others = [life for life in group.alive_at(fact.ts_ms) if life.member.member_id != member_id]
    # Records have what those subscribe to in the end that joined again in the same rebalance, unless they have added it later.
    later = {
        other.member.member_id
        for other in group.facts
        if other.subscription is not None
        and other.member is not None
        and other.ts_ms > fact.ts_ms + within_ms
        and mine & set(other.subscription.added)
    }
    have_added = any(
        mine & set(known.topics(life.member.member_id)) for life in others if life.member.member_id not in later
    )
    return not adding and not have_added and bool(others)
