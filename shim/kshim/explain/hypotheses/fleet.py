"""Causes outside of the clients: a restarted broker, and a host that stalled or was cut off."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from kshim.explain.candidate import Candidate
from kshim.explain.causes import Cause
from kshim.explain.client_reasons import Says, says
from kshim.explain.disturbances import Disturbance, What
from kshim.explain.facts import Kind, Known
from kshim.explain.hypotheses.departures import evidence_for
from kshim.explain.lives import Group, Life
from kshim.explain.weigh import Evidence, Step

_MEMBERS_OF_A_HOST = 2


def broker_restarts(found: Sequence[Disturbance], known: Known) -> Iterator[Candidate]:
    """One for each time that coordinators were loaded, with all that may follow from it in any group."""
    loads = sorted((each for each in found if each.what is What.LOADED), key=lambda each: each.to_ms)
    while loads:
        first_ms = loads[0].to_ms
        longest_ms = max((profile.session_ms for profile in known.profiles.values()), default=known.session_ms(None))
        mine = [each for each in loads if each.to_ms - first_ms <= longest_ms]
        loads = loads[len(mine) :]
        began_ms, ended_ms = min(each.from_ms for each in mine), max(each.to_ms for each in mine)
        consequences = [each for each in found if _follows(each, began_ms, ended_ms, known)]
        # Sessions start anew when a group is loaded, so that who does not return in time expires one timeout later.
        evidence = [Evidence("the coordinator read its groups from the log", Step.MUST)]
        evidence += [Evidence(f"{each.name} rejoined or expired after it", Step.LIKELY) for each in consequences]
        yield Candidate(Cause.BROKER_RESTARTED, (*mine, *consequences), tuple(evidence))


def _follows(each: Disturbance, began_ms: int, ended_ms: int, known: Known) -> bool:
    """Whether it may be a consequence: of clients that were members before, and come back by themselves."""
    if each.what in (What.LOADED, What.ARRIVED):
        return False
    if says(each.fact.client_reason) in (Says.ENFORCED, Says.SUBSCRIPTION_CHANGED, Says.CLOSES, Says.POLL_TIMEOUT):
        return False
    session_ms = known.session_ms(each.member.member_id if each.member else None)
    activity = each.fact.activity
    if each.fact.kind is Kind.EXPIRED:
        if activity is not None and activity.last_request_ms > ended_ms:
            return False  # it had returned
        if activity is not None and activity.closed_ms is not None and activity.closed_ms < began_ms - session_ms:
            return False
        if each.life is not None and each.life.is_same_process_as_next(known) is False:
            return False  # it was gone for good, and another one was started
        return began_ms - session_ms <= each.fact.ts_ms <= ended_ms + 1.25 * session_ms
    return began_ms <= each.fact.ts_ms <= ended_ms + session_ms


def host_failures(found: Sequence[Disturbance], groups: Mapping[str, Group], known: Known) -> Iterator[Candidate]:
    """Sessions of one host's members that began to run out at the same time: within a heartbeat interval."""
    expired: dict[str, list[Disturbance]] = {}
    for each in found:
        if each.fact.kind is Kind.EXPIRED and each.member is not None and each.member.host is not None:
            expired.setdefault(each.member.host, []).append(each)
    for together in _together(sorted((each for all_ in expired.values() for each in all_), key=_begin), known):
        if len({each.member.host for each in together if each.member is not None}) > 1:
            yield from _of_host(None, together, groups, known)
    for host, all_ in expired.items():
        for together in _together(sorted(all_, key=_begin), known):
            if len({each.name for each in together}) >= _MEMBERS_OF_A_HOST:
                yield from _of_host(host, together, groups, known)


def _begin(each: Disturbance) -> int:
    return each.from_ms


def _together(expired: Sequence[Disturbance], known: Known) -> Iterator[list[Disturbance]]:
    part: list[Disturbance] = []
    for each in expired:
        session_ms = known.session_ms(each.member.member_id if each.member else None)
        if part and each.from_ms - part[0].from_ms > session_ms / 2:
            yield part
            part = []
        part.append(each)
    if part:
        yield part


def _of_host(
    host: str | None, together: Sequence[Disturbance], groups: Mapping[str, Group], known: Known
) -> Iterator[Candidate]:
    lives = [each.life for each in together if each.life is not None]
    at_ms = min(each.from_ms for each in together)
    others = [
        life
        for group in groups.values()
        for life in group.alive_at(at_ms)
        if host in (None, life.member.host) and life not in lives and not _fell_silent(life, at_ms, known)
    ]
    shared = [
        Evidence(f"{life.member.name} on the same host fell silent at the same time", Step.LIKELY) for life in lives
    ]
    shared += [Evidence(f"{life.member.name} on the same host went on", Step.UNLIKELY) for life in others]
    shared += [one for each in together for one in evidence_for(each, known, Cause.NETWORK_CUT, Cause.PAUSED)]
    kept = [_kept_connection(life) for life in lives]
    anew = Evidence("its clients came back on new connections", Step.LIKELY)
    same = Evidence("its clients came back on the same connections", Step.LIKELY)
    # Clients give up connections that do not answer; a process that stood still finds its connections as they were.
    # A host that stands still for longer than a session is rarer than a network that does.
    cut = [anew] if kept and all(each is False for each in kept) else []
    stalled = [same] if kept and all(kept) else []
    yield Candidate(Cause.NETWORK_CUT, tuple(together), (*shared, *cut), prior=-2.0, host=host)
    if host is not None:
        yield Candidate(Cause.HOST_STALLED, tuple(together), (*shared, *stalled), prior=-3.0, host=host)


def _fell_silent(life: Life, at_ms: int, known: Known) -> bool:
    """Whether a life ended by silence from about that time on."""
    session_ms = known.session_ms(life.member.member_id)
    return (
        life.gone is not None
        and life.gone.kind is Kind.EXPIRED
        and abs(life.silent_ms(known) - at_ms) <= session_ms / 2
    )


def _kept_connection(life: Life) -> bool | None:
    if life.next is None or life.next.joined is None or life.activity is None or life.next.joined.activity is None:
        return None
    return life.next.joined.activity.connection_id == life.activity.connection_id
