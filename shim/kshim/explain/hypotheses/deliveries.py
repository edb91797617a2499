"""Why records of a share group came back, were given up, or are held: one member that is too slow, or records that nobody can process."""

from __future__ import annotations

from collections.abc import Iterator

from kshim.explain.candidate import Candidate
from kshim.explain.causes import Cause
from kshim.explain.disturbances import Disturbance, What
from kshim.explain.facts import DeliveryEnd, Fact, Kind
from kshim.explain.lives import Group
from kshim.explain.weigh import Evidence, Step

OF_RECORDS = (What.LOCKS_ENDED, What.GIVEN_BACK, What.GIVEN_UP, What.HELD)

_ENDS = {
    DeliveryEnd.LOCK_TIMEOUT: "its locks ended",
    DeliveryEnd.RELEASED: "it gave them back",
    DeliveryEnd.SESSION_ENDED: "its session ended",
}


def candidates_of_delivery(disturbance: Disturbance, group: Group) -> Iterator[Candidate]:
    """The causes of deliveries that failed."""
    match disturbance.what:
        case What.LOCKS_ENDED:
            text = "its locks ended while it went on as a member"
            yield Candidate(Cause.LOCK_TIMEOUT, (disturbance,), (Evidence(text, Step.MUST),))
        case What.GIVEN_BACK:
            text = "it released records that had been delivered before"
            yield Candidate(Cause.RECORDS_RELEASED, (disturbance,), (Evidence(text, Step.MUST),))
        case What.HELD:
            text = "it renewed the locks of the same records again and again"
            yield Candidate(Cause.RECORDS_HELD, (disturbance,), (Evidence(text, Step.MUST),))
        case _:
            yield from _given_up(disturbance, group)


def _given_up(disturbance: Disturbance, group: Group) -> Iterator[Candidate]:
    """Records that no member could process, or that one member had each time, whose locks end with others as well."""
    fact, records = disturbance.fact, disturbance.fact.records
    assert records is not None
    if records.ended_by == DeliveryEnd.REJECTED:
        rejected = Evidence("the application rejected them", Step.MUST)
        yield Candidate(Cause.POISON_RECORD, (disturbance,), (rejected,))
        return
    before = [each for each in group.deliveries_near(fact) if _is_of_same(each, fact)]
    holders = {each.member.member_id for each in [*before, fact] if each.member is not None}
    ends = {each.records.ended_by for each in [*before, fact] if each.records is not None}
    is_slow = ends == {DeliveryEnd.LOCK_TIMEOUT} and len(holders) == 1
    evidence = [Evidence(f"they were delivered {records.delivery_count} times, as often as is allowed", Step.LIKELY)]
    if len(holders) > 1:
        evidence.append(Evidence(f"{len(holders)} members had them, and none was done with them", Step.MUST))
    elif not is_slow:
        how = _ENDS.get(records.ended_by or "", "it was not done with them")
        evidence.append(Evidence(f"{how} each time", Step.LIKELY))
    if is_slow:
        evidence.append(Evidence("only one member had them, whose locks ended each time", Step.UNLIKELY))
    yield Candidate(Cause.POISON_RECORD, (disturbance,), tuple(evidence))
    if records.ended_by == DeliveryEnd.LOCK_TIMEOUT:
        lost = _loses_others(group, fact)
        slow = [
            Evidence("the locks of the same member end with other records as well", Step.LIKELY)
            if lost
            else Evidence("its locks ended with these records only", Step.UNLIKELY)
        ]
        if is_slow:
            slow.append(Evidence("its locks ended each time, and nobody else had them", Step.LIKELY))
        else:
            slow.append(Evidence("others were not done with them either", Step.UNLIKELY))
        yield Candidate(Cause.LOCK_TIMEOUT, (disturbance,), tuple(slow))


def _is_of_same(other: Fact, fact: Fact) -> bool:
    """Whether an earlier delivery of some of the same records failed, too."""
    if other.kind is not Kind.RETURNED or other.records is None or fact.records is None or other.ts_ms > fact.ts_ms:
        return False
    return other.records.shares_any(fact.records)


def _loses_others(group: Group, fact: Fact) -> bool:
    """Whether the locks of the same member ended with records that are none of these."""
    assert fact.records is not None
    return any(
        each.records is not None
        and each.records.ended_by == DeliveryEnd.LOCK_TIMEOUT
        and each.member is not None
        and fact.member is not None
        and each.member.member_id == fact.member.member_id
        and not each.records.shares_any(fact.records)
        for each in group.deliveries_near(fact)
    )
