"""What the demo makes of the reports it gets."""

from __future__ import annotations

from kshim.tools.demo.story import Gap, Note
from tests.tools.demo.builders import Telling


def test_a_member_owns_what_it_was_assigned_until_it_is_revoked() -> None:
    told = Telling().starts("anna", 0).assigned("anna", 1_000, 0, 1, 2, 3)
    anna = told.story.members["anna"]
    assert (anna.state, anna.partitions) == ("reading", [0, 1, 2, 3])
    told.revoked("anna", 2_000, 0, 1, 2, 3)
    assert (anna.state, anna.partitions) == ("rejoining", [])
    assert [told.story.reader_at(0, at) for at in (0, 999, 1_000, 1_999, 2_000)] == ["", "", "anna", "anna", ""]


def test_the_first_revocation_of_nothing_is_no_news() -> None:
    told = Telling().starts("anna", 0).told("joining", 500, member="anna").revoked("anna", 600)
    assert told.story.members["anna"].state == "joining"
    assert told.story.readers == []


def test_a_crashed_member_keeps_its_partitions_until_another_gets_them() -> None:
    told = Telling().starts("anna", 0).starts("ben", 0).assigned("anna", 10, 0, 1).assigned("ben", 10, 2, 3)
    told.crashes("ben", 5_000)
    ben = told.story.members["ben"]
    assert (ben.state, ben.partitions, ben.is_reading) == ("crashed", [2, 3], False)
    assert told.story.reader_at(2, 5_000) == "!ben"
    told.assigned("anna", 11_000, 0, 1, 2, 3)
    assert ben.partitions == []
    assert told.story.gaps == [Gap(2, 5_000, 11_000, "ben"), Gap(3, 5_000, 11_000, "ben")]


def test_reports_that_were_under_way_when_a_member_crashed_do_not_revive_it() -> None:
    told = Telling().starts("ben", 0).assigned("ben", 10, 2).crashes("ben", 5_000).told("joining", 5_001, member="ben")
    assert told.story.members["ben"].state == "crashed"


def test_records_read_again_are_counted_apart() -> None:
    told = Telling().starts("anna", 0).starts("ben", 0).told("produced", 1, total=30)
    told.told("read", 10, member="ben", partition=0, first=0, last=9)
    told.told("read", 20, member="anna", partition=0, first=7, last=12)
    told.told("read", 30, member="anna", partition=1, first=0, last=4)
    story = told.story
    assert (story.produced_count, story.read_count, story.repeated_count) == (30, 21, 3)
    assert (story.members["anna"].record_count, story.members["ben"].record_count) == (11, 10)


def test_a_rebalance_has_a_reason_a_member_and_a_length() -> None:
    told = Telling().rebalanced(1_000, 1_250, 3, "member-joined", "cleo")
    (rebalance,) = told.story.rebalances
    assert rebalance.reason == "cleo joined"
    assert (rebalance.started_ms, rebalance.ended_ms, rebalance.generation) == (1_000, 1_250, 3)
    assert told.story.notes == [
        Note(1_000, "rebalance", "begins: cleo joined"),
        Note(1_250, "rebalance", "ends after 0.25 s: generation 3"),
    ]


def test_a_running_rebalance_has_no_generation_yet() -> None:
    told = Telling().logged(10, "Empty", "PreparingRebalance", 0, "member-joined", "anna")
    (rebalance,) = told.story.rebalances
    assert (rebalance.generation, rebalance.ended_ms) == (None, None)


def test_a_cause_that_has_no_words_stands_for_itself() -> None:
    told = Telling().rebalanced(0, 1, 1, "something-new", "anna")
    assert told.story.rebalances[0].reason == "something-new (anna)"


def test_other_groups_and_other_lines_of_the_log_are_not_of_interest() -> None:
    story = Telling().story
    story.logged({"event": "transition", "group": "other", "at_ms": 0, "to": "Stable", "generation": 9})
    story.logged({"event": "listening", "at_ms": 0})
    assert (story.generation, story.group_state) == (0, "Empty")
