"""What is known of a group as swim lanes: who owned what, also through the restart of a static member, and which time is drawn."""

from __future__ import annotations

import pytest

from kshim.drawing import BarKind, Picture
from kshim.explain.facts import Fact, Kind, Member, Phases
from kshim_pipeline.diagnosis.facts import Entry
from kshim_pipeline.report.incidents import incident_object
from kshim_pipeline.report.pictures import picture_of
from tests.page.groups import MINUTE, START
from tests.pipeline.report_pages import a_page, a_row, ownership


def bars_of(picture: Picture, lane: str) -> list[str]:
    """The kinds of a lane's bars, in order of time."""
    (found,) = [each for each in (*picture.members, *picture.partitions) if each.name == lane]
    return [bar.kind.keyword for bar in sorted(found.bars, key=lambda bar: bar.from_ms)]


def test_the_culprit_comes_first_and_its_partitions_had_no_living_owner() -> None:
    picture = a_page().pictures["billing"]
    assert picture.members[0].name == "bill-2@10.0.0.2"
    assert picture.members[0].is_culprit
    assert BarKind.UNOWNED.keyword in bars_of(picture, "orders-1")
    assert BarKind.UNOWNED.keyword not in bars_of(picture, "orders-0")


def test_the_lag_of_a_partition_stands_in_its_lane() -> None:
    notes = {lane.name: lane.note for lane in a_page().pictures["billing"].partitions}
    assert notes == {"orders-0": "lag 0", "orders-1": "lag 12,345", "orders-2": "lag 3"}


def test_a_static_member_that_was_restarted_still_owns_its_partitions() -> None:
    before, after = Member("m-1", "static", "c", "h"), Member("m-2", "static", "c", "h")
    facts = [
        Fact(START, "g", Kind.JOINED, "1", before),
        Fact(START + 20, "g", Kind.COMPLETED, "2", phases=Phases(10, 10, "range", "m-1", None, None)),
        Fact(START + MINUTE, "g", Kind.REPLACED, "3", after, other_id="m-1"),
    ]
    row = {
        "topic": "t",
        "partition": 0,
        "owner": "static",
        "member_id": "m-1",
        "from_ts_ms": START + 20,
        "to_ts_ms": None,
    }
    entries = [Entry("g", fact, None) for fact in facts]
    picture = picture_of("g", entries, [], ownership=[row], now_ms=START + 2 * MINUTE)
    assert set(bars_of(picture, "t-0")) == {"owned"}


@pytest.mark.parametrize(("end", "until_ms"), [(Kind.LEFT, 4 * MINUTE), (Kind.EXPIRED, 5 * MINUTE)])
def test_a_group_whose_members_left_ends_there_and_one_that_lost_them_goes_on_without_owners(
    end: Kind, until_ms: int
) -> None:
    member = Member("slow-2", None, "slow", "h")
    facts = [Fact(START, "g", Kind.JOINED, "1", member), Fact(START + 4 * MINUTE, "g", end, "2", member)]
    entries = [Entry("g", fact, None) for fact in facts]
    picture = picture_of("g", entries, [], ownership=[ownership()[1]], now_ms=START + 5 * MINUTE)
    assert picture.to_ms == START + until_ms
    assert bars_of(picture, "orders-1")[-1] == "unowned"


def test_of_a_group_with_many_rebalances_the_time_of_its_worst_incident_is_drawn() -> None:
    member = Member("m", None, "c", "h")
    facts = [Fact(START, "g", Kind.JOINED, "0", member)]
    for number in range(1, 60):
        at_ms = START + number * MINUTE
        facts.append(Fact(at_ms, "g", Kind.REQUESTED, f"{number}", member))
        facts.append(
            Fact(at_ms + 20, "g", Kind.COMPLETED, f"{number}b", phases=Phases(10, 10, "range", "m", None, None))
        )
    worst = incident_object(a_row("killed", "g", from_ms=START + 30 * MINUTE, to_ms=START + 32 * MINUTE))
    entries = [Entry("g", fact, None) for fact in facts]
    picture = picture_of("g", entries, [worst], now_ms=START + 90 * MINUTE)
    assert (picture.from_ms, picture.to_ms) == (START + 30 * MINUTE - 10_000, START + 32 * MINUTE + 10_000)
    assert len(picture.bands) == 3
    whole = picture_of("g", entries[:60], [worst], now_ms=START + 90 * MINUTE)
    assert (whole.from_ms, whole.to_ms) == (START, START + 90 * MINUTE)
