"""`kshim why` as its users run it: on directories and brokers, as text and JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from kshim.cli.main import main
from kshim.testing import Kshim
from kshim_protocol.codec import codec
from kshim_protocol.internal.consumer import ConsumerProtocolSubscription
from kshim_protocol.internal.group_metadata import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from kshim_protocol.partitioner import partition_for
from kshim_protocol.records.batch import build_batch
from kshim_protocol.records.record import Record, iter_records
from tests.explain.test_epochs import two_members
from tests.tools.logs import write_log

MINUTE = 60_000
START = 1_795_000_000_000


def member(client: str, number: int) -> MemberMetadata:
    return MemberMetadata(
        member_id=f"{client}-{number}",
        client_id=client,
        client_host="/10.0.0.1",
        rebalance_timeout=300_000,
        session_timeout=45_000,
        subscription=b"\0\0"
        + codec(ConsumerProtocolSubscription, 0).build(ConsumerProtocolSubscription(topics=("t",))),
        assignment=b"",
    )


def group_record(at_ms: int, generation: int, *members: MemberMetadata, group: str = "billing") -> Record:
    value = GroupMetadataValue(
        protocol_type="consumer",
        generation=generation,
        protocol="range",
        leader=members[0].member_id,
        current_state_timestamp=at_ms - 40,
        members=members,
    )
    key = b"\0\2" + codec(GroupMetadataKey, 0).build(GroupMetadataKey(group=group))
    return Record(key, b"\0\3" + codec(GroupMetadataValue, 3).build(value), timestamp_ms=at_ms)


def a_scaled_group(directory: Path) -> None:
    """A group of two, which became three an hour later."""
    one, two, three = member("one", 1), member("two", 2), member("three", 3)
    records = [
        group_record(START, 1, one),
        group_record(START + 500, 2, one, two),
        group_record(START + 60 * MINUTE, 3, one, two, three),
    ]
    write_log(directory, 0, [build_batch([record], base_offset=place) for place, record in enumerate(records)])


def why_json(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert main(["why", *arguments, "--output", "json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_records_alone_show_a_start_and_a_new_member(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a_scaled_group(tmp_path)
    found = why_json(capsys, "billing", "--data-dir", str(tmp_path))
    assert (found["version"], found["sources"], found["since_ms"]) == (1, ["records"], None)
    start, added = found["incidents"]
    assert (start["cause"], start["clients"]) == ("one_by_one_start", ["one@10.0.0.1", "two@10.0.0.1"])
    assert (added["cause"], added["clients"], added["basis"]) == ("scale_up", ["three@10.0.0.1"], "inferred")
    assert added["effects"][0]["sync_ms"] == 40


@pytest.mark.parametrize(
    ("back_after_s", "seen"),
    [
        ((), ": it left or was lost, and which of the two is not known."),
        ((20,), ", and 20.0 s later it or a successor joined; why is not known."),
        ((20, 30), ", 3 times; why is not known."),
    ],
)
def test_records_alone_say_that_a_member_was_gone_where_they_do_not_show_why(
    back_after_s: Sequence[int], seen: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, at_ms = member("one", 1), START + 60 * MINUTE
    records = [group_record(START, 1, one), group_record(START + 500, 2, one, member("two", 2))]
    for number, after_s in enumerate(back_after_s):
        records.append(group_record(at_ms, 3 + 2 * number, one))
        at_ms += after_s * 1_000
        records.append(group_record(at_ms, 4 + 2 * number, one, member("two", 3 + number)))
        at_ms += 40_000
    if len(back_after_s) != 1:
        records.append(group_record(at_ms, 9, one))
    write_log(tmp_path, 0, [build_batch([record], base_offset=place) for place, record in enumerate(records)])
    found = why_json(capsys, "billing", "--data-dir", str(tmp_path))["incidents"][1]
    assert (found["cause"], found["sentence"]) == ("unknown", f"two@10.0.0.1 was no longer a member of billing{seen}")


def test_records_of_another_leader_tell_a_group_of_the_new_protocol_that_its_broker_was_restarted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    world = two_members()
    before = sum(len(log) for log in world.logs.values())
    world.pass_ms(10_000)
    world.join("c", "t")
    [log] = world.logs.values()
    batches = [
        build_batch(iter_records(batch), base_offset=place, partition_leader_epoch=int(place >= before))
        for place, batch in enumerate(log)
    ]
    write_log(tmp_path, 0, batches)
    found = why_json(capsys, "g", "--data-dir", str(tmp_path))["incidents"]
    assert [each["cause"] for each in found] == ["one_by_one_start", "scale_up", "broker_restarted"]


def test_only_what_happened_since_a_time_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a_scaled_group(tmp_path)
    found = why_json(capsys, "--all", "--data-dir", str(tmp_path), "--since", "2026-11-18T11:30:00")
    assert [incident["clients"] for incident in found["incidents"]] == [["three@10.0.0.1"]]


def test_lines_of_kafkas_log_tell_why_a_member_was_gone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a_scaled_group(tmp_path / "data")
    log = tmp_path / "server.log"
    log.write_text(
        "[2026-11-18 12:00:00,000] INFO [GroupCoordinator id=1] [Group billing] Member two-2 has left group through "
        "explicit `LeaveGroup` request; client reason: the consumer is being closed "
        "(org.apache.kafka.coordinator.group.GroupMetadataManager)\n"
    )
    found = why_json(capsys, "billing", "--data-dir", str(tmp_path / "data"), "--broker-log", str(log))
    (incident,) = found["incidents"]
    assert (incident["cause"], incident["clients"], incident["basis"]) == ("scale_down", ["two@10.0.0.1"], "observed")
    assert found["sources"] == ["log"]


def test_text_names_client_and_host_and_says_what_was_inferred(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a_scaled_group(tmp_path)
    assert main(["why", "billing", "--data-dir", str(tmp_path)]) == 0
    text = capsys.readouterr().out
    assert "three@10.0.0.1" in text
    assert "[inferred]" in text
    assert text.endswith("2 incidents, from records\n")


def test_a_group_that_nothing_is_known_of_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a_scaled_group(tmp_path)
    assert main(["why", "shipping", "--data-dir", str(tmp_path)]) == 3
    assert "nothing is known of a group shipping" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [[], ["billing", "--all"]])
def test_either_a_group_or_all_are_asked_for(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["why", *arguments, "--data-dir", "."]) == 2
    assert "why needs the name of a group, or --all" in capsys.readouterr().err


def test_what_is_no_time_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["why", "--all", "--data-dir", ".", "--at", "yesterday"]) == 2
    assert "--at: 'yesterday' is not a time" in capsys.readouterr().err


def test_a_running_broker_without_groups_has_nothing_to_explain(capsys: pytest.CaptureFixture[str]) -> None:
    with Kshim() as kshim:
        found = why_json(capsys, "--all", "--bootstrap-server", kshim.bootstrap_servers)
    assert found["incidents"] == []


def an_event(group: str, client: str, *, at_ms: int = START) -> Record:
    """A member joins, as kshim's events say it."""
    trigger = {
        "member_id": f"{client}-1", "instance_id": None, "client_id": client, "host": "10.0.0.1", "client_reason": None,
    }  # fmt: skip
    event = {
        "type": "member_joined", "event_id": f"{at_ms}", "ts_ms": at_ms, "group": group, "run": "r", "trigger": trigger,
        "reason": "new_member", "replaced_member_id": None, "state_from": "Empty",
    }  # fmt: skip
    return Record(group.encode(), json.dumps(event).encode(), timestamp_ms=at_ms)


def write_events(directory: Path, *values: Record) -> None:
    batches = [build_batch([record], base_offset=place) for place, record in enumerate(values)]
    write_log(directory, 0, batches, topic="__kshim_events")


def test_a_folder_without_the_topics_is_told_from_a_cluster_without_groups(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["why", "--all", "--data-dir", str(tmp_path)]) == 3
    assert "has no partition of __consumer_offsets or __kshim_events" in capsys.readouterr().err


def test_what_is_no_event_is_said_and_the_others_are_used(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    broken = Record(b"billing", b"not an event", timestamp_ms=START)
    write_events(tmp_path, broken, an_event("billing", "one"), an_event("billing", "two", at_ms=START + 500))
    found = why_json(capsys, "billing", "--data-dir", str(tmp_path))
    assert (found["sources"], found["damaged"]) == (["events"], ["__kshim_events-0"])
    assert [incident["cause"] for incident in found["incidents"]] == ["one_by_one_start"]


def test_events_that_cannot_be_read_are_no_missing_topic(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a_scaled_group(tmp_path)
    (tmp_path / "__kshim_events-0").write_text("a file where a folder should be")
    write_events(tmp_path / "second", an_event("billing", "one"))
    log = tmp_path / "second" / "__kshim_events-0" / f"{0:020d}.log"
    log.unlink()
    log.mkdir()  # cannot be read as a file
    assert main(["why", "billing", "--data-dir", str(tmp_path), "--data-dir", str(tmp_path / "second")]) == 3
    assert "__kshim_events-0" in capsys.readouterr().err


def test_a_group_is_found_in_its_partition_and_in_any_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    home = partition_for("billing", 8)
    for partition in range(8):
        write_log(tmp_path, partition, [])
    for partition in (home, (home + 1) % 8):
        records = [group_record(START, 1, member("one", 1)), group_record(START + 500, 2, member("one", 1))]
        batches = [build_batch([record], base_offset=place) for place, record in enumerate(records)]
        write_log(tmp_path, partition, batches)
        assert why_json(capsys, "billing", "--data-dir", str(tmp_path))["sources"] == ["records"]
        write_log(tmp_path, partition, [])


def test_a_page_has_the_incidents_and_any_name_as_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = "<script>\x1b[2J"
    records = [group_record(START + place, place, member("one", 1), group=name) for place in (1, 2)]
    write_log(tmp_path, 0, [build_batch([record], base_offset=place) for place, record in enumerate(records)])
    assert main(["why", name, "--data-dir", str(tmp_path), "--output", "html"]) == 0
    page = capsys.readouterr().out
    assert page.startswith("<!doctype html>")
    assert page.count("&lt;script&gt;\\x1b[2J") > 1
    assert "<script>" not in page
    assert "\x1b" not in page


def test_text_escapes_what_is_not_printable(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = "a\nb\x1b[2J"
    write_log(tmp_path, 0, [build_batch([group_record(START, 1, member("one", 1), group=name)])])
    assert main(["why", name, "--data-dir", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert "a\\nb\\x1b[2J" in shown
    assert "\x1b" not in shown


def test_a_page_has_an_end_and_following_has_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["why", "--all", "--bootstrap-server", "127.0.0.1:1", "--follow", "--output", "html"]) == 2
    assert "--follow has no end" in capsys.readouterr().err
