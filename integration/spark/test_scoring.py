"""The counting itself: who is paired with whom, and what counts as right."""

from __future__ import annotations

from pathlib import Path

from integration.incidents.clock import Clock, Pace
from integration.incidents.play import Plan, Played
from integration.incidents.truth import Accident, Cause, Late, Play, Subject, SubjectKind, Truth
from integration.spark.page import page
from integration.spark.scoring import MISSED, Found, Run, score

ROOT = Path(__file__).parents[2]


def a_truth(number: int, start_ms: int, *groups: str, cause: Cause = Cause.KILLED, client: str = "a") -> Truth:
    subject = Subject(SubjectKind.CLIENT, (client,))
    return Truth(number, cause, "", groups, subject, start_ms, start_ms + 1_000)


def a_finding(from_ms: int, *groups: str, cause: str = "killed", clients: str = "a", subject: str = "client") -> Found:
    return Found(frozenset(groups), from_ms, from_ms + 1_000, cause, subject, frozenset(clients), None)


def a_play(*truths: Truth, accidents: tuple[Accident, ...] = ()) -> Play:
    return Play(truths, accidents, 1_000_000)


def test_a_correct_diagnosis_counts_as_right() -> None:
    assert score(a_play(a_truth(1, 10_000, "g")), [a_finding(10_500, "g")]).figures == (1, 1, 1, 1)


def test_another_group_or_time_is_another_incident() -> None:
    of = score(a_play(a_truth(1, 10_000, "g")), [a_finding(10_000, "h"), a_finding(50_000, "g")])
    assert of.figures == (0, 0, 0, 0)
    assert of.confusions == {("killed", MISSED): 1, (MISSED, "killed"): 2}


def test_the_cause_may_be_right_and_the_member_wrong_or_the_other_way_round() -> None:
    truths = a_play(a_truth(1, 10_000, "g"), a_truth(2, 10_000, "h"))
    of = score(truths, [a_finding(10_000, "g", clients="b"), a_finding(10_000, "h", cause="paused")])
    assert of.figures == (0.5, 0.5, 0.5, 0.5)


def test_exactly_the_responsible_clients_have_to_be_named() -> None:
    assert score(a_play(a_truth(1, 10_000, "g")), [a_finding(10_000, "g", clients="ab")]).figures == (1, 1, 0, 0)


def test_two_findings_about_one_truth_are_one_right_and_one_wrong() -> None:
    of = score(a_play(a_truth(1, 10_000, "g")), [a_finding(10_000, "g", cause="paused"), a_finding(10_400, "g")])
    assert of.figures == (1, 0.5, 1, 0.5)


def test_a_finding_counts_for_one_truth_only() -> None:
    of = score(a_play(a_truth(1, 10_000, "g"), a_truth(2, 10_900, "g")), [a_finding(10_500, "g")])
    assert of.figures == (0.5, 1, 0.5, 1)


def test_what_began_a_slow_rebalance_may_be_found_besides_what_made_it_slow_and_need_not_be() -> None:
    slow = a_truth(1, 10_000, "g", cause=Cause.SLOW_POLL)
    play = a_play(slow)._replace(triggers=(a_truth(1, 10_000, "g", cause=Cause.SCALE_UP, client="new"),))
    right = a_finding(10_000, "g", cause="slow_poll")
    assert score(play, [right, a_finding(10_100, "g", cause="scale_up", clients="n")]).figures == (1, 1, 1, 1)
    assert score(play, [right]).figures == (1, 1, 1, 1)
    assert score(play, [a_finding(10_100, "g", cause="scale_up", clients="n")]).figures == (0, 0, 0, 0)


def test_incidents_near_an_accident_are_left_out_on_both_sides() -> None:
    accident = Accident("g", "z", 10_200)
    of = score(a_play(a_truth(1, 10_000, "g"), accidents=(accident,)), [a_finding(10_000, "g", cause="paused")])
    assert (of.truths, of.found, of.left_out) == (0, 0, 1)


def test_a_finding_whose_truth_is_left_out_is_left_out_too() -> None:
    play = a_play(a_truth(1, 10_000, "g"))._replace(late=(Late(9_000, 9_400),))
    long = a_finding(10_800, "g", cause="slow_poll")._replace(to_ms=30_000)
    of = score(play, [long])
    assert (of.truths, of.found, of.left_out) == (1, 1, 0)
    nearer = play._replace(late=(Late(9_000, 9_600),))
    of = score(nearer, [long])
    assert (of.truths, of.found, of.left_out) == (0, 0, 1)


def test_whatever_else_is_found_of_a_truth_that_is_left_out_is_left_out_too() -> None:
    long = a_truth(1, 10_000, "g")._replace(end_ms=60_000)
    play = a_play(long, accidents=(Accident("g", "z", 10_200),))
    twice = [a_finding(10_000, "g"), a_finding(40_000, "g", cause="paused")]
    of = score(play, twice)
    assert (of.truths, of.found, of.left_out) == (0, 0, 2)
    elsewhere = score(play, [*twice, a_finding(90_000, "g"), a_finding(40_000, "h")])
    assert (elsewhere.found, elsewhere.left_out) == (2, 2)


def test_a_time_when_the_player_was_late_is_left_out() -> None:
    play = a_play(a_truth(1, 10_000, "g"), a_truth(2, 90_000, "h"))._replace(late=(Late(10_900, 11_400),))
    of = score(play, [a_finding(10_000, "g", cause="slow_poll"), a_finding(90_000, "h")])
    assert (of.truths, of.figures) == (1, (1, 1, 1, 1))


def test_findings_after_the_play_are_ignored() -> None:
    assert score(a_play(a_truth(1, 10_000, "g")), [a_finding(10_000, "g"), a_finding(1_000_000, "g")]).found == 1


def test_the_page_in_the_docs_is_of_this_form() -> None:
    of = score(a_play(a_truth(1, 10_000, "g")), [a_finding(10_000, "g")])
    text = page(
        [Run("kshim", Plan(1, 2, 1, 5), Played(1, 0, 0, 3.0, 0.0, 0.0, Clock(Pace.BROKER, 5, 0, 0)), {"events": of})],
        command="COMMAND",
    )
    assert "| 1 | 1 | 100.0% | 100.0% | 100.0% | 100.0% |" in text
    written = (ROOT / "docs" / "diagnosis-scores.md").read_text().splitlines()
    headings = [line for line in text.splitlines() if line.startswith(("#", "| Input", "| Cause"))]
    assert [line for line in headings if line not in written] == []
