"""The strategies on cases computed by hand; the arithmetic stands in `docs/design/what-if.md`."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from kshim_pipeline.schemas import GENERATIONS, MEMBERSHIPS
from kshim_pipeline.what_if.assignors import moved, range_owners, sticky_owners
from kshim_pipeline.what_if.assumptions import assumptions
from kshim_pipeline.what_if.barrier import eager, eager_static, server_side
from kshim_pipeline.what_if.changes import Change, Settings, Start, detect, within
from kshim_pipeline.what_if.compare import STRATEGIES, replay, settings_of, strategy_costs
from kshim_pipeline.what_if.incremental import consumer_protocol, cooperative
from kshim_pipeline.what_if.membership_changes import GroupChanges
from kshim_pipeline.what_if.totals import Totals
from kshim_pipeline.what_if.zookeeper import zookeeper_watchers

SETTINGS = Settings()
"""The numbers of the cases: heartbeats 3000, poll 100, sync 20, revoke 20, session 45000 ms; 5000 for KIP-848."""

TWO_MEMBERS = [Change(0, "partitions", partitions=4), Change(0, "join", "a"), Change(10_000, "join", "b")]
CRASH = [*TWO_MEMBERS, Change(20_000, "crash", "b")]
RESTART = [*TWO_MEMBERS, Change(20_000, "restart", "b", away_ms=5_000)]

BY_HAND = [
    # strategy, changes -> notifications, generations, moved, stopped partition ms, split views
    (zookeeper_watchers, TWO_MEMBERS, Totals(1, 2, 2, 160, 0)),
    (server_side, TWO_MEMBERS, Totals(1, 2, 2, 0, 0)),
    (eager, TWO_MEMBERS, Totals(1, 2, 2, 80, 0)),
    (eager_static, TWO_MEMBERS, Totals(1, 2, 2, 80, 0)),
    (cooperative, TWO_MEMBERS, Totals(2, 3, 2, 3_240, 0)),
    (consumer_protocol, TWO_MEMBERS, Totals(1, 2, 2, 5_040, 0)),
    (zookeeper_watchers, CRASH, Totals(2, 3, 4, 160 + 2 * 60 + 2 * 6_060, 0)),
    (server_side, CRASH, Totals(2, 3, 4, 2 * 46_600, 0)),
    (eager, CRASH, Totals(2, 3, 4, 80 + 2 * 20 + 2 * 46_620, 0)),
    (cooperative, CRASH, Totals(3, 4, 4, 3_240 + 2 * 46_620, 0)),
    (consumer_protocol, CRASH, Totals(2, 3, 4, 5_040 + 2 * 47_500, 0)),
    (eager, RESTART, Totals(3, 4, 6, 80 + 2 * 20 + 2 * 1_620 + 4 * 20, 0)),
    (eager_static, RESTART, Totals(1, 2, 2, 80 + 2 * 5_000, 0)),
]


@pytest.mark.parametrize(("strategy", "changes", "expected"), BY_HAND)
def test_a_small_case_costs_what_was_computed_by_hand(
    strategy: Callable[[list[Change], Settings], Totals], changes: list[Change], expected: Totals
) -> None:
    assert strategy(changes, SETTINGS) == expected


def test_under_watchers_changes_close_to_each_other_split_the_views() -> None:
    together = [Change(0, "partitions", partitions=4), *(Change(0, "join", name) for name in "ab")]
    later = [Change(60_000, "join", "c"), Change(60_010, "join", "d")]
    # c: two members are told; 20 ms for the watch and 2 x 2 writes of 5 ms; d comes within these 40 ms, so they back off.
    # d: three members are told; 20 + 2 x 1 x 5 = 30 ms.
    before = zookeeper_watchers(together, SETTINGS)
    after = zookeeper_watchers(together + later, SETTINGS)
    assert after.split_views - before.split_views == 2
    assert after.stopped_partition_ms - before.stopped_partition_ms == 4 * 2_040 + 4 * 30


def test_a_barrier_combines_changes_before_its_join_phase_ends_and_watchers_do_not() -> None:
    start = [Change(0, "partitions", partitions=6), Change(0, "join", "a")]
    burst = [Change(10_000 + index * 100, "join", name) for index, name in enumerate("bcdef")]
    assert eager(start + burst, SETTINGS).generations == 2
    assert zookeeper_watchers(start + burst, SETTINGS).generations == 6


def test_static_members_that_stay_away_too_long_are_removed() -> None:
    gone = [*TWO_MEMBERS, Change(20_000, "restart", "b", away_ms=50_000)]
    noticed = detect(gone, session_ms=45_000, survives_restart_ms=45_000)
    assert [(event.detected_ms, event.effect) for event in noticed[-2:]] == [(65_000, "drop"), (70_000, "add")]
    assert eager_static(gone, SETTINGS).generations == 4


members = st.sets(st.sampled_from("abcdefgh"), min_size=1)


@given(members, members, st.integers(0, 40))
def test_sticky_owners_are_balanced_and_keep_what_balance_allows(old: set[str], new: set[str], count: int) -> None:
    before = range_owners(old, count)
    after = sticky_owners(new, count, before)
    shares = [after.count(member) for member in new]
    assert sum(shares) == count
    assert max(shares) - min(shares) <= 1
    kept = count - moved(before, after)
    held = sorted((before.count(member) for member in new), reverse=True)
    share, extra = divmod(count, len(new))
    assert kept == sum(min(have, share + (place < extra)) for place, have in enumerate(held))


changes = st.lists(
    st.builds(
        Change,
        st.integers(0, 200_000),
        st.sampled_from(["join", "leave", "crash", "restart"]),
        st.sampled_from("abcde"),
        st.integers(0, 100_000),
    ),
    max_size=12,
).map(lambda found: [Change(0, "partitions", partitions=7), *sorted(found)])


@given(changes)
def test_no_strategy_counts_below_zero_nor_needs_more_rounds_than_there_were_changes(found: list[Change]) -> None:
    noticed = 2 * len(found)  # a restart is two
    for strategy in (zookeeper_watchers, server_side, eager, eager_static, cooperative, consumer_protocol):
        totals = strategy(found, SETTINGS)
        assert min(vars(totals).values()) >= 0
        assert totals.generations <= noticed * (2 if strategy is cooperative else 1)


def test_a_short_session_has_short_heartbeats() -> None:
    settings = settings_of(GroupChanges("g", CRASH, 3_000, None))
    stopped = {row["strategy"]: row["stopped_partition_s"] for row in replay("g", CRASH, settings)}
    # Heartbeats every second: b joins, two partitions stop for 20 + 500 each; the crash, for 3,000 + 500 each.
    assert stopped["consumer protocol"] == pytest.approx(8.040)


def test_every_strategy_says_what_it_assumes() -> None:
    said = assumptions()
    assert list(said) == list(STRATEGIES)
    assert "heartbeats every 3 s" in said["classic, eager"]
    assert "heartbeats every 2 s" in assumptions(SETTINGS._replace(heartbeat_interval_ms=2_000))["classic, eager"]


@given(st.lists(st.sampled_from(["join", "leave", "crash", "restart"]), min_size=2, max_size=8), st.data())
def test_what_two_parts_of_a_history_cost_is_what_the_whole_costs(kinds: list[str], data: st.DataObject) -> None:
    start = [Change(0, "partitions", partitions=12), *(Change(1, "join", name) for name in "abc")]
    found = [
        Change(number * 300_000, kind, data.draw(st.sampled_from("abcde")), away_ms=50_000)  # type: ignore[arg-type]
        for number, kind in enumerate(kinds, 1)
    ]
    cut_ms = data.draw(st.integers(1, len(kinds))) * 300_000
    for strategy in (
        zookeeper_watchers,
        server_side,
        eager,
        eager_static,
    ):  # those whose owners follow from the members
        before, first = within([*start, *found], None, cut_ms)
        assert before == Start()
        parts = [strategy(first, SETTINGS, before)]
        rest, second = within([*start, *found], cut_ms, None)
        parts.append(strategy(second, SETTINGS, rest))
        whole = strategy([*start, *found], SETTINGS)
        assert {name: sum(vars(each)[name] for each in parts) for name in vars(whole)} == pytest.approx(vars(whole))


def test_what_was_before_a_part_of_a_history_costs_nothing() -> None:
    start, found = within(CRASH, 15_000, 60_000)
    assert (start, found) == (Start(frozenset("ab"), 4), CRASH[-1:])
    assert eager(found, SETTINGS, start) == Totals(1, 1, 2, 2 * 20 + 2 * 46_620, 0)
    assert consumer_protocol(found, SETTINGS, start) == Totals(1, 1, 2, 2 * 47_500, 0)
    assert within(CRASH, 15_000, 20_000)[1] == []


def a_fleet(spark: SparkSession, sessions: dict[str, int | None]) -> tuple[DataFrame, DataFrame]:
    """Memberships and generations of groups that each go through CRASH."""

    def row(schema: StructType, group: str, ts_ms: int, **known: object) -> dict[str, object]:
        always = {"incarnation": 0, "ordinal": 0, "source": "events", "group_id": group, "group_type": "classic"}
        return dict.fromkeys(schema.fieldNames()) | always | {"generation_id": 1, "ts_ms": ts_ms} | known

    memberships = [
        row(MEMBERSHIPS, group, ts_ms, change=change, owner=owner, member_id=owner, session_timeout_ms=session_ms)
        | {"left_reason": "session_timeout" if change == "left" else None}
        for group, session_ms in sessions.items()
        for ts_ms, change, owner in (
            (0, "joined", "a"),
            (10_000, "joined", "b"),
            (20_000 + (session_ms or 0), "left", "b"),
        )
    ]
    generations = [row(GENERATIONS, group, 0, partitions=4, members=1, state="Stable") for group in sessions]
    return spark.createDataFrame(memberships, MEMBERSHIPS), spark.createDataFrame(generations, GENERATIONS)


def test_a_fleet_is_replayed_group_by_group(spark: SparkSession) -> None:
    fleet = a_fleet(spark, {"g1": 45_000, "g2": 45_000, "g3": 10_000})
    costs = strategy_costs(*fleet).collect()
    by_key = {(row.group, row.strategy): row for row in costs}
    assert len(by_key) == len(costs) == 3 * len(STRATEGIES)
    assert by_key["g1", "classic, eager"].stopped_partition_s == by_key["g2", "classic, eager"].stopped_partition_s
    assert by_key["g1", "classic, eager"].stopped_partition_s == pytest.approx(93.360)
    assert by_key["g3", "classic, eager"].stopped_partition_s == pytest.approx(23.360)  # noticed 35 s earlier
    assert by_key["g1", "zookeeper watchers"].notifications == 2


def test_a_day_of_a_fleet_costs_what_happened_on_it(spark: SparkSession) -> None:
    fleet = a_fleet(spark, {"g1": 45_000})
    of_crash = {row.strategy: row for row in strategy_costs(*fleet, since_ms=15_000, until_ms=30_000).collect()}
    assert of_crash["classic, eager"].stopped_partition_s == pytest.approx(93.280)
    assert of_crash["classic, eager"].changes == 1
    assert strategy_costs(*fleet, since_ms=30_000).collect() == []
