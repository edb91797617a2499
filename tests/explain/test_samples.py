"""What samples of a group add to its records: who came and was gone when, between two of them."""

from __future__ import annotations

from kshim.explain.facts import Fact, Kind, Member
from kshim.explain.sources.records import Commits, Snapshot, facts_of_records, last_commit_in, snapshot_of
from kshim.explain.sources.samples import Looks, Presence, Sample
from kshim_protocol.codec import codec
from kshim_protocol.internal.consumer import ConsumerProtocolAssignment, ConsumerProtocolSubscription, TopicPartition
from kshim_protocol.internal.group_metadata import GroupMetadataValue, MemberMetadata
from tests.explain.story import MINUTE, SESSION_MS

JOINING = "PreparingRebalance"
SYNCING = "CompletingRebalance"


def seen(*looks: tuple[int, str, str]) -> Presence:
    """What was seen of a group: when, its state, and the ids of its members, a letter each."""
    times = Looks()
    presence = Presence(times)
    for ts_ms, state, ids in looks:
        presence.add(Sample(ts_ms, "g", state, tuple(Member(each, None, each, "h") for each in ids)))
        times.add(ts_ms)
    return presence


def record(ts_ms: int, generation: int, ids: str, *, joined_ms: int = 0, instance_id: str | None = None) -> Snapshot:
    """A record of a group. The last of its members has the instance id, and owns partition 0."""
    members = tuple(
        MemberMetadata(
            member_id=each,
            group_instance_id=instance_id if each == ids[-1] else None,
            client_id=each,
            client_host="/h",
            rebalance_timeout=5 * MINUTE,
            session_timeout=SESSION_MS,
            subscription=_SUBSCRIPTION,
            assignment=_ASSIGNMENT if each == ids[-1] else b"",
        )
        for each in ids
    )
    value = GroupMetadataValue(
        protocol_type="consumer",
        generation=generation,
        protocol="range",
        leader="a",
        current_state_timestamp=joined_ms or ts_ms,
        members=members,
    )
    return snapshot_of(ts_ms, "g", f"record {ts_ms}", value)


_SUBSCRIPTION = b"\0\0" + codec(ConsumerProtocolSubscription, 0).build(ConsumerProtocolSubscription(topics=("orders",)))
_ASSIGNMENT = b"\0\0" + codec(ConsumerProtocolAssignment, 0).build(
    ConsumerProtocolAssignment(assigned_partitions=(TopicPartition(topic="orders", partitions=(0,)),))
)


def facts_of(presence: Presence, *records: Snapshot, commits: Commits | None = None) -> list[Fact]:
    """What happened after the first record."""
    found = facts_of_records(records, last_commit_in(commits or {}), presence)
    return [fact for fact in found if fact.source != records[0].source]


def times_of(facts: list[Fact]) -> list[tuple[str, str, int]]:
    """What happened, to whom, when."""
    return [(fact.kind.value, "" if fact.member is None else fact.member.member_id, fact.ts_ms) for fact in facts]


def test_a_departure_has_the_time_at_which_it_was_seen_and_a_join_phase_its_length() -> None:
    presence = seen((0, "Stable", "ab"), (10_000, JOINING, "a"), (40_000, SYNCING, "a"), (45_000, "Stable", "a"))
    left, completed = facts_of(presence, record(1, 1, "ab"), record(42_000, 2, "a", joined_ms=39_000))
    assert (left.kind, left.ts_ms) == (Kind.LEFT, 10_000)
    assert completed.phases is not None
    assert (completed.phases.join_ms, completed.phases.sync_ms) == (29_000, 3_000)


def test_who_joins_while_the_others_are_waited_for_came_when_it_was_seen() -> None:
    presence = seen((10_000, JOINING, "ab"), (12_000, JOINING, "abc"), (20_000, "Stable", "abc"))
    facts = facts_of(presence, record(1, 1, "ab"), record(19_000, 2, "abc", joined_ms=18_990))
    assert ("joined", "c", 12_000) in times_of(facts)


def test_who_was_still_a_member_when_the_others_joined_again_and_never_commits_has_expired() -> None:
    presence = seen((10_000, JOINING, "abc"), (40_000, JOINING, "ac"), (41_000, "Stable", "ac"))
    facts = facts_of(presence, record(1, 1, "ab"), record(40_500, 2, "ac", joined_ms=40_400))
    assert times_of(facts)[:2] == [("joined", "c", 10_000), ("expired", "b", 40_000)]


def test_what_a_sample_shows_may_have_happened_since_the_one_before() -> None:
    presence = seen((9_000, "Stable", "ab"), (10_000, JOINING, "a"), (12_000, "Stable", "a"))
    (left, _) = facts_of(presence, record(1, 1, "ab"), record(11_000, 2, "a", joined_ms=10_900))
    assert (left.ts_ms, left.late_ms) == (10_000, 1_000)


def test_a_broker_was_away_when_nobody_could_look() -> None:
    looks = Looks()
    for ts_ms in (1_000, 2_000, 3_000, 20_000, 21_000, 60_000):
        looks.add(ts_ms)
    assert looks.gap(2_500, 21_500) == (3_000, 20_000)
    assert looks.gap(500, 3_500) == (500, 3_500)


def test_what_no_look_shows_happened_between_two_looks_that_are_near_to_each_other() -> None:
    for looked_ms, expected in (
        (10_000, [("joined", "c", 10_900, 900), ("expired", "b", 10_900, 900)]),
        (8_000, [("expired", "b", 5_000, 0), ("joined", "c", 11_000, 0)]),
    ):
        presence = seen((looked_ms - 5_000, "Stable", "ab"), (looked_ms, "Stable", "ab"), (12_000, "Stable", "ac"))
        records = [record(-90_000, 1, "ab"), record(11_000, 2, "ac", joined_ms=10_900)]
        found = facts_of(presence, *records, commits={("orders", 0): (-40_000,)})
        assert [(*each, fact.late_ms) for each, fact in zip(times_of(found), found, strict=True)][:2] == expected


def test_a_static_member_that_another_process_replaced_without_a_rebalance_was_replaced_at_that_time() -> None:
    records = [record(1, 1, "ab", instance_id="i"), record(15_500, 1, "ac", instance_id="i")]
    (replaced,) = facts_of(Presence(), *records)
    assert (replaced.kind, replaced.ts_ms, replaced.is_observed) == (Kind.REPLACED, 15_500, True)


def test_who_commits_while_the_others_wait_and_is_gone_has_left() -> None:
    presence = seen((10_000, JOINING, "abc"), (15_000, JOINING, "ac"), (16_000, "Stable", "ac"))
    commits = {("orders", 0): (5_000, 14_900)}
    facts = facts_of(presence, record(1, 1, "ab"), record(15_500, 2, "ac", joined_ms=15_400), commits=commits)
    assert ("left", "b", 15_000) in times_of(facts)


def test_who_takes_an_instance_id_is_a_replacement_only_if_its_member_was_still_there() -> None:
    for gone_ms, expected in (
        (12_000, [("replaced", "c", 12_000)]),
        (10_000, [("left", "b", 10_000), ("joined", "c", 12_000)]),
    ):
        there = "a" if gone_ms < 12_000 else "ab"
        presence = seen((10_000, JOINING, there), (12_000, JOINING, "ac"), (16_000, "Stable", "ac"))
        records = [record(1, 1, "ab", instance_id="i"), record(15_500, 2, "ac", joined_ms=15_400, instance_id="i")]
        assert times_of(facts_of(presence, *records))[:-1] == expected
