"""Rows of one group to incidents, without Spark: what each source says, and where it was read."""

from __future__ import annotations

from typing import Any

from kshim.explain.facts import Committed, Kind
from kshim.explain.sources.consumer_records import KEY_TYPES
from kshim_pipeline.by_group import tables_of
from kshim_pipeline.decode.rows import decode_row
from kshim_pipeline.diagnosis.entries import ENTRIES, entry_rows, packed, unpacked
from kshim_pipeline.diagnosis.explained import incident_rows
from kshim_pipeline.diagnosis.facts import Entry, Place, Told, entries_of
from kshim_pipeline.diagnosis.typed_rows import rows_of, schema_of, values_of
from kshim_pipeline.records import DECODED
from kshim_pipeline.schemas import INCIDENTS
from tests.pipeline.explained_rows import (
    a_member,
    a_snapshot,
    an_event,
    answers,
    found_in,
    incidents_of,
    known_of,
    lines_of,
)
from tests.protocol import golden

A, B, C = a_member("a"), a_member("b"), a_member("c")
START = a_snapshot(1, 1_000, A, B, C)
JOINED = [an_event(number, 1_000, "member_joined", member) for number, member in enumerate((A, B, C))]
LOG = """\
10:00:00,000 Pending dynamic member with id b joins group g in Stable state. Adding to the group now.
10:00:04,500 Member b in group g has failed, removing it from the group.
10:00:04,500 Preparing to rebalance group g in state PreparingRebalance with old generation 1 (reason: removing member b on heartbeat expiration).
10:00:06,001 Stabilized group g generation 2 with 2 members.
10:00:06,041 Assignment received from leader a for group g for generation 2. The group has 2 members, 0 of which are static.
"""


def test_events_are_preferred_and_records_give_timeouts_and_places() -> None:
    died = an_event(9, 100_000, "member_left", B, reason="session_timeout")
    known = known_of(START, [*JOINED, died], lines_of(LOG))
    assert [entry.fact.kind for entry in known if entry.fact is not None] == [Kind.JOINED] * 3 + [Kind.EXPIRED]
    assert {entry.profile.session_ms for entry in known if entry.profile is not None} == {10_000}
    assert known[-1].place == Place("__kshim_events", 0, 9)
    (row,) = incidents_of(START, [*JOINED, died])
    assert (row["cause"], row["clients"], row["host"], row["from_ms"]) == ("killed", ["b@hb"], "hb", 90_000)
    assert (row["basis"], row["evidence"]) == ("observed", [{"topic": "__kshim_events", "partition": 0, "offset": 9}])


def test_events_say_what_was_assigned_as_the_record_of_the_generation_has_it() -> None:
    more = a_snapshot(2, 50_000, A, B, C, partitions=9)
    ends = [
        an_event(4 + number, ts_ms, "rebalance_completed", to_generation=number, join_ms=10, sync_ms=5)
        for number, ts_ms in ((1, 1_000), (2, 50_000))
    ]
    assert answers(incidents_of([*START, *more], [*JOINED, *ends]))[-1][0] == "partitions_added"


def test_a_log_is_read_where_there_are_no_events() -> None:
    known = known_of(START, lines=lines_of(LOG))
    told = [entry for entry in known if entry.fact is not None]
    kinds = [entry.fact.kind for entry in told if entry.fact]
    assert kinds == [Kind.JOINED, Kind.EXPIRED, Kind.JOIN_COMPLETED, Kind.COMPLETED]
    assert told[1].place == Place("log", None, 2)
    assert told[1].fact is not None
    assert told[1].fact.member is not None
    assert told[1].fact.member.name == "b@hb"  # no line names the host
    assert ("killed", ["b@hb"]) in answers(incidents_of(START, lines=lines_of(LOG)))


def test_records_alone_suggest_that_a_member_failed_by_its_last_commit() -> None:
    before = a_snapshot(1, 1_000, A, B, C, commits={"a": 100_300, "b": 90_500, "c": 100_400})
    (row,) = incidents_of([*before, *a_snapshot(2, 100_450, A, C)])
    assert (row["cause"], row["clients"], row["basis"]) == ("killed", ["b@hb"], "inferred")
    assert "paused" in [each["cause"] for each in row["alternatives"]]
    assert row["evidence"] == [{"topic": "__consumer_offsets", "partition": 7, "offset": 2}]


def test_a_member_that_no_fact_is_about_has_a_profile() -> None:
    known = known_of(START, [an_event(1, 2_000, "member_joined", a_member("d"))])
    assert [entry.profile.member.member_id for entry in known if entry.profile is not None] == ["a", "b", "c"]


def test_a_group_without_rows_of_members_is_explained_too() -> None:
    gone = an_event(9, 100_000, "member_left", B, reason="session_timeout")
    assert answers(incidents_of(events=[*JOINED, gone])) == [("killed", ["b@hb"])]


def test_what_happened_to_a_process_in_two_groups_is_one_incident() -> None:
    died = an_event(9, 100_000, "member_left", B, reason="session_timeout")
    known = known_of(START, [*JOINED, died])
    elsewhere = [
        entry._replace(group="h", fact=None if entry.fact is None else entry.fact._replace(group="h"))
        for entry in known
    ]
    rows = incident_rows([*found_in(known), *found_in(elsewhere, group="h")])
    (row,) = [row for row in rows if row["cause"] == "killed"]
    assert (row["groups"], row["clients"]) == (["g", "h"], ["b@hb"])


def test_facts_and_incidents_are_the_same_when_spark_has_carried_them() -> None:
    died = an_event(9, 100_000, "member_left", B, reason="session_timeout")
    ended = an_event(10, 100_900, "rebalance_completed", to_generation=1, join_ms=900, sync_ms=5, protocol="range")
    known = known_of(START, [*JOINED, died, ended])
    assert list(unpacked(tables_of(ENTRIES)(entry_rows(known)).to_pylist())) == known
    assert values_of(Entry, tables_of(schema_of(Entry))(rows_of(known)).to_pylist()) == known
    found = found_in(known)
    assert list(unpacked([{"packed": packed(each)} for each in found])) == found
    row = next(incident_rows(found))
    assert row.keys() == set(INCIDENTS.names)
    assert tables_of(INCIDENTS)([row]).num_rows == 1


def test_records_of_a_share_group_that_a_member_lost_are_an_incident_here_too() -> None:
    lost = {
        "topic": "orders",
        "partition": 0,
        "first_offset": 3,
        "last_offset": 9,
        "count": 7,
        "times": 1,
        "delivery_count": 1,
        "held_ms": 30_000,
        "lock_ms": 30_000,
        "delivery_count_limit": 5,
        "ended_by": "lock_timeout",
        "ranges": [{"first_offset": 3, "last_offset": 9, "delivery_count": 1}],
        "ranges_omitted": 0,
    }
    told = an_event(9, 100_000, "records_returned", B, reason="lock_timeout", records=lost)
    known = known_of((), [*JOINED, told])
    assert values_of(Entry, tables_of(schema_of(Entry))(rows_of(known)).to_pylist()) == known
    (row,) = [row for row in incident_rows(found_in(known)) if row["cause"] == "lock_timeout"]
    assert row["clients"] == ["b@hb"]
    assert "orders-0 offsets 3 to 9" in row["sentence"]
    assert row.keys() == set(INCIDENTS.names)
    assert tables_of(INCIDENTS)([row]).num_rows == 1


def test_an_event_of_a_type_that_is_not_known_says_nothing() -> None:
    assert known_of((), [*JOINED, an_event(9, 100_000, "records_vanished", B, reason="magic")]) == known_of((), JOINED)


def test_records_of_the_new_protocol_are_read_as_kshim_why_reads_them() -> None:
    records = [_decoded(*record) for record in golden.load("new_protocol.json")["records"]]
    mine = [row for row in records if row["group_id"] == "epochs"]
    epochs = [row for row in mine if row["key_type"] in KEY_TYPES]
    commits = [row for row in records if row["kind"] == "offset_commit"]
    known = list(entries_of("epochs", Told(epochs=epochs + epochs[::2], commits=commits)))
    told = [(entry.fact.kind, entry.fact.member.client_id) for entry in known if entry.fact and entry.fact.member]
    assert told == [(Kind.JOINED, "ann"), (Kind.JOINED, "ben"), (Kind.LEFT, "ben"), (Kind.LEFT, "ann")]
    assert [entry.place.offset for entry in known if entry.place is not None][:3] == [0, 4, 5]
    completed = [entry.fact.phases for entry in known if entry.fact and entry.fact.kind is Kind.COMPLETED]
    assert [phases.last_wait_ms for phases in completed if phases is not None and phases.last_to_join is not None] == [
        1_063
    ]


def _decoded(partition: int, offset: int, ts_ms: int, key: str, value: str | None) -> dict[str, Any]:
    row = dict.fromkeys(DECODED.names) | decode_row(bytes.fromhex(key), None if value is None else bytes.fromhex(value))
    row |= {"subject": row["member_id"] or row["topic_regex"] or ""}
    return row | {"topic": "__consumer_offsets", "partition": partition, "offset": offset, "timestamp_ms": ts_ms}


HOUR = 3_600_000


def test_a_session_knows_who_was_there_before_it_and_tells_no_incident_of_that() -> None:
    (opening,) = START
    died = an_event(9, HOUR, "member_left", B, reason="session_timeout")
    known = list(entries_of("g", Told(opening, events=[died]), 1))
    before = [entry for entry in known if entry.is_before]
    assert [entry.fact.member.member_id for entry in before if entry.fact and entry.fact.member] == ["a", "b", "c"]
    assert {entry.session for entry in known} == {1}
    assert [(each.incident.cause.keyword, each.incident.clients) for each in found_in(known)] == [("killed", ("b@hb",))]


def test_a_session_tells_of_records_what_has_changed_since_the_one_before_it() -> None:
    (opening,) = a_snapshot(1, 1_000, A, B, C, commits={"c": HOUR - 100})
    (gone,) = a_snapshot(2, HOUR, A, B)
    gone |= {"came": [], "gone": ["c"]}
    last = {
        "ts_ms": HOUR,
        "member_id": "c",
        "last_commit_ms": HOUR - 100,
        "before_ms": None,
        "usual_ms": None,
        "is_early": True,
    }
    told = Told(opening, [gone], [last])
    (left,) = [each.fact for each in entries_of("g", told, 1) if each.fact is not None and each.fact.kind is Kind.LEFT]
    assert left.member is not None
    told_of = (left.ts_ms, left.member.name, left.committed)
    assert told_of == (HOUR - 100, "c@hc", Committed(HOUR - 100, None, is_early=True))  # it committed as it left


def test_more_partitions_than_before_the_session_have_been_added() -> None:
    (opening,) = a_snapshot(1, 1_000, A, B, C)
    (grown,) = a_snapshot(2, HOUR, A, B, C, partitions=9)
    known = list(entries_of("g", Told(opening, [grown | {"came": [], "gone": []}]), 1))
    assert [each.incident.cause.keyword for each in found_in(known)] == ["partitions_added"]


def test_a_member_that_left_a_poll_interval_after_its_commits_had_not_polled() -> None:
    """Of a log: clients without reasons leave as silently as those that are stopped."""
    start_ms = lines_of(LOG)[0]["ts_ms"]
    before = a_snapshot(1, start_ms - HOUR, A, B, C, commits={"b": start_ms - 16_000})
    left = "10:00:04,500 [Group g] Member b has left group through explicit `LeaveGroup` request; client reason: not provided\n"
    known = known_of([*before, *a_snapshot(2, start_ms + 9_000, A, C)], lines=lines_of(left))
    assert [(each.incident.cause.keyword, each.incident.clients) for each in found_in(known)] == [
        ("slow_poll", ("b@hb",))
    ]


def test_a_member_that_joins_again_in_a_log_has_the_subscription_of_the_next_record() -> None:
    asked = (
        "10:00:04,500 Preparing to rebalance group g in state PreparingRebalance with old generation 1 "
        "(reason: Updating metadata for member a during Stable; client reason: not provided)."
    )
    (line,) = lines_of(asked)
    more = a_member("a", topics=["t", "u"])
    records = [*START, *a_snapshot(2, line["ts_ms"] + 1_000, more, B, C)]
    (fact,) = [entry.fact for entry in known_of(records, lines=[line]) if entry.fact is not None]
    assert (fact.kind, fact.subscription and fact.subscription.added) == (Kind.REQUESTED, ("u",))


def test_a_member_that_joins_again_has_not_changed_the_subscription_that_it_changes_later() -> None:
    asked = (
        "10:00:04,500 Preparing to rebalance group g in state PreparingRebalance with old generation 1 "
        "(reason: Updating metadata for member a during Stable; client reason: not provided)."
    )
    (line,) = lines_of(asked)
    same = a_snapshot(2, line["ts_ms"] + 1_000, A, B, C)
    changed = a_snapshot(3, line["ts_ms"] + HOUR, a_member("a", topics=["t", "u"]), B, C)
    (fact,) = [entry.fact for entry in known_of([*START, *same, *changed], lines=[line]) if entry.fact is not None]
    assert (fact.kind, fact.subscription and fact.subscription.added) == (Kind.REQUESTED, ())


def test_commits_are_known_beside_events_that_do_not_tell_of_them() -> None:
    died = an_event(9, 100_000, "member_left", B, reason="session_timeout")
    before = a_snapshot(1, 1_000, A, B, C, commits={"b": 90_500})
    known = known_of([*before, *a_snapshot(2, 100_450, A, C)], [*JOINED, died])
    assert [entry.fact.committed for entry in known if entry.fact is not None and entry.fact.kind is Kind.EXPIRED] == [
        Committed(90_500, 1_000)
    ]
