"""Steps about share and streams groups: the requests they become, and what is said of the answers."""

from __future__ import annotations

from typing import Any

import pytest

from kshim.tools.scenario.actors import Cast
from kshim.tools.scenario.answers import observe
from kshim.tools.scenario.model import ScenarioError
from kshim.tools.scenario.parse import parse_scenario, parse_step
from kshim.tools.scenario.requests import Unsupported, build_request
from kshim.tools.scenario.streams_groups import internal_topics, topology_of
from kshim_protocol.messages import share_fetch, streams_group_heartbeat
from kshim_protocol.records.batch import build_batch
from kshim_protocol.records.record import Record

HEADER = "# A title\nsuite: s\nrules: r.s\ntopics: t:1\ntopology: 0 source=t sink=r; 1 repartition=r:3 changelog=s\nrun: virtual\n"
T = b"t" * 16


def a_cast() -> Cast:
    cast = Cast(parse_scenario("name", HEADER + "\nlist -> NONE\n"), "0")
    cast.topic_ids[cast.topic("t")] = T
    return cast


def request(line: str, cast: Cast | None = None) -> Any:
    return build_request(parse_step(f"{line} -> NONE"), cast or a_cast())[0]


def test_what_becomes_of_records_has_a_type_for_all_or_one_for_each() -> None:
    asked = request("share-acknowledge a t-0=0-4:accept,5:release,6-7:reject/gap,8:9")
    ((partition,),) = [topic.partitions for topic in asked.topics]
    assert asked.topics[0].topic_id == T
    assert [
        (batch.first_offset, batch.last_offset, batch.acknowledge_types) for batch in partition.acknowledgement_batches
    ] == [(0, 4, (1,)), (5, 5, (2,)), (6, 7, (3, 0)), (8, 8, (9,))]


def test_records_without_a_type_are_no_step() -> None:
    with pytest.raises(ScenarioError, match="records are FIRST-LAST:TYPE, not '0-4'"):
        request("share-acknowledge a t-0=0-4")


def test_a_share_session_goes_on_with_every_answer_that_is_no_error() -> None:
    cast = a_cast()
    answer = share_fetch.ShareFetchResponse(error_code=0, acquisition_lock_timeout_ms=1, responses=())
    refused = share_fetch.ShareFetchResponse(error_code=123, acquisition_lock_timeout_ms=0, responses=())
    seen = []
    for response, line in ((answer, ""), (refused, ""), (answer, ""), (answer, "epoch=-1"), (answer, "")):
        step = parse_step(f"share-fetch a t-0 {line} -> NONE")
        asked: Any = build_request(step, cast)[0]
        seen.append(asked.share_session_epoch)
        for _ in range(2):  # an answer may be looked at more than once
            observe(step, response, 2, cast)
    assert seen == [0, 1, 1, -1, 0]


def test_acquired_records_are_ranges_with_their_delivery_count() -> None:
    acquired = share_fetch.AcquiredRecords
    partition = share_fetch.PartitionData(
        partition_index=0,
        acquired_records=(
            acquired(first_offset=0, last_offset=1, delivery_count=1),
            acquired(first_offset=2, last_offset=2, delivery_count=3),
        ),
        records=build_batch(Record(None, b"", (), -1) for _ in range(3)),
    )
    topic = share_fetch.ShareFetchableTopicResponse(topic_id=T, partitions=(partition,))
    response = share_fetch.ShareFetchResponse(error_code=0, acquisition_lock_timeout_ms=9, responses=(topic,))
    fields = observe(parse_step("share-fetch a t-0 -> NONE"), response, 2, a_cast()).fields
    assert {name: fields[name] for name in ("t-0", "t-0.sent", "partitions", "lock")} == {
        "t-0": "0-1x1,2x3",
        "t-0.sent": "0-2",
        "partitions": "t-0",
        "lock": "9",
    }


def test_a_topology_is_written_subtopology_by_subtopology() -> None:
    first, second = topology_of(
        "0 source=in,u sink=r together=in,u; 1 repartition=r:3 changelog=s", a_cast()
    ).subtopologies
    assert (first.subtopology_id, first.source_topics) == ("0", ("conform-0-in", "conform-0-u"))
    assert first.copartition_groups[0].source_topics == (0, 1)
    assert [(topic.name, topic.partitions) for topic in second.repartition_source_topics] == [("conform-0-r", 3)]
    assert internal_topics("1 repartition=r changelog=s", a_cast()) == {"conform-0-r", "conform-0-s"}


def test_a_part_that_no_subtopology_has_is_a_mistake() -> None:
    with pytest.raises(ScenarioError, match=r"a subtopology has .*, not 'sauce=t'"):
        topology_of("0 sauce=t", a_cast())


def test_who_joins_a_streams_group_says_everything_and_who_goes_on_only_its_epoch() -> None:
    cast = a_cast()
    joining = request("streams-heartbeat a", cast)
    assert (joining.member_epoch, joining.active_tasks, joining.process_id) == (0, (), "process-a")
    assert [part.subtopology_id for part in joining.topology.subtopologies] == ["0", "1"]
    going_on = request("streams-heartbeat a epoch=3", cast)
    assert (going_on.topology, going_on.active_tasks, going_on.process_id) == (None, None, None)
    reporting = request("streams-heartbeat a epoch=3 active=0_1,0_0,10_2", cast)
    assert [(each.subtopology_id, each.partitions) for each in reporting.active_tasks] == [("0", (1, 0)), ("10", (2,))]
    assert (reporting.standby_tasks, reporting.warmup_tasks) == ((), ())


def test_statuses_have_names() -> None:
    status = streams_group_heartbeat.Status
    response = streams_group_heartbeat.StreamsGroupHeartbeatResponse(
        error_code=0,
        member_id="m",
        status=(
            status(status_code=1, status_detail="Source topics conform-0-t are missing."),
            status(status_code=99, status_detail="?"),
        ),
        active_tasks=(streams_group_heartbeat.TaskIds(subtopology_id="0", partitions=(1, 0)),),
    )
    fields = observe(parse_step("streams-heartbeat a -> NONE"), response, 1, a_cast()).fields
    assert fields["status"] == "MISSING_SOURCE_TOPICS,STATUS_99"
    assert fields["detail"] == "Source topics t are missing. ?"
    assert (fields["active"], fields["standby"]) == ("0_0,0_1", "unchanged")


@pytest.mark.parametrize(
    ("line", "api"),
    [
        ("share-fetch a t-0 exact=true -> NONE", "ShareFetch"),
        ("share-acknowledge a t-0=0:renew renew=true -> NONE", "ShareAcknowledge"),
        ("share-acknowledge a t-0=0:accept -> NONE lock=30000", "ShareAcknowledge"),
    ],
)
def test_what_an_older_version_cannot_say_is_not_asked(line: str, api: str) -> None:
    cast = a_cast()
    cast.max_versions = {78: 1, 79: 1}
    with pytest.raises(Unsupported, match=f"needs {api} v2, the broker serves it up to v1"):
        build_request(parse_step(line), cast)
