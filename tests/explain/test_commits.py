"""What commits tell of members whose requests a source does not show."""

from __future__ import annotations

import pytest

from kshim.explain.facts import NOTHING_CHANGED, UNSEEN, Committed, Fact, Kind, Member, Phases, Profile, Subscription
from kshim.explain.sources.records import (
    LastOfAll,
    Snapshot,
    committed,
    facts_of_records,
    last_commit_in,
    last_to_join,
    quiet_since_ms,
    snapshot_of,
    usual_pause_in,
    with_arrivals,
    with_loads,
    with_stops,
    with_subscription,
)
from kshim_protocol.codec import codec
from kshim_protocol.internal.consumer import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
)
from kshim_protocol.internal.group_metadata import GroupMetadataValue, MemberMetadata
from tests.explain.story import MINUTE, REBALANCE_MS, SECOND, SESSION_MS

HOUR = 60 * MINUTE


def snapshot(
    ts_ms: int, assigned: dict[str, tuple[int, ...]], *, instance_id: str | None = None, generation: int = 1
) -> Snapshot:
    """A record of the group `billing`, and which partitions of `orders` each member has. `instance_id`: of all of them."""
    subscription = b"\0\0" + codec(ConsumerProtocolSubscription, 0).build(
        ConsumerProtocolSubscription(topics=("orders",))
    )
    members = tuple(
        MemberMetadata(
            member_id=f"{client}-1",
            group_instance_id=instance_id,
            client_id=client,
            client_host="/10.0.0.1",
            rebalance_timeout=REBALANCE_MS,
            session_timeout=SESSION_MS,
            subscription=subscription,
            assignment=b"\0\0"
            + codec(ConsumerProtocolAssignment, 0).build(
                ConsumerProtocolAssignment(assigned_partitions=(TopicPartition(topic="orders", partitions=mine),))
            ),
        )
        for client, mine in assigned.items()
    )
    value = GroupMetadataValue(
        protocol_type="consumer",
        generation=generation,
        protocol="range",
        leader=members[0].member_id if members else None,
        current_state_timestamp=ts_ms,
        members=members,
    )
    return snapshot_of(ts_ms, "billing", f"record {ts_ms}", value)


def every_second(begin_ms: int, end_ms: int) -> list[int]:
    return list(range(begin_ms, end_ms + 1, SECOND))


def test_the_last_commit_of_a_member_is_that_of_any_of_its_partitions() -> None:
    record = snapshot(0, {"one": (0, 1), "two": (2,)})
    commits = {("orders", 0): every_second(0, 10 * SECOND), ("orders", 1): [500], ("orders", 2): [MINUTE]}
    assert committed([record], "one-1", commits, MINUTE) == Committed(10 * SECOND, SECOND, 9 * SECOND, is_sparse=True)


def test_commits_of_a_partition_before_a_member_had_it_are_not_its_own() -> None:
    records = [snapshot(0, {"one": (0,)}), snapshot(MINUTE, {"one": (), "two": (0,)})]
    commits = {("orders", 0): every_second(0, MINUTE - SECOND)}
    assert committed(records[::-1], "two-1", commits, 2 * MINUTE) == Committed(MINUTE, SECOND, is_none=True)


def test_commits_from_before_a_rebalance_that_left_a_member_its_partitions_are_its_own() -> None:
    records = [snapshot(0, {"one": (0,)}), snapshot(MINUTE, {"one": (0,), "two": (1,)})]
    commits = {("orders", 0): every_second(0, 40 * SECOND)}
    assert committed(records[::-1], "one-1", commits, 2 * MINUTE) == Committed(40 * SECOND, SECOND, 39 * SECOND)


def test_who_has_rarely_committed_yet_does_so_as_often_as_others_of_its_group() -> None:
    record = snapshot(0, {"one": (0,), "two": (1, 2)})
    commits = {("orders", part): [*range(part, MINUTE, 5 * SECOND)] for part in (1, 2)}
    commits["orders", 0] = [4 * SECOND]
    assert committed([record], "one-1", commits, MINUTE) == Committed(4 * SECOND, 5 * SECOND)


def test_the_record_that_a_replacement_writes_at_once_has_the_old_member_no_more() -> None:
    records = [snapshot(0, {"one": (0,)}), snapshot(MINUTE, {"new": (0,)})]
    commits = {("orders", 0): every_second(0, 40 * SECOND)}
    assert committed(records[::-1], "one-1", commits, MINUTE) == Committed(40 * SECOND, SECOND, 39 * SECOND)


def test_who_commits_nothing_while_the_others_still_do_is_the_last_to_join() -> None:
    record = snapshot(0, {"one": (0,), "two": (1,), "three": (2,)})
    commits = {
        ("orders", 0): every_second(0, MINUTE + 2 * SECOND),
        ("orders", 1): every_second(0, MINUTE - 5 * SECOND),
        ("orders", 2): every_second(0, MINUTE + SECOND),
    }
    last = last_to_join(record, commits, MINUTE, MINUTE + 10 * SECOND)
    assert last is not None
    assert last.name == "two@10.0.0.1"


def test_who_commits_what_it_has_processed_for_long_just_before_it_joins_is_the_last() -> None:
    record = snapshot(0, {"one": (0,), "two": (1,)})
    commits = {
        ("orders", 0): [*every_second(0, MINUTE), MINUTE + 2 * SECOND],
        ("orders", 1): [*every_second(0, MINUTE - 5 * SECOND), MINUTE + 10 * SECOND],
    }
    last = last_to_join(record, commits, MINUTE, MINUTE + 10 * SECOND)
    assert last is not None
    assert last.name == "two@10.0.0.1"


def test_the_only_one_that_has_not_committed_since_a_rebalance_began_is_the_last_to_join() -> None:
    """The others commit as they join, within a second of its own last commit."""
    record = snapshot(0, {"one": (0,), "two": (1,), "three": (2,), "four": (3,)})
    commits = {("orders", part): [*every_second(100 * part, MINUTE), MINUTE + 200] for part in (0, 2, 3)}
    commits["orders", 1] = every_second(300, MINUTE)
    last = last_to_join(record, commits, MINUTE, MINUTE + 10 * SECOND)
    assert last is not None
    assert last.name == "two@10.0.0.1"


def test_the_one_that_commits_just_as_a_rebalance_ends_and_had_not_for_long_is_the_last_to_join() -> None:
    """The other one had something to commit when it joined, 2 s after the begin, and then no more than usual before that."""
    record = snapshot(0, {"one": (0,), "two": (1,)})
    commits = {
        ("orders", 0): [*range(0, MINUTE - 9 * SECOND, 3 * SECOND), MINUTE + 2 * SECOND],
        ("orders", 1): [*range(0, MINUTE, 3 * SECOND), MINUTE + 12 * SECOND],
    }
    last = last_to_join(record, commits, MINUTE, MINUTE + 12 * SECOND)
    assert last is not None
    assert last.name == "two@10.0.0.1"


def test_a_member_without_partitions_is_the_last_to_join_if_all_others_have_committed_meanwhile() -> None:
    record = snapshot(0, {"one": (0,), "two": (), "three": (2,)})
    commits = {("orders", part): every_second(0, MINUTE + 2 * SECOND) for part in (0, 2)}
    last = last_to_join(record, commits, MINUTE, MINUTE + 10 * SECOND)
    assert last is not None
    assert last.name == "two@10.0.0.1"
    both = snapshot(0, {"one": (0,), "two": (), "three": (2,), "four": ()})
    assert last_to_join(both, commits, MINUTE, MINUTE + 10 * SECOND) is None
    assert last_to_join(record, commits, MINUTE, MINUTE + 6 * SECOND) is None, "it may have committed nothing by chance"


def test_nobody_is_the_last_to_join_if_all_stopped_committing_at_about_the_same_time() -> None:
    record = snapshot(0, {"one": (0,), "two": (1,)})
    commits = {("orders", 0): every_second(0, MINUTE), ("orders", 1): every_second(300, MINUTE)}
    assert last_to_join(record, commits, MINUTE, MINUTE + 10 * SECOND) is None


def test_nobody_is_the_last_to_join_if_a_member_with_partitions_never_commits() -> None:
    record = snapshot(0, {"one": (0,), "two": (1,)})
    assert last_to_join(record, {("orders", 0): every_second(0, MINUTE)}, MINUTE, 2 * MINUTE) is None


@pytest.mark.parametrize(
    ("leader", "generation", "last_commit_s", "state"),
    [("one", 3, 0, "CompletingRebalance"), ("two", 3, 0, ""), ("one", 2, 0, ""), ("one", 3, 40, "")],
    ids=["the leader", "another member", "all generations are there", "it had just been heard of"],
)
def test_a_leader_that_is_gone_when_a_generation_has_no_record_had_not_sent_its_assignment(
    leader: str, generation: int, last_commit_s: int, state: str
) -> None:
    before = snapshot(0, {"one": (0,), "two": (1,)})._replace(leader_id=f"{leader}-1")
    after = snapshot(HOUR, {"two": (0, 1)}, generation=generation)
    last_commit = last_commit_in({("orders", 0): [HOUR - MINUTE + last_commit_s * SECOND]})
    (gone,) = (
        fact for fact in facts_of_records([before, after], last_commit) if fact.kind in (Kind.EXPIRED, Kind.LEFT)
    )
    assert (gone.member, gone.state or "") == (before.seats[0].profile.member, state)


def test_how_long_a_leader_takes_to_assign_is_no_silence_of_a_member_that_left() -> None:
    left_ms = HOUR - 32 * SECOND  # as it committed
    for joined_ms, kind in ((HOUR - 30 * SECOND, Kind.LEFT), (HOUR, Kind.EXPIRED)):
        before = snapshot(0, {"one": (0,), "two": (1,)})
        after = snapshot(HOUR, {"two": (0, 1)}, generation=2)._replace(joined_ms=joined_ms)
        facts = facts_of_records([before, after], last_commit_in({("orders", 0): [left_ms]}))
        (gone,) = (fact for fact in facts if fact.kind in (Kind.EXPIRED, Kind.LEFT))
        assert (gone.kind, gone.ts_ms == left_ms) == (kind, kind is Kind.LEFT)


def test_the_time_without_a_coordinator_is_no_silence_of_a_member_that_is_gone_when_it_is_back() -> None:
    first = snapshot(0, {"one": (0,)})
    before, after = (
        snapshot(SECOND, {"one": (0,), "two": (1,)}, generation=2),
        snapshot(HOUR, {"new": (0, 1)}, generation=3),
    )
    stop_ms, load_ms = HOUR - MINUTE, HOUR - 10 * SECOND
    commits = {("orders", 0): every_second(0, stop_ms), ("orders", 1): every_second(0, stop_ms - 2 * MINUTE)}
    found = facts_of_records([first, before, after], last_commit_in(commits), usual_pause=usual_pause_in(commits))
    facts = [
        fact._replace(committed=committed([before], fact.member.member_id, commits, HOUR)) if fact.member else fact
        for fact in found
    ]
    gone = {
        fact.member.member_id: (fact.kind, fact.reason, fact.ts_ms)
        for fact in with_loads(facts, [(stop_ms + 20 * SECOND, load_ms)], lambda _: stop_ms)
        if fact.member is not None and fact.kind in (Kind.LEFT, Kind.EXPIRED)
    }
    assert gone["one-1"] == (Kind.LEFT, UNSEEN, load_ms)
    assert gone["two-1"][1:] != (UNSEEN, load_ms)  # it had stopped committing long before


def test_a_rebalance_after_which_all_is_as_before_is_told_from_one_with_more_partitions() -> None:
    before = snapshot(0, {"one": (0,), "two": (1,)})
    for mine, reason in (((0,), NOTHING_CHANGED), ((0, 2), "")):
        after = snapshot(HOUR, {"one": mine, "two": (1,)}, generation=2)
        facts = facts_of_records([before, after], last_commit_in({}))
        assert [fact.reason for fact in facts if fact.kind is Kind.REQUESTED] == [reason]


def what_replaced(last_commit_ms: int, *, generation: int) -> list[Kind]:
    """What happened to a static member of generation 1 that committed last then, before another process had its instance id."""
    before = snapshot(0, {"one": (0,)}, instance_id="a")
    after = snapshot(HOUR, {"new": (0,)}, instance_id="a", generation=generation)
    last_commit = last_commit_in({("orders", 0): [last_commit_ms]})
    return [fact.kind for fact in facts_of_records([before, after], last_commit) if fact.ts_ms > 0]


def test_a_static_member_that_committed_within_its_session_was_replaced() -> None:
    assert what_replaced(HOUR - SESSION_MS, generation=2) == [Kind.REPLACED, Kind.COMPLETED]


def test_a_static_member_that_had_not_committed_for_longer_than_its_session_had_expired() -> None:
    assert what_replaced(HOUR - 2 * SESSION_MS, generation=2) == [Kind.EXPIRED, Kind.JOINED, Kind.COMPLETED]


def test_a_static_member_that_is_replaced_without_a_new_generation_had_a_session_and_there_was_no_rebalance() -> None:
    assert what_replaced(HOUR - 2 * SESSION_MS, generation=1) == [Kind.REPLACED]


def test_members_that_all_stopped_committing_long_before_a_join_phase_ended_waited_in_it() -> None:
    record = snapshot(0, {"one": (0,), "two": (1,)})
    commits = {
        ("orders", 0): every_second(0, MINUTE),
        ("orders", 1): [*every_second(0, MINUTE - 5 * SECOND), MINUTE + 10 * SECOND],  # just before it joined
    }
    assert quiet_since_ms(record, commits, MINUTE + 10 * SECOND) == MINUTE


def test_members_that_rarely_commit_need_not_have_waited() -> None:
    record = snapshot(0, {"one": (0,)})
    commits = {("orders", 0): [0, 20 * SECOND, 40 * SECOND, MINUTE]}
    assert quiet_since_ms(record, commits, MINUTE + 10 * SECOND) is None


def test_the_usual_pause_is_between_commits_of_a_member_whichever_of_its_partitions_they_are_of() -> None:
    record = snapshot(0, {"one": (0, 1)})
    commits = {("orders", 0): [*range(0, MINUTE, 2 * SECOND)], ("orders", 1): [*range(SECOND, MINUTE, 2 * SECOND)]}
    found = committed([record], "one-1", commits, MINUTE)
    assert found is not None
    assert found.usual_ms == SECOND


def test_a_last_commit_is_early_if_a_timer_would_have_sent_it_later() -> None:
    record = snapshot(0, {"one": (0,)})
    for last_ms, is_early in ((20_880, True), (20_980, False), (16_150, True)):
        found = committed([record], "one-1", {("orders", 0): [1_000, 6_000, 11_002, 16_001, last_ms]}, MINUTE)
        assert (found is not None and found.is_early) == is_early


def test_a_commit_of_a_client_that_is_late_now_and_then_is_not_early_if_it_is_not_late() -> None:
    commits = {("orders", 0): [1_000, 6_400, 11_402, 17_001, 21_950]}
    found = committed([snapshot(0, {"one": (0,)})], "one-1", commits, MINUTE)
    assert found is not None
    assert not found.is_early


def test_after_a_few_commits_of_a_group_nobody_knows_whether_the_last_one_was_early() -> None:
    few = {("orders", 0): [1_000, 6_000, 11_000, 13_000]}
    for commits, is_early in ((few, False), (few | {("orders", 1): [2_000, 7_000]}, True)):
        found = committed([snapshot(0, {"one": (0,), "two": (1,)})], "one-1", commits, MINUTE)
        assert found is not None
        assert found.is_early == is_early


def test_who_leaves_out_partitions_that_have_nothing_new_commits_what_is_new_only() -> None:
    record = snapshot(0, {"one": (0, 1)})
    busy = every_second(SECOND, 20 * SECOND)
    for idle, is_sparse in ((busy, False), (busy[::2], True), (busy[:18], False)):
        found = committed([record], "one-1", {("orders", 0): busy, ("orders", 1): idle}, MINUTE)
        assert found is not None
        assert found.is_sparse == is_sparse


def what_was_gone(assigned_ms: int, session_end_ms: int) -> tuple[Kind, str, int]:
    """How a member was gone that had never committed its partition, which another one had committed every second."""
    records = [
        snapshot(0, {"one": (0,)}),
        snapshot(assigned_ms, {"one": (), "two": (0,)}, generation=2),
        snapshot(session_end_ms, {"one": (0,)}, generation=3),
    ]
    commits = {("orders", 0): every_second(0, assigned_ms - SECOND)}
    found = facts_of_records(records, last_commit_in(commits), usual_pause=usual_pause_in(commits))
    return next((fact.kind, fact.reason, fact.ts_ms) for fact in found if fact.member and fact.ts_ms > assigned_ms)


def test_who_joins_again_between_two_records_with_the_same_topics_has_not_changed_its_subscription() -> None:
    member = Member("one-1", None, "one", "10.0.0.1")
    request = Fact(MINUTE, "billing", Kind.REQUESTED, "log line 1", member)
    for topics, expected in (
        (("orders",), Subscription(("orders",))),
        (("mails", "orders"), Subscription(("mails", "orders"), added=("mails",))),
    ):
        profiles = [(0, Profile(member, 0, 0, ("orders",))), (2 * MINUTE, Profile(member, 0, 0, topics))]
        assert with_subscription(request, profiles).subscription == expected
    assert with_subscription(request, profiles[:1]).subscription is None, "there is no record after it"


def test_who_never_commits_what_others_had_committed_every_second_has_been_silent_all_the_time() -> None:
    assert what_was_gone(MINUTE, MINUTE + SESSION_MS + SECOND) == (Kind.EXPIRED, "", MINUTE + SESSION_MS)


def test_how_a_member_was_gone_that_had_not_yet_had_to_commit_is_unknown() -> None:
    assert what_was_gone(MINUTE, MINUTE + 3 * SECOND) == (Kind.LEFT, UNSEEN, MINUTE + 3 * SECOND)


def records_with_a_successor(*new: str) -> list[Fact]:
    """A member was silent for its session, while the others waited in a phase JOIN that new members had begun."""
    one, two = (Member(f"{name}-1", None, name, "10.0.0.1") for name in ("one", "two"))
    phases = Phases(40 * SECOND, 0, "range", None, None, None)
    facts = [Fact(0, "billing", Kind.JOINED, "record 1", member, is_observed=False) for member in (one, two)]
    facts.append(Fact(MINUTE, "billing", Kind.EXPIRED, "record 2", one, is_observed=False))
    came = [Member(f"{name}-2", None, name, "10.0.0.1") for name in new]
    facts += [Fact(MINUTE, "billing", Kind.JOINED, "record 2", member, is_observed=False) for member in came]
    facts.append(Fact(MINUTE, "billing", Kind.COMPLETED, "record 2", is_observed=False, phases=phases))
    return with_arrivals(facts)


def test_the_only_new_member_of_a_record_joined_when_its_phase_join_began() -> None:
    facts = records_with_a_successor("one")
    assert [fact.ts_ms for fact in facts if fact.kind is Kind.JOINED] == [0, 0, 20 * SECOND]


def test_which_of_two_new_members_began_a_phase_join_is_unknown() -> None:
    facts = records_with_a_successor("one", "three")
    assert [fact.ts_ms for fact in facts if fact.kind is Kind.JOINED] == [0, 0, MINUTE, MINUTE]


def test_each_member_with_another_subscription_asked_for_the_rebalance() -> None:
    records = [snapshot(0, {"one": (0,), "two": (1,)}), snapshot(MINUTE, {"one": (0,), "two": (1,)}, generation=2)]
    seats = records[1].seats
    more = [seat._replace(profile=seat.profile._replace(topics=("orders", "orders-eu"))) for seat in seats]
    found = list(facts_of_records([records[0], records[1]._replace(seats=tuple(more))], last_commit_in({})))
    added = [fact.subscription.added for fact in found if fact.subscription is not None]
    assert added == [("orders-eu",), ("orders-eu",)]


def of_a_group(*kinds: tuple[int, Kind]) -> list[Fact]:
    return [Fact(ts_ms, "billing", kind, f"record {ts_ms}", is_observed=False) for ts_ms, kind in kinds]


def test_a_new_leader_of_its_partition_read_a_group_that_had_members() -> None:
    facts = of_a_group((0, Kind.COMPLETED), (HOUR, Kind.EMPTIED))
    elections = [(MINUTE, 2 * MINUTE), (2 * HOUR, 2 * HOUR + MINUTE)]
    found = [(fact.ts_ms, fact.kind) for fact in with_loads(facts, elections)]
    assert found == [(0, Kind.COMPLETED), (MINUTE, Kind.STOPPING), (2 * MINUTE, Kind.LOADED), (HOUR, Kind.EMPTIED)]


def test_a_broker_that_did_not_say_that_it_stopped_did_so_after_its_last_record() -> None:
    facts = of_a_group((0, Kind.COMPLETED), (2 * MINUTE, Kind.LOADED))
    assert [fact.ts_ms for fact in with_stops(facts, [(MINUTE, 3 * MINUTE)]) if fact.kind is Kind.STOPPING] == [MINUTE]


def test_a_broker_that_said_that_it_stopped_did_so_then() -> None:
    facts = of_a_group((0, Kind.COMPLETED), (MINUTE + SECOND, Kind.STOPPING), (2 * MINUTE, Kind.LOADED))
    assert with_stops(facts, [(MINUTE, 3 * MINUTE)]) == facts


def test_a_broker_that_had_said_so_the_last_time_did_not_say_that_it_stopped_again() -> None:
    before = [(MINUTE, Kind.STOPPING), (MINUTE + 20 * SECOND, Kind.LOADED)]
    facts = of_a_group((0, Kind.COMPLETED), *before, (4 * MINUTE, Kind.LOADED))
    found = with_stops(facts, [(MINUTE, MINUTE + 30 * SECOND), (3 * MINUTE, 5 * MINUTE)])
    assert [fact.ts_ms for fact in found if fact.kind is Kind.STOPPING] == [MINUTE, 3 * MINUTE]


def test_a_broker_that_goes_on_in_its_old_leader_epoch_was_killed_after_the_last_commit_of_all() -> None:
    """As a Kafka does that is back before it is fenced: sessions that end are the last records of the epoch, and later than the load."""
    facts = of_a_group((0, Kind.COMPLETED), (2 * MINUTE, Kind.LOADED))
    found = with_stops(facts, [(3 * MINUTE, 4 * MINUTE)], lambda until_ms: until_ms - 20 * SECOND)
    assert [fact.ts_ms for fact in found if fact.kind is Kind.STOPPING] == [2 * MINUTE - 20 * SECOND]
    assert with_stops(facts, [], lambda _: None) == facts


def test_who_was_first_gone_of_two_in_a_record_with_a_successor_is_unknown() -> None:
    two = Member("two-1", None, "two", "10.0.0.1")
    facts = [
        *records_with_a_successor("one"),
        Fact(MINUTE, "billing", Kind.EXPIRED, "record 2", two, is_observed=False),
    ]
    again = [fact._replace(ts_ms=MINUTE) if fact.source == "record 2" else fact for fact in facts]
    assert [fact.ts_ms for fact in with_arrivals(again) if fact.kind is Kind.JOINED] == [0, 0, MINUTE]


def test_the_last_commit_of_any_partition_is_the_same_however_often_and_in_which_order_it_is_asked_for() -> None:
    last = LastOfAll([[10, 40], [], [25]])
    asked = [30, 31, 9, 40, 39, 1_000, 24, 10, 30]
    assert [last(until_ms) for until_ms in asked] == [25, 25, None, 40, 25, 40, 10, 10, 25]


def test_without_commits_there_is_no_last_one() -> None:
    assert LastOfAll([[], []])(1_000) is None
