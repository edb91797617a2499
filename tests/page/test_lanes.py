"""From what is known of a group to its lanes."""

from __future__ import annotations

from kshim.drawing import Bar, BarKind, Lane, MarkKind, Picture
from kshim.explain.facts import Fact, Kind, Member
from kshim.page import GroupNow, Owners
from kshim.page.lanes import picture
from tests.page.groups import MINUTE, SECOND, START, a_turn, billing

LATE = START + MINUTE
DEAD = START + 4 * MINUTE


def drawn(group: GroupNow, culprit: str = "bill-2@10.0.0.2", **window: int) -> Picture:
    return picture(group, href=lambda number: f"#{number}", culprits=frozenset({culprit}), **window)


def lane(shown: Picture, name: str) -> Lane:
    return next(each for each in (*shown.members, *shown.partitions) if each.name == name)


def bars(shown: Lane, kind: BarKind) -> list[Bar]:
    return [bar for bar in shown.bars if bar.kind is kind]


def test_the_culprit_comes_first() -> None:
    shown = drawn(billing())
    assert [(each.name, each.is_culprit) for each in shown.members] == [
        ("bill-2@10.0.0.2", True), ("bill-1@10.0.0.1", False), ("bill-3@10.0.0.3", False),
    ]  # fmt: skip


def test_who_let_the_others_wait_is_late_until_it_came() -> None:
    (late,) = bars(lane(drawn(billing()), "bill-2@10.0.0.2"), BarKind.LATE)
    assert (late.from_ms, late.to_ms) == (LATE, LATE + 40 * SECOND)


def test_the_others_wait_from_when_they_came() -> None:
    waiting = bars(lane(drawn(billing()), "bill-1@10.0.0.1"), BarKind.WAITING)
    assert (waiting[1].from_ms, waiting[1].to_ms) == (LATE + 900, LATE + 40_000)
    assert not bars(lane(drawn(billing()), "bill-1@10.0.0.1"), BarKind.LATE)


def test_nobody_is_late_where_all_learn_of_the_rebalance_at_the_same_time() -> None:
    shown = drawn(billing(), from_ms=DEAD, to_ms=DEAD + 5 * SECOND)
    assert not [bar for each in shown.members for bar in each.bars if bar.kind is BarKind.LATE]


def test_a_member_whose_session_expired_was_silent_since_its_last_request() -> None:
    shown = lane(drawn(billing()), "bill-2@10.0.0.2")
    (silent,) = bars(shown, BarKind.SILENT)
    assert (silent.from_ms, silent.to_ms) == (DEAD - 45 * SECOND, DEAD)
    assert [mark.kind for mark in shown.marks] == [MarkKind.JOINED, MarkKind.GONE]


def test_without_its_last_request_it_was_silent_for_its_session_timeout() -> None:
    found = billing()
    facts = [fact._replace(activity=None) for fact in found.facts]
    (silent,) = bars(lane(drawn(billing(facts=facts, sessions={"slow-2": 6_000})), "bill-2@10.0.0.2"), BarKind.SILENT)
    assert (silent.from_ms, silent.to_ms) == (DEAD - 6_000, DEAD)


def test_a_member_that_waits_for_an_answer_is_not_silent() -> None:
    found = billing()
    waiting = found.facts[5].activity
    assert waiting is not None
    facts = [
        *found.facts[:5],
        found.facts[5]._replace(activity=waiting._replace(last_request_ms=LATE + 40_000)),
        *found.facts[6:],
    ]
    turns = [found.turns[0], found.turns[1]._replace(joined_ms=LATE + 100_000, ended_ms=LATE + 100_080), found.turns[2]]
    (silent,) = bars(lane(drawn(billing(facts=facts, turns=turns)), "bill-2@10.0.0.2"), BarKind.SILENT)
    assert silent.from_ms == LATE + 100_000


def test_a_partition_has_no_owner_from_the_last_sign_of_one_to_the_next_assignment() -> None:
    shown = drawn(billing())
    (gap,) = bars(lane(shown, "orders-1"), BarKind.UNOWNED)
    assert (gap.from_ms, gap.to_ms) == (DEAD - 45 * SECOND, DEAD + 3_030)
    assert not bars(lane(shown, "orders-0"), BarKind.UNOWNED)
    assert shown.partitions[0].name == "orders-1"


def test_each_owner_of_a_partition_is_named_and_the_last_one_goes_on() -> None:
    owned = bars(lane(drawn(billing()), "orders-2"), BarKind.OWNED)
    assert [bar.text for bar in owned] == ["belongs to bill-2@10.0.0.2", "belongs to bill-3@10.0.0.3"]
    assert owned[-1].to_ms is None


def test_partitions_stand_still_in_rebalances_unless_the_assignor_is_cooperative() -> None:
    assert len(bars(lane(drawn(billing()), "orders-0"), BarKind.PAUSED)) == 2
    turns = [turn._replace(protocol="cooperative-sticky") for turn in billing().turns]
    assert not bars(lane(drawn(billing(turns=turns)), "orders-0"), BarKind.PAUSED)


def test_a_client_that_comes_back_has_one_lane_and_two_at_a_time_have_two() -> None:
    def joined(at_ms: int, member_id: str) -> Fact:
        return Fact(at_ms, "g", Kind.JOINED, "x", Member(member_id, None, "c", "h"))

    loop = [joined(START, "c-1"), joined(START + 1, "c-1")._replace(kind=Kind.LEFT), joined(START + 2, "c-2")]
    twins = [joined(START, "c-1"), joined(START + 1, "c-2")]
    for facts, count in ((loop, 1), (twins, 2)):
        shown = drawn(billing(facts=facts, members=[], turns=[], owners=[], offsets=[]))
        assert [each.name for each in shown.members] == ["c@h"] * count


def test_lag_stands_at_the_end_of_a_partition() -> None:
    assert lane(drawn(billing()), "orders-1").note == "lag 12,345"


def test_a_rebalance_that_is_open_reaches_until_now() -> None:
    turn = a_turn(4, START + 19 * MINUTE, outcome=None, ended_ms=None, joined_ms=None)
    shown = drawn(billing(turns=[*billing().turns, turn], state="PreparingRebalance"))
    assert shown.bands[-1].to_ms is None
    assert bars(lane(shown, "bill-1@10.0.0.1"), BarKind.WAITING)[-1].to_ms == START + 20 * MINUTE


def test_of_two_hundred_members_those_that_stand_out_are_shown() -> None:
    facts = [Fact(START, "g", Kind.JOINED, "x", Member(f"m-{n}", None, f"m{n}", "h")) for n in range(200)]
    facts.append(facts[150]._replace(ts_ms=START + 9, kind=Kind.EXPIRED))
    shown = drawn(billing(facts=facts, members=[], turns=[], owners=[]), culprit="m77@h")
    assert [each.name for each in shown.members[:2]] == ["m77@h", "m150@h"]
    assert len(shown.members) + shown.members_omitted == 200


def test_nothing_is_known() -> None:
    nothing = billing(facts=[], turns=[], owners=[], members=[], offsets=[], incidents=[], commits={})
    assert (drawn(nothing).members, drawn(nothing).partitions) == ((), ())


def test_what_members_have_now_needs_no_record() -> None:
    shown = drawn(billing(owners=[Owners(START, {})]))
    assert bars(lane(shown, "orders-0"), BarKind.OWNED)[-1].text == "belongs to bill-1@10.0.0.1"


def test_the_lane_of_a_member_that_is_gone_says_how_and_when() -> None:
    shown = drawn(billing())
    gone = lane(shown, "bill-2@10.0.0.2")
    assert (gone.note, gone.note_ms) == ("removed", DEAD)
    assert (lane(shown, "bill-1@10.0.0.1").note, lane(shown, "bill-1@10.0.0.1").note_ms) == ("", None)
