"""What `kshim serve` writes to stderr."""

from __future__ import annotations

import errno
import io
import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kshim.cli.log import Log
from kshim.cli.options import LogFormat
from kshim.coordinator.groups.classic.state import GroupState
from kshim.coordinator.groups.events import Cause, JoinCompleted, MemberAdded, MemberRef, MemberRemoved, Transition
from kshim.coordinator.step import Now
from kshim.storage.log import LogError
from kshim.wording import escaped

NOW = Now(5, 1_795_255_200_123)
FORMATS: tuple[LogFormat, ...] = ("text", "json")
ANNA = MemberRef(member_id="anna-1", client_id="anna", client_host="/127.0.0.1", client_reason="need to rejoin")


class Written:
    """A log and what it wrote."""

    def __init__(self, log_format: LogFormat = "text", *, verbosity: int = 0) -> None:
        self.stream = io.StringIO()
        self.now_ms = NOW.wall_ms
        self.log = Log(self.stream, log_format, verbosity=verbosity, wall_ms=lambda: self.now_ms)
        self.log.node_id = 1

    @property
    def lines(self) -> list[str]:
        return self.stream.getvalue().splitlines()

    @property
    def objects(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.lines]


def begins_rebalance() -> Transition:
    return Transition(
        partition=7,
        now=NOW,
        group_id="billing",
        generation_id=3,
        previous=GroupState.STABLE,
        new=GroupState.PREPARING_REBALANCE,
        cause=Cause.MEMBER_JOINED,
        detail="Adding new member anna-1",
        member=ANNA,
        member_count=2,
    )


def test_events_in_a_turn_of_the_server_are_written_together_when_it_ends() -> None:
    written = Written("json")
    written.log.turn_begins()
    written.log.coordinator_event(begins_rebalance())
    written.log.coordinator_event(begins_rebalance())
    assert written.lines == []
    written.log.turn_ends()
    assert [line["event"] for line in written.objects] == ["transition", "transition"]
    written.log.coordinator_event(begins_rebalance())
    assert len(written.lines) == 3


def test_whatever_else_is_written_in_a_turn_stands_behind_the_events_before_it() -> None:
    written = Written("json")
    written.log.turn_begins()
    written.log.coordinator_event(begins_rebalance())
    written.log.note("listening", "Listening")
    written.log.coordinator_event(begins_rebalance())
    written.log.turn_ends()
    assert [line["event"] for line in written.objects] == ["transition", "listening", "transition"]


def test_an_event_that_cannot_be_worded_is_told_of_and_the_others_are_written() -> None:
    class Unwordable(Transition):
        def __getattribute__(self, name: str) -> Any:
            if name in ("__dict__", "generation_id"):
                raise RuntimeError("no words for this")
            return super().__getattribute__(name)

    written = Written("json")
    strange = object.__new__(Unwordable)
    written.log.turn_begins()
    written.log.coordinator_event(strange)
    written.log.coordinator_event(begins_rebalance())
    written.log.turn_ends()
    assert [line["event"] for line in written.objects] == ["failed", "transition"]


def test_a_transition_is_a_json_object_with_group_generation_cause_phase_and_member() -> None:
    written = Written("json")
    written.log.coordinator_event(begins_rebalance())
    assert written.objects == [
        {
            "at": "2026-11-21T10:00:00.123Z",
            "at_ms": NOW.wall_ms,
            "level": "INFO",
            "event": "transition",
            "offsets_partition": 7,
            "group": "billing",
            "generation": 3,
            "from": "Stable",
            "to": "PreparingRebalance",
            "phase": "join",
            "cause": "member-joined",
            "detail": "Adding new member anna-1",
            "member": "anna-1",
            "instance": None,
            "client_id": "anna",
            "host": "/127.0.0.1",
            "client_reason": "need to rejoin",
            "member_count": 2,
        }
    ]


def test_durations_and_waits_of_a_join_phase_are_in_the_json_form() -> None:
    written = Written("json")
    written.log.coordinator_event(
        JoinCompleted(
            partition=7,
            now=NOW,
            group_id="billing",
            generation_id=4,
            member_count=2,
            leader_id="anna-1",
            protocol_name="range",
            join_ms=250,
            waits=(("anna-1", 250), ("ben-1", 0)),
        )
    )
    (found,) = written.objects
    assert found["event"] == "join_completed"
    assert (found["join_ms"], found["leader_id"], found["protocol_name"]) == (250, "anna-1", "range")
    assert found["waits"] == [["anna-1", 250], ["ben-1", 0]]


def test_text_lines_look_as_kafka_s_coordinator_writes_them() -> None:
    written = Written()
    written.log.coordinator_event(begins_rebalance())
    (line,) = written.lines
    assert re.match(
        r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,123\] INFO \[GroupCoordinator id=1 topic=__consumer_offsets "
        r"partition=7\] Preparing to rebalance group billing in state PreparingRebalance with old "
        r"generation 3 \(reason: .*Adding new member anna-1.*\)",
        line,
    ), line


@pytest.mark.parametrize("log_format", ["text", "json"])
@given(text=st.text())
def test_no_text_of_a_client_can_forge_a_line(log_format: LogFormat, text: str) -> None:
    written = Written(log_format)
    member = MemberRef(member_id=text, group_instance_id=text, client_id=text, client_host=text, client_reason=text)
    added = MemberAdded(
        partition=0, now=NOW, group_id=text, generation_id=1, state=GroupState.STABLE, member=member, had_id=True
    )
    removed = MemberRemoved(
        partition=0,
        now=NOW,
        group_id=text,
        generation_id=1,
        state=GroupState.STABLE,
        member=member,
        cause=Cause.SESSION_EXPIRED,
        was_pending=False,
    )
    written.log.coordinator_event(added)
    written.log.coordinator_event(removed)
    written.log.closing(text, text)
    assert len(written.lines) == written.stream.getvalue().count("\n") == 3
    assert all(line.isprintable() for line in written.lines)


def test_what_is_not_printable_is_escaped_and_the_rest_kept() -> None:
    assert escaped("grün\n[2026-11-21] INFO \x1b[2J\u2028\ud800 ☃") == (
        "grün\\n[2026-11-21] INFO \\x1b[2J\\u2028\\ud800 ☃"
    )


@given(st.text() | st.text(st.characters(max_codepoint=0x90)))
def test_text_stays_as_it_is_if_it_is_printable(text: str) -> None:
    assert (escaped(text) == text) == text.isprintable()
    assert escaped(text).isprintable()


def test_details_are_logged_only_with_verbosity() -> None:
    quiet, verbose = Written(), Written(verbosity=1)
    for written in (quiet, verbose):
        written.log.detail("request", "Heartbeat v4 of 127.0.0.1")
        written.log.note("listening", "Listening on 127.0.0.1:9092")
    assert [line.split("] ")[1] for line in quiet.lines] == ["INFO Listening on 127.0.0.1:9092"]
    assert [line.split("] ")[1].split()[0] for line in verbose.lines] == ["DEBUG", "INFO"]


def test_a_flood_of_closed_connections_is_counted_instead_of_written() -> None:
    written = Written()
    for _ in range(500):
        written.log.closing("/10.0.0.1", "unknown api key 999")
    assert len(written.lines) == 20
    written.now_ms += 1_000
    written.log.closing("/10.0.0.1", "unknown api key 999")
    assert "Closed 480 further connections" in written.lines[20]
    assert "Closed the connection of 10.0.0.1: unknown api key 999" in written.lines[21]


def test_a_defect_is_written_with_its_traceback() -> None:
    for log_format in FORMATS:
        written = Written(log_format)
        try:
            raise AssertionError("state and log differ")
        except AssertionError as error:
            written.log.failed("handling JoinGroupRequest", error)
        assert "ERROR" in written.lines[0]
        assert "Failed while handling JoinGroupRequest: AssertionError: state and log differ" in written.lines[0]
        assert "test_log.py" in written.stream.getvalue()


def full_disk(partition: str) -> LogError:
    error = LogError(f"cannot append to data/{partition}/0.log: No space left on device")
    error.__cause__ = OSError(errno.ENOSPC, "No space left on device")
    return error


@pytest.mark.parametrize("log_format", FORMATS)
def test_a_full_disk_is_one_line_and_then_counted(log_format: LogFormat) -> None:
    written = Written(log_format)
    for number in range(25):
        written.log.defect(full_disk(f"orders-{number}"), object())
    assert len(written.lines) == 1
    assert "cannot append to data/orders-0/0.log: No space left on device" in written.lines[0]
    written.log.defect(LogError("orders-0 is being repaired"), object())
    written.now_ms += 10_000
    written.log.defect(full_disk("orders-0"), object())
    assert len(written.lines) == 3
    assert "repeated 24 times" in written.lines[2]


def test_a_log_that_nobody_reads_any_more_does_not_stop_the_broker() -> None:
    written = Written()
    written.stream.close()
    written.log.coordinator_event(begins_rebalance())
    written.log.note("listening", "still here")
