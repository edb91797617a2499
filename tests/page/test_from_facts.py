"""Groups as pages show them, from facts and records, without a history."""

from __future__ import annotations

from kshim.drawing import BarKind
from kshim.explain import explain
from kshim.explain.document import document
from kshim.page.from_facts import pictures, turns_of
from tests.explain.story import MINUTE, Story


def a_story() -> Story:
    return Story().joins(0, "one").joins(300, "two").expires(10 * MINUTE, "two")


def test_a_rebalance_says_what_began_it() -> None:
    turns = list(turns_of(a_story().known().facts))
    assert [turn.explanation for turn in turns] == [
        "one@10.0.0.1 joined. It took 0.01 s.",
        "two@10.0.0.1 joined. It took 0.01 s.",
        "the session of two@10.0.0.1 expired. It took 0.01 s.",
    ]  # fmt: skip
    assert [turn.number for turn in turns] == [1, 2, 3]


def test_each_group_with_an_incident_has_a_picture_with_its_culprit_first() -> None:
    known = a_story().known()
    incidents = document(explain(known), (), None)["incidents"]
    (picture,) = pictures(known, incidents, {}).values()
    assert picture.members[0].name == "two@10.0.0.1"
    assert picture.members[0].is_culprit
    assert BarKind.SILENT in {bar.kind for bar in picture.members[0].bars}
