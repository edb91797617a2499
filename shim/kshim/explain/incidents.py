"""Disturbances and hypotheses to incidents: the public face of the diagnosis."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from operator import attrgetter
from typing import NamedTuple

from kshim.explain.candidate import Candidate
from kshim.explain.causes import Cause, Subject
from kshim.explain.client_names import is_of_library
from kshim.explain.disturbances import Disturbance, Key, What, disturbances
from kshim.explain.effects import Effect, effects
from kshim.explain.facts import BEGINS_MS, HEARTBEAT_MS, RETURN_MS, START_MS, Fact, Kind, Known, Profile
from kshim.explain.hypotheses.chains import IRREGULAR, member_id_of, within_reach
from kshim.explain.hypotheses.deliveries import OF_RECORDS, candidates_of_delivery
from kshim.explain.hypotheses.departures import DEPARTURES, candidates_of_departure
from kshim.explain.hypotheses.fleet import broker_restarts, groups_on_hosts, host_failures, process_failures
from kshim.explain.hypotheses.groups import candidates_of_group
from kshim.explain.hypotheses.others import candidates_of_other
from kshim.explain.lives import Group, Span, downtimes
from kshim.explain.weigh import Evidence, shares

_UNKNOWN_WEIGHT = -1.0
"""What no hypothesis explains better than this stays unknown: a prior, with evidence against it and none for it."""


CERTAIN_ENOUGH = 0.75
"""What follows from who is in one record and not in the next, and is less probable than this, is called unknown, and its cause
is the first alternative."""
_SILENCE_ENOUGH = 0.6
"""The same where commits tell for how long a member had been silent when it was gone."""
_LIKELIER_THAN_NOT = 0.5


_INCIDENT = -2.0
"""The log odds of one incident more: incidents are rare, so several at the same time are improbable if one explains all."""


class Alternative(NamedTuple):
    """Another cause, and its probability."""

    cause: Cause
    confidence: float
    evidence: tuple[Evidence, ...]


class Timeouts(NamedTuple):
    """What all members that an incident is about have set; None where that is unknown, or differs."""

    session_ms: int | None = None
    rebalance_ms: int | None = None


class Incident(NamedTuple):
    """One cause with all that it did. `clients` are those responsible, or affected if `subject` is a host or the broker."""

    cause: Cause
    subject: Subject
    groups: tuple[str, ...]
    clients: tuple[str, ...]
    host: str | None
    from_ms: int
    to_ms: int
    confidence: float
    evidence: tuple[Evidence, ...]
    alternatives: tuple[Alternative, ...]
    disturbances: tuple[Disturbance, ...]
    effects: tuple[Effect, ...]
    quiet_ms: int
    """What begins so soon after it, with the same cause and culprit, belongs to it."""
    timeouts: Timeouts

    @property
    def culprit(self) -> str:
        """The cause and who is responsible, as a key: incidents of several groups that have it in common may be one."""
        match self.subject:
            case Subject.BROKER:
                who: tuple[str, ...] = ()
            case Subject.HOST:
                who = (self.host or "",)
            case Subject.CLIENT if not self.clients:  # it may be another one each time
                who = (*self.groups, str(self.from_ms))
            case _ if self.cause is Cause.UNKNOWN and len(self.clients) == 1 and not is_of_library(self.clients[0]):
                who = (*self.clients, *(str(each.cause) for each in self.alternatives[:1]))
            # These are of a group by itself, also where clients of another one have the same names.
            case _ if self.cause in (Cause.UNKNOWN, Cause.SHARED_GROUP_ID) or all(map(is_of_library, self.clients)):
                who = (*self.groups, *self.clients)
            case _:
                who = self.clients
        return "\n".join((str(self.cause), *who))

    @property
    def is_observed(self) -> bool:
        """Whether a broker said what happened, rather than records before and after it."""
        return all(each.fact.is_observed for each in self.disturbances)


class _Chosen(NamedTuple):
    best: Candidate
    rivals: tuple[tuple[Cause, float, tuple[Evidence, ...]], ...]
    """All causes with their probabilities, that of `best` among them."""


_Singles = Mapping[Key, list[Candidate]]
"""Hypotheses about each disturbance alone, by its key."""


class _Weighed:
    """A group, what disturbed it, and the hypotheses about each disturbance."""

    def __init__(self, name: str, facts: Sequence[Fact], known: Known, down: Sequence[Span]) -> None:
        """`known`: of this group alone."""
        self.profiles = known.profiles
        self.facts, self.down = facts, down
        self.group = Group(name, facts, known, down)
        self.found = disturbances(self.group, known)
        self.singles: _Singles = {each.key: list(_singles(each, self.group, known)) for each in self.found}
        self._known = known
        absent = [life for life in self.group.lives if life.gone is not None and life.next is None]
        counts_ms = [2 * life.gone.ts_ms - life.silent_ms(known) for life in absent if life.gone is not None]
        self._until_ms = min((ts_ms for ts_ms in counts_ms if ts_ms >= known.end_ms), default=None)
        """From then on the absence of a member tells more."""
        self._chosen: tuple[list[Key], list[_Chosen]] = ([], [])
        self._several: list[Candidate] | None = None
        """Hypotheses about several disturbances, if somebody has asked."""

    def is_still(self, facts: Sequence[Fact], known: Known, down: Sequence[Span]) -> bool:
        """Whether this is all that is known of it."""
        is_later = self._until_ms is not None and known.end_ms > self._until_ms
        return not is_later and self.facts == facts and self.profiles == known.profiles and self.down == down

    def has_better_than(self, failure: Candidate) -> bool:
        """Whether a hypothesis of this group about several disturbances gains more than one that explains some of them."""
        if self._several is None:
            parts = within_reach(self.found, self._known)
            self._several = [each for part in parts for each in _of_group(self.group, self._known, part)]
        keys, gain = {each.key for each in failure.explains}, _gain(failure, self.singles)
        overlapping = (each for each in self._several if not keys.isdisjoint(part.key for part in each.explains))
        return any(_gain(each, self.singles) > gain for each in overlapping)

    def chosen(self, free: Sequence[Disturbance]) -> list[_Chosen]:
        """What explains its disturbances, without those that the fleet's explain."""
        keys = [each.key for each in free]
        if keys != self._chosen[0]:
            chosen: list[_Chosen] = []
            for part in within_reach(free, self._known):
                of_group, single = _choose_several(part, self.singles, partial(_of_group, self.group, self._known))
                chosen += [*of_group, *(_choose_single(each, self.singles[each.key]) for each in single)]
            self._chosen = (keys, chosen)
        return self._chosen[1]


class Explainer:
    """Explains groups again and again, as more is known of some: only those are weighed anew."""

    def __init__(self) -> None:
        self._weighed: dict[str, _Weighed] = {}
        self._incidents: dict[tuple[int, ...], tuple[list[_Chosen], Incident]] = {}

    def explain(self, known: Known) -> list[Incident]:
        """As `explain`."""
        return together(self.apart(known))

    def apart(self, known: Known, group: str | None = None) -> list[Incident]:
        """As `apart`."""
        known = known._replace(profiles=_told_profiles(known.facts) | dict(known.profiles))
        self._weigh(known)
        groups = {name: each.group for name, each in self._weighed.items()}
        found = [each for one in self._weighed.values() for each in one.found]
        singles: dict[Key, list[Candidate]] = {}
        for one in self._weighed.values():
            singles |= one.singles
        on_hosts = groups_on_hosts(groups.values())

        def of_fleet(free: Sequence[Disturbance]) -> list[Candidate]:
            failures = host_failures(free, on_hosts, known)
            return [
                *broker_restarts(free, groups, known),
                *(each for each in failures if not self._is_explained_better(each)),
                *process_failures(free, groups, known),
            ]

        chosen, rest = _choose_several(found, singles, of_fleet)
        by_group: dict[str, list[Disturbance]] = defaultdict(list)
        for each in rest:
            by_group[each.group].append(each)
        for name in groups if group is None else [group]:
            chosen += self._weighed[name].chosen(by_group[name])
        before, self._incidents = self._incidents, {}
        order = {each.key: number for number, each in enumerate(found)}
        chosen.sort(key=lambda one: min(order[each.key] for each in one.best.explains))
        for part in _merged(chosen, known):
            key = tuple(map(id, part))
            self._incidents[key] = before.get(key) or (part, _incident(part, groups, known))
        incidents = [incident for _, incident in self._incidents.values()]
        return incidents if group is None else [_part(each, group) for each in incidents if group in each.groups]

    def _is_explained_better(self, failure: Candidate) -> bool:
        """Whether what befell members of one group alone has another cause that explains more of it: a deploy, as of static members."""
        names = {each.group for each in failure.explains}
        mine = self._weighed[names.pop()] if len(names) == 1 else None
        return mine is not None and mine.has_better_than(failure)

    def _weigh(self, known: Known) -> None:
        """`known`: with the profiles that its facts tell of."""
        of_groups: dict[str, list[Fact]] = defaultdict(list)
        for fact in known.facts:
            of_groups[fact.group].append(fact)
        down = downtimes(known.facts)
        before, self._weighed = self._weighed, {}
        for name, facts in of_groups.items():
            ids = {member_id for fact in facts for member_id in _ids(fact)}
            profiles = {each: known.profiles[each] for each in ids if each in known.profiles}
            profiles |= _guessed(facts, profiles)
            mine = Known(tuple(facts), profiles, known.sources, known.end_ms)
            old = before.get(name)
            is_still = old is not None and old.is_still(facts, mine, down)
            self._weighed[name] = old if old is not None and is_still else _Weighed(name, facts, mine, down)


def _told_profiles(facts: Iterable[Fact]) -> dict[str, Profile]:
    """Of members that said their timeouts as they joined: records have those alone that are still there."""
    found: dict[str, Profile] = {}
    for fact in facts:
        said, member = fact.subscription, fact.member
        if said is None or member is None or said.session_timeout_ms is None or said.rebalance_timeout_ms is None:
            continue
        found[member.member_id] = Profile(member, said.session_timeout_ms, said.rebalance_timeout_ms, said.topics)
    return found


def _guessed(facts: Sequence[Fact], profiles: Mapping[str, Profile]) -> dict[str, Profile]:
    """Members of which there is no record have the timeouts that most others of the group have; their subscription is unknown."""
    if not profiles:
        return {}
    timeouts = Counter((each.session_ms, each.rebalance_ms) for each in profiles.values())
    session_ms, rebalance_ms = min(timeouts, key=lambda each: (-timeouts[each], each))
    strangers = {fact.member.member_id: fact.member for fact in facts if fact.member is not None}
    return {
        member_id: Profile(member, session_ms, rebalance_ms, ())
        for member_id, member in strangers.items()
        if member_id not in profiles
    }


def _ids(fact: Fact) -> Iterator[str]:
    """The members that a fact is about."""
    if fact.member is not None:
        yield fact.member.member_id
    if fact.other_id is not None:
        yield fact.other_id
    if fact.phases is not None:
        if fact.phases.leader_id is not None:
            yield fact.phases.leader_id
        if fact.phases.last_to_join is not None:
            yield fact.phases.last_to_join.member_id


def explain(known: Known) -> list[Incident]:
    """The incidents of all groups, in order of time."""
    return Explainer().explain(known)


def apart(known: Known, group: str | None = None) -> list[Incident]:
    """Incidents before those of several groups are put `together`.

    `group`: only its part of them is wanted. Of this group all facts are known, and of others those that happened to
    their members on the same hosts at the same time.
    """
    return Explainer().apart(known, group)


def _part(incident: Incident, group: str) -> Incident:
    """What an incident is to one group."""
    mine = tuple(each for each in incident.disturbances if each.group == group)
    return incident._replace(
        groups=(group,),
        clients=_clients(incident.cause, mine),
        disturbances=mine,
        effects=tuple(each for each in incident.effects if each.group == group),
    )


def together(incidents: Iterable[Incident]) -> list[Incident]:
    """Those of several groups with the same cause and culprit at the same time as one, all in order of time."""
    by_culprit: dict[str, list[Incident]] = defaultdict(list)
    for each in incidents:
        by_culprit[each.culprit].append(each)
    found: list[Incident] = []
    for mine in by_culprit.values():
        part: list[Incident] = []
        for each in sorted(mine, key=lambda one: one.from_ms):
            if part and not _is_same_time(part, each):
                found.append(_joined(part))
                part = []
            part.append(each)
        found.append(_joined(part))
    return sorted(found, key=lambda each: (each.from_ms, each.to_ms, each.groups))


def _is_same_time(part: Sequence[Incident], each: Incident) -> bool:
    apart_ms = each.from_ms - max(before.to_ms for before in part)
    is_again = not {name for before in part for name in before.groups}.isdisjoint(each.groups)
    if each.cause is Cause.DUPLICATE_INSTANCE and not is_again:
        # An instance id is of one group, and others may have the same; two processes with it may be members of several.
        return each.from_ms - part[0].from_ms <= HEARTBEAT_MS
    if each.cause in _ONCE:
        return apart_ms <= HEARTBEAT_MS and not is_again
    if each.cause in _ONCE_OF_ALL:
        return apart_ms <= RETURN_MS and not is_again
    return apart_ms <= each.quiet_ms


def _joined(part: Sequence[Incident]) -> Incident:
    first = part[0]
    if len(part) == 1:
        return first
    hosts = {each.host for each in part}
    return first._replace(
        groups=tuple(sorted({name for each in part for name in each.groups})),
        clients=tuple(sorted({name for each in part for name in each.clients})),
        host=hosts.pop() if len(hosts) == 1 else None,
        to_ms=max(each.to_ms for each in part),
        confidence=round(sum(each.confidence for each in part) / len(part), 2),
        evidence=tuple(dict.fromkeys(one for each in part for one in each.evidence)),
        disturbances=tuple(sorted((one for each in part for one in each.disturbances), key=lambda one: one.from_ms)),
        effects=tuple(one for each in part for one in each.effects),
        timeouts=first.timeouts if len({each.timeouts for each in part}) == 1 else Timeouts(),
    )


def _of_group(group: Group, known: Known, free: Sequence[Disturbance]) -> list[Candidate]:
    return list(candidates_of_group(group, free, known)) if len(free) > 1 else []


def _singles(each: Disturbance, group: Group, known: Known) -> Iterable[Candidate]:
    if each.what in DEPARTURES:
        return candidates_of_departure(each, known)
    if each.what in OF_RECORDS:
        return candidates_of_delivery(each, group)
    return candidates_of_other(each, group, known)


def _best(candidates: Iterable[Candidate]) -> float:
    return max((each.weight for each in candidates), default=_UNKNOWN_WEIGHT)


def _gain(candidate: Candidate, singles: _Singles) -> float:
    """How much more a hypothesis weighs than the best about each of its disturbances."""
    apart = sum(max(_best(singles[each.key]), _UNKNOWN_WEIGHT) + _INCIDENT for each in candidate.explains)
    return candidate.weight + _INCIDENT - apart


def _choose_several(
    found: Sequence[Disturbance], singles: _Singles, candidates_of: Callable[[Sequence[Disturbance]], list[Candidate]]
) -> tuple[list[_Chosen], list[Disturbance]]:
    """Hypotheses about several disturbances, the best first, as long as one weighs more than the best about each of them.

    Returns what was chosen, and the disturbances that are left. After each choice, the others are weighed without what
    it explains: a loop may have begun after a deploy.
    """

    gain = partial(_gain, singles=singles)
    chosen: list[_Chosen] = []
    free = list(found)
    while free:
        candidates = candidates_of(free)
        # Of several that gain as much, the one that is over sooner: what belongs together is close together.
        best = max(candidates, key=lambda each: (round(gain(each), 6), -_span_ms(each)), default=None)
        if best is None or gain(best) <= 0:
            break
        explained = {each.key for each in best.explains}
        rivals = [each for each in candidates if explained & {part.key for part in each.explains}]
        weights = [(each.cause, gain(each), each.evidence) for each in rivals]
        parts = [one for each in best.explains for one in singles[each.key] if one.cause is not best.cause]
        first = max(parts, key=lambda one: one.weight, default=None)
        if first is not None:
            weights.append((first.cause, 0.0, first.evidence))
        chosen.append(_told(best, _probabilities(weights)))
        free = [each for each in free if each.key not in explained]
    return chosen, free


def _span_ms(candidate: Candidate) -> int:
    return max(each.to_ms for each in candidate.explains) - min(each.from_ms for each in candidate.explains)


def _choose_single(each: Disturbance, candidates: Sequence[Candidate]) -> _Chosen:
    unknown = Candidate(Cause.UNKNOWN, (each,), (), _UNKNOWN_WEIGHT)
    winner = max([unknown, *candidates], key=lambda one: one.weight)
    probable = _probabilities([(one.cause, one.weight, one.evidence) for one in [*candidates, unknown]])
    return _told(winner, probable)


def _told(winner: Candidate, probable: Sequence[tuple[Cause, float, tuple[Evidence, ...]]]) -> _Chosen:
    """What is told as the cause: nothing, where it is a guess."""
    facts = [each.fact for each in winner.explains]
    least = 0.0
    if not any(fact.is_observed for fact in facts):
        is_silence = all(fact.kind is Kind.EXPIRED for fact in facts)
        least = _SILENCE_ENOUGH if is_silence else CERTAIN_ENOUGH
    elif all(fact.source.startswith("record") for fact in facts):
        least = _LIKELIER_THAN_NOT  # it is known when it happened, and little of how
    if probable[0][1] < least:
        winner = Candidate(Cause.UNKNOWN, winner.explains, (), _UNKNOWN_WEIGHT)
    return _Chosen(winner, tuple(probable))


def _probabilities(
    weights: Sequence[tuple[Cause, float, tuple[Evidence, ...]]],
) -> tuple[tuple[Cause, float, tuple[Evidence, ...]], ...]:
    by_cause: dict[Cause, tuple[float, tuple[Evidence, ...]]] = {}
    for cause, weight, evidence in weights:
        if cause not in by_cause or weight > by_cause[cause][0]:
            by_cause[cause] = (weight, evidence)
    probable = shares(weight for weight, _ in by_cause.values())
    rows = [(cause, share, row[1]) for (cause, row), share in zip(by_cause.items(), probable, strict=True)]
    return tuple(sorted(rows, key=lambda row: -row[1]))


_ONCE = (
    Cause.KILLED,
    Cause.PAUSED,
    Cause.RESTART,
    Cause.STATIC_RESTART,
    Cause.STATIC_STOPPED,
    Cause.DEPLOY,
    Cause.ASSIGNOR_CHANGED,
    Cause.TOPIC_CREATED,
)
"""What happens to processes once: in one group twice is two incidents, in two groups at the same time is one."""


_ONCE_OF_ALL = (Cause.BROKER_RESTARTED, Cause.ONE_BY_ONE_START)
"""What happens to all of a group once, and to several groups within a minute, however long their timeouts are."""


def _merged(chosen: Sequence[_Chosen], known: Known) -> list[list[_Chosen]]:
    """Those in one group with the same cause and the same culprit, without a rebalance timeout between them."""
    by_culprit: dict[tuple[object, ...], list[_Chosen]] = defaultdict(list)
    for each in chosen:
        by_culprit[*_culprit(each.best), *sorted({part.group for part in each.best.explains})].append(each)
    parts: list[list[_Chosen]] = []
    for mine in by_culprit.values():
        part: list[_Chosen] = []
        for each in sorted(mine, key=lambda one: one.best.explains[0].from_ms):
            if part and not _belong_together(part, each, known):
                parts.append(part)
                part = []
            part.append(each)
        parts.append(part)
    return parts


def _belong_together(part: Sequence[_Chosen], each: _Chosen, known: Known) -> bool:
    if each.best.cause in _ONCE or each.best.cause in _ONCE_OF_ALL:
        return False
    begins_ms = min(one.from_ms for one in each.best.explains)
    ended_ms = max(one.to_ms for before in part for one in before.best.explains)
    return begins_ms - ended_ms <= _quiet_ms(each.best, known)


_QUICK = (
    Cause.SCALE_UP,
    Cause.SCALE_DOWN,
    Cause.PARTITIONS_ADDED,
    Cause.HOST_STALLED,
    Cause.NETWORK_CUT,
    Cause.REBALANCE_ENFORCED,
    Cause.UNKNOWN,
)
"""What is over soon: a session timeout later it is another one."""


def _quiet_ms(best: Candidate, known: Known) -> int:
    first = best.explains[0]
    member_id = member_id_of(first)
    if best.cause is Cause.SLOW_POLL:
        # The next time is noticed only when its next poll takes as long.
        waits_ms = [each.to_ms - each.from_ms for each in best.explains if each.what is What.SLOW_JOIN]
        if waits_ms:
            return max(RETURN_MS, min(3 * max(waits_ms), known.rebalance_ms(member_id)))
        polled_ms = _polled_ms(first.fact)
        return 2 * known.rebalance_ms(member_id) if polled_ms is None else RETURN_MS + max(first.from_ms - polled_ms, 0)
    if best.cause in (Cause.DUPLICATE_INSTANCE, Cause.SLOW_LEADER, Cause.SUBSCRIPTION_CHANGED):
        # Each of two asks again and again; the next rebalance is another occasion to be slow; and nobody takes minutes to subscribe.
        return RETURN_MS
    if best.cause in (Cause.CRASH_LOOP, Cause.FLAPPING):
        pauses_ms = (after.from_ms - before.from_ms for before, after in pairwise(best.explains))
        return max(RETURN_MS, IRREGULAR * max(pauses_ms, default=0))
    is_quick = best.cause in _QUICK
    return known.session_ms(member_id) if is_quick else known.rebalance_ms(member_id)


def _polled_ms(fact: Fact) -> int | None:
    """When a member that was gone polled for the last time before its slow poll, as what it fetched and committed tells; None: unknown."""
    fetched_ms = None if fact.activity is None else fact.activity.last_fetch_ms
    committed_ms = None if fact.committed is None or fact.committed.is_none else fact.committed.last_ms
    return max((ts_ms for ts_ms in (fetched_ms, committed_ms) if ts_ms is not None), default=None)


def _culprit(best: Candidate) -> tuple[object, ...]:
    first = best.explains[0]
    match best.cause.subject:
        case Subject.CLIENT if best.cause is Cause.SLOW_POLL and first.life is not None:
            return (
                best.cause,
                first.name,
                id(first.life.first),
            )  # another process of its name is slow for its own reasons
        case Subject.CLIENT:
            return (best.cause, first.name or first.key)  # without a name, it may be another one each time
        case Subject.HOST:
            return (best.cause, best.host or (first.member.host if first.member is not None else None))
        case Subject.BROKER:
            return (best.cause,)
        case _ if best.cause is Cause.UNKNOWN:
            return (best.cause, first.group, frozenset(each.name for each in best.explains))
        case _:
            return (best.cause, first.group)


def _clients(cause: Cause, explained: Sequence[Disturbance]) -> tuple[str, ...]:
    slow = [each for each in explained if each.what is What.SLOW_JOIN] if cause is Cause.SLOW_POLL else []
    if cause is Cause.SHARED_GROUP_ID:
        # The others suffer from it.
        explained = [each for each in explained if each.what in (What.ARRIVED, What.NOT_ADMITTED)]
    names = {each.name for each in slow or explained if each.name and each.what is not What.LOADED}
    if cause in (Cause.CRASH_LOOP, Cause.FLAPPING):
        # Each process may have a name of its own, and the one that is there now has not ended.
        ended = [each.life for each in explained if each.life is not None and each.life.gone is each.fact]
        away_ms = [life.away_ms for life in ended if life.next is not None and life.next in ended]
        most_ms = max([START_MS, *(IRREGULAR * each for each in away_ms)])
        names |= {life.next.member.name for life in ended if life.next is not None and life.away_ms <= most_ms}
    return tuple(sorted(names))


def _only_name(explained: Sequence[Disturbance], groups: Mapping[str, Group]) -> tuple[str, ...]:
    """The name that all members have for whom others waited, whichever of them it was; empty, if they have several."""
    names = {life.member.name for each in explained for life in groups[each.group].alive_at(each.from_ms - BEGINS_MS)}
    return tuple(names) if len(names) == 1 else ()


def _incident(part: Sequence[_Chosen], groups: Mapping[str, Group], known: Known) -> Incident:
    first = part[0].best
    explained = tuple(sorted((each for one in part for each in one.best.explains), key=lambda each: each.from_ms))
    evidence = tuple(dict.fromkeys(each for one in part for each in one.best.evidence))
    own = [share for one in part for cause, share, _ in one.rivals if cause is first.cause]
    others = [row for one in part[:1] for row in one.rivals if row[0] is not first.cause]
    hosts = {each.member.host for each in explained if each.member is not None}
    clients = _clients(first.cause, explained)
    if not clients and first.cause is Cause.SLOW_POLL:
        clients = _only_name(explained, groups)
    return Incident(
        cause=first.cause,
        subject=first.cause.subject,
        groups=tuple(sorted({each.group for each in explained})),
        clients=clients,
        host=first.host or (hosts.pop() if len(hosts) == 1 and first.cause.subject is not Subject.GROUP else None),
        from_ms=min(each.from_ms for each in explained),
        to_ms=max(each.to_ms for each in explained),
        confidence=round(sum(own) / len(own), 2) if own else 0.0,
        evidence=evidence,
        alternatives=tuple(
            Alternative(cause, round(share, 2), why) for cause, share, why in others[:2] if share >= 0.01
        ),
        disturbances=explained,
        effects=tuple(effects(explained, groups)),
        quiet_ms=max(_quiet_ms(one.best, known) for one in part),
        timeouts=_timeouts(explained, known),
    )


def _timeouts(explained: Sequence[Disturbance], known: Known) -> Timeouts:
    profiles = [known.profiles.get(each.member.member_id) for each in explained if each.member is not None]
    session, rebalance = (
        {None if each is None else value(each) for each in profiles}
        for value in (attrgetter("session_ms"), attrgetter("rebalance_ms"))
    )
    return Timeouts(session.pop() if len(session) == 1 else None, rebalance.pop() if len(rebalance) == 1 else None)
