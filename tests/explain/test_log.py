"""Lines of a broker's log to facts."""

from __future__ import annotations

from typing import Any
from zoneinfo import ZoneInfo

from kshim.explain.facts import FORGOTTEN, Kind
from kshim.explain.sources.broker_log import facts_of_log
from kshim.explain.sources.log_lines import parse_broker_line, parse_line

UTC = ZoneInfo("UTC")
LINES = (
    "[2026-11-18 12:00:00,000] INFO [GroupCoordinator id=1] Pending dynamic member with id a-1 joins group billing in Empty "
    "state. Adding to the group now. (org.apache.kafka.coordinator.group.GroupMetadataManager)",
    "[2026-11-18 12:30:00,000] INFO [BrokerServer id=1] Transition from STARTED to SHUTTING_DOWN (kafka.server.BrokerServer)",
    "[2026-11-18 12:30:40,000] INFO [GroupCoordinator id=1] Loaded classic group billing with 1 members. "
    "(org.apache.kafka.coordinator.group.GroupMetadataManager)",
    "[2026-11-18 12:30:40,001] INFO [GroupCoordinator id=1 topic=__consumer_offsets partition=3] Loaded classic group orders "
    "with 0 members in state Empty.",
)


def rows() -> list[dict[str, Any]]:
    found = (parse_line(line, UTC) or parse_broker_line(line, UTC) for line in LINES)
    return [row | {"line": number} for number, row in enumerate(found, 1) if row is not None]


def test_a_restart_of_the_broker_is_in_the_facts_of_the_groups_that_had_members() -> None:
    facts = list(facts_of_log(rows(), {}, {}))
    assert [(fact.group, fact.kind) for fact in facts] == [
        ("billing", Kind.JOINED),
        ("billing", Kind.STOPPING),
        ("billing", Kind.LOADED),
    ]


def test_why_a_member_joined_is_in_the_line_about_the_rebalance_that_it_began() -> None:
    joins = "Pending dynamic member with id a-2 joins group billing in Stable state. Adding to the group now."
    begins = (
        "Preparing to rebalance group billing in state PreparingRebalance with old generation 3 (reason: Adding new member "
        "a-2 with group instance id null; client reason: rejoining after we previously errored and backed off)."
    )
    lines = [f"[2026-11-18 12:00:00,000] INFO [GroupCoordinator id=1] {text}" for text in (joins, begins)]
    found = [row | {"line": number} for number, line in enumerate(lines) if (row := parse_line(line, UTC)) is not None]
    (joined,) = facts_of_log(found, {}, {})
    assert joined.client_reason == "rejoining after we previously errored and backed off"


def facts_of(*lines: str) -> list[tuple[str, Kind, str]]:
    """The facts of lines, a minute apart."""
    texts = [f"[2026-11-18 12:{number:02}:00,000] INFO {line}" for number, line in enumerate(lines)]
    found = (parse_line(text, UTC) or parse_broker_line(text, UTC) for text in texts)
    numbered = [row | {"line": number} for number, row in enumerate(found) if row is not None]
    return [(fact.group, fact.kind, fact.reason) for fact in facts_of_log(numbered, {}, {})]


def test_a_process_that_is_still_there_when_another_one_has_its_instance_id_is_heard_of() -> None:
    facts = facts_of(
        "[GroupCoordinator id=1] Static member with groupInstanceId=till and unknown member id joins group billing in Stable "
        "state. Replacing previously mapped member till-1 with this groupInstanceId.",
        "[GroupCoordinator id=1] Request memberId=till-1 for static member with groupInstanceId=till is fenced by existing "
        "memberId=till-2 during operation heartbeat (org.apache.kafka.coordinator.group.classic.ClassicGroup)",
    )
    assert [(group, kind) for group, kind, _ in facts] == [("billing", Kind.REPLACED), ("billing", Kind.HEARD)]


def test_a_phase_join_ends_also_where_no_assignment_follows() -> None:
    facts = facts_of(
        "[GroupCoordinator id=1] Preparing to rebalance group billing in state PreparingRebalance with old generation 3 "
        "(reason: removing member a-1 on heartbeat expiration.).",
        "[GroupCoordinator id=1] Stabilized group billing generation 4 with 2 members.",
    )
    assert facts == [("billing", Kind.JOIN_COMPLETED, "")]


def test_a_phase_join_that_ends_with_a_client_that_never_used_its_member_id_had_waited_for_that() -> None:
    begins = "Preparing to rebalance group billing in state PreparingRebalance with old generation 3 (reason: Adding new member a-1)."
    ends = "Stabilized group billing generation 4 with 2 members."
    assigns = "Assignment received from leader b-1 for group billing for generation 4. The group has 2 members, 0 of which are static."
    pending = "Pending member a-2 in group billing has been removed after session timeout expiration."
    for pending_s, is_held in ((10, True), (4, False)):
        timed = sorted([(0, begins), (10.001, ends), (10.002, assigns), (pending_s, pending)])
        texts = [f"[2026-11-18 12:00:{at_s:06.3f}] INFO [GroupCoordinator id=1] {text}" for at_s, text in timed]
        found = [
            row | {"line": number} for number, text in enumerate(texts) if (row := parse_line(text, UTC)) is not None
        ]
        (phases,) = [fact.phases for fact in facts_of_log(found, {}, {}) if fact.kind is Kind.COMPLETED]
        assert phases is not None
        assert phases.waited_for_pending == is_held


def test_a_coordinator_that_had_not_yet_written_of_its_first_members_has_forgotten_them() -> None:
    facts = facts_of(
        "[GroupCoordinator id=1] Preparing to rebalance group billing in state PreparingRebalance with old generation 0 "
        "(reason: Adding new member a-1 with group instance id null; client reason: not provided).",
        "[BrokerServer id=1] Transition from STARTED to SHUTTING_DOWN (kafka.server.BrokerServer)",
        "[GroupCoordinator id=1] Loaded classic group billing with 0 members.",
    )
    assert facts == [("billing", Kind.STOPPING, ""), ("billing", Kind.LOADED, FORGOTTEN)]


def test_kshims_log_says_when_it_is_stopped() -> None:
    facts = facts_of(
        "[GroupCoordinator id=1] Pending dynamic member with id a-1 joins group billing in Empty state. Adding to the group now.",
        "Stopped by a signal",
    )
    assert [kind for _, kind, _ in facts] == [Kind.JOINED, Kind.STOPPING]
