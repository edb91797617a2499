"""Lines about groups of the new protocol: a real Kafka 4.4's, and kshim's."""

from __future__ import annotations

from collections.abc import Iterable
from zoneinfo import ZoneInfo

from kshim.explain.facts import Fact, Kind
from kshim.explain.sources.broker_log import facts_of_log
from kshim.explain.sources.consumer_records import with_log
from kshim.explain.sources.log_lines import parse_broker_line, parse_line, parse_setting
from kshim.explain.sources.records import with_loads
from kshim.history.coordinator_lines import line_of
from tests.explain.test_consumer_records import a_day
from tests.explain.test_epochs import facts_of

UTC = ZoneInfo("UTC")
_BEFORE = "[group-coordinator-event-processor-2] INFO GroupMetadataManager - [GroupCoordinator id=1 topic=__consumer_offsets partition=0]"
OF_KAFKA = f"""\
[2026-11-23 13:38:10,100] {_BEFORE} [GroupId g] Static member AAA with instance id i-1 joins the consumer group using the consumer protocol.
[2026-11-23 13:38:10,100] {_BEFORE} [GroupId g] Bumped group epoch to 2 with metadata hash -21162666827823506.
[2026-11-23 13:38:10,130] {_BEFORE} [GroupId g] Computed a new target assignment for epoch 2 with 'uniform' assignor in 29ms.
[2026-11-23 13:38:10,200] {_BEFORE} [GroupId g] Member BBB joins the consumer group using the consumer protocol.
[2026-11-23 13:38:10,300] {_BEFORE} [GroupId g] Static member AAA2 with instance id i-1 cannot join the group because the instance id is owned by member AAA.
[2026-11-23 13:38:10,400] {_BEFORE} [GroupId g] Static member AAA with instance id i-1 temporarily left the consumer group.
[2026-11-23 13:38:10,500] {_BEFORE} [GroupId g] Static member with instance id i-1 re-joins the consumer group using the consumer protocol. Created a new member AAA3 to replace the existing member AAA.
[2026-11-23 13:38:16,500] {_BEFORE} [GroupId g] Member AAA3 fenced from the group because the member session expired.
[2026-11-23 13:38:17,500] {_BEFORE} [GroupId g] Member BBB fenced from the group because it failed to transition from epoch 2 within 3000ms.
[2026-11-23 13:38:18,000] {_BEFORE} [GroupId g] Static member DDD with instance id i-4 joins the consumer group using the consumer protocol.
[2026-11-23 13:38:18,100] {_BEFORE} [GroupId g] Static member DDD with instance id i-4 left the consumer group.
[2026-11-23 13:38:19,000] {_BEFORE} [GroupId g] Member old-3bcab4be-447a-476a-990f-44ddf5cc2dc4 joins the consumer group using the classic protocol.
[2026-11-23 13:38:19,500] {_BEFORE} [GroupId g] Member old-3bcab4be-447a-476a-990f-44ddf5cc2dc4 left the consumer group.
[2026-11-23 13:38:20,000] {_BEFORE} Loaded consumer group g with 2 members.
"""


def facts(lines: Iterable[str]) -> list[Fact]:
    found = [parse_line(line, UTC) or parse_broker_line(line, UTC) for line in lines]
    rows = [row | {"line": number} for number, row in enumerate(found, 1) if row is not None]
    return list(facts_of_log(rows, {}, {}))


def test_lines_of_kafka_say_who_came_and_how_each_was_gone() -> None:
    named = [(fact.kind, fact.member and fact.member.member_id, fact.other_id) for fact in facts(OF_KAFKA.splitlines())]
    assert named == [
        (Kind.JOINED, "AAA", None),
        (Kind.JOINED, "BBB", None),
        (Kind.REFUSED, "AAA2", "AAA"),
        (Kind.STOPPED, "AAA", None),
        (Kind.REPLACED, "AAA3", "AAA"),
        (Kind.EXPIRED, "AAA3", None),
        (Kind.REMOVED, "BBB", None),
        (Kind.JOINED, "DDD", None),
        (Kind.LEFT, "DDD", None),
        (Kind.JOINED, "old-3bcab4be-447a-476a-990f-44ddf5cc2dc4", None),
        (Kind.LEFT, "old-3bcab4be-447a-476a-990f-44ddf5cc2dc4", None),
        (Kind.LOADED, None, None),
    ]


def test_lines_of_kshim_say_the_same_as_its_records() -> None:
    world = a_day()
    lines = [f"[2026-11-23 13:38:10,100] INFO {line.text}" for event in world.events if (line := line_of(event))]
    kinds = (Kind.JOINED, Kind.REPLACED, Kind.STOPPED, Kind.LEFT)

    def said(found: list[Fact]) -> list[tuple[Kind, str | None]]:
        return [(fact.kind, fact.member and fact.member.member_id) for fact in found if fact.kind in kinds]

    assert said(facts(lines)) == said(facts_of(world))


def test_the_settings_that_kafka_writes_when_it_starts_contain_the_session_timeout() -> None:
    row = parse_setting("\tgroup.consumer.session.timeout.ms = 10000")
    assert row is not None
    assert row["session_ms"] == 10_000
    assert parse_setting("\tgroup.consumer.session.timeout.ms.other = 1") is None
    assert parse_setting("\tgroup.consumer.heartbeat.interval.ms = 5000") is None


def test_with_a_log_it_is_known_how_a_member_was_gone() -> None:
    of_records = facts_of(a_day())
    gone = next(fact for fact in of_records if fact.kind is Kind.LEFT)
    line = gone._replace(ts_ms=gone.ts_ms + 3, kind=Kind.EXPIRED, source="log line 7", is_observed=True)
    assert gone.is_observed is False
    [known] = [fact for fact in with_log(of_records, [line]) if fact.source == "log line 7"]
    assert (known.ts_ms, known.kind, known.is_observed) == (gone.ts_ms, Kind.EXPIRED, True)
    assert len(with_log(of_records, [line])) == len(of_records)


def test_what_records_say_of_a_restart_counts_only_for_the_time_before_the_log_begins() -> None:
    of_records = facts_of(a_day())
    old, new = (with_loads(of_records, [(ts_ms, ts_ms + 10)]) for ts_ms in (of_records[3].ts_ms, of_records[-3].ts_ms))
    line = of_records[-3]._replace(ts_ms=of_records[-3].ts_ms + 2, kind=Kind.LOADED, source="log line 7")
    counts = [sum(fact.kind is Kind.LOADED for fact in with_log(known, [line])) for known in (of_records, old, new)]
    assert counts == [1, 2, 1]
