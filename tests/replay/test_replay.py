"""A replay gives the answers of the recording; with other settings, those that follow from them."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from time import process_time

import pytest

from kshim.broker.connection import ConnectionClosing
from kshim.recording.format import Encoder, Kind, RecordingError, as_json
from kshim.replay.compare import FieldDifference
from kshim.replay.replay import replay
from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.api_versions import ApiVersionsRequest
from kshim_protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kshim_protocol.messages.delete_topics import DeleteTopicsRequest
from kshim_protocol.messages.init_producer_id import InitProducerIdRequest
from kshim_protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.broker.harness import files_in
from tests.recording.session import HOUR_MS, Member, Recorded, a_stable_member
from tests.recording.test_recorder import session


def test_a_session_replays_without_a_difference() -> None:
    recorded = Recorded({"group.initial.rebalance.delay.ms": "3000"}, topics={"t": 1})
    node = recorded.node
    a, b = Member(node, "a"), Member(node, "b")
    for member in (a, b):
        member.send_join()
        member.take_join()
        member.send_join()
    node.pass_ms(6_000)
    for member in (a, b):
        member.take_join()
    a.sync({a.member_id: b"1", b.member_id: b"2"})
    b.sync()
    b.client.unread.clear()
    node.pass_ms(60_000)
    result = recorded.replay()
    assert (result.differences, result.notes, result.defects) == ([], [], [])
    assert result.request_count == result.compared_count == 6
    assert result.is_ended


def test_members_that_expire_and_rejoin_replay_without_a_difference() -> None:
    recorded = Recorded({"group.initial.rebalance.delay.ms": "0"}, topics={"t": 1})
    session(recorded.node)
    result = recorded.replay()
    assert (result.differences, result.defects) == ([], [])


def test_hours_replay_in_virtual_time() -> None:
    recorded = Recorded()
    member = a_stable_member(recorded.node)
    for _ in range(1_200):
        recorded.node.pass_ms(30_000)
        assert member.heartbeat() == ErrorCode.NONE
    recorded.node.pass_ms(46_000)
    assert member.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID
    began_s = process_time()  # other processes may keep this one from running
    result = recorded.replay()
    assert process_time() - began_s < 1
    assert result.differences == []
    assert result.recorded_ms > 10 * HOUR_MS


def test_topics_and_producers_get_the_ids_they_had() -> None:
    recorded = Recorded({"auto.create.topics.enable": "true"})
    client = recorded.node.client()
    topic = CreatableTopic(name="made", num_partitions=2, replication_factor=1, assignments=(), configs=())
    client.ask(CreateTopicsRequest(topics=(topic,), timeout_ms=1_000))
    client.ask(MetadataRequest(topics=(MetadataRequestTopic(name="auto"),), allow_auto_topic_creation=True), 12)
    client.ask(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1_000))
    client.ask(InitProducerIdRequest(transactional_id="tx", transaction_timeout_ms=1_000))
    client.ask(DeleteTopicsRequest(topic_names=("made",), timeout_ms=1_000), 5)
    recorded.node.topic("from-outside", 3)
    client.ask(MetadataRequest(topics=None), 12)
    result = recorded.replay()
    assert (result.differences, result.notes) == ([], [])


def test_a_recording_of_several_brokers_has_their_moves() -> None:
    recorded = Recorded({"group.initial.rebalance.delay.ms": "0"}, topics={"t": 4}, node_count=3)
    node = recorded.node
    node.cluster.leader_election.move("t", 0, 3)
    client = node.client()
    client.ask(MetadataRequest(topics=None), 12)
    node.cluster.leader_election.stop_node(3)
    client.ask(MetadataRequest(topics=None), 12)
    node.cluster.leader_election.start_node(3)
    client.ask(MetadataRequest(topics=None), 12)
    assert recorded.replay().differences == []


def test_a_recording_over_a_data_directory_begins_with_what_that_holds(tmp_path: Path) -> None:
    before = Recorded({"group.initial.rebalance.delay.ms": "0"}, topics={"t": 1}, storage=files_in(tmp_path))
    member = a_stable_member(before.node)
    member.commit(7)
    before.node.close()

    recorded = Recorded(storage=files_in(tmp_path))
    recorded.node.run_background_tasks()
    again = Member(recorded.node, "a")
    again.member_id, again.generation_id = member.member_id, member.generation_id
    assert again.heartbeat() == ErrorCode.NONE
    recorded.node.pass_ms(46_000)
    assert again.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID
    recorded.node.client().ask(MetadataRequest(topics=None), 12)
    result = recorded.replay()
    recorded.node.close()
    assert (result.differences, result.defects) == ([], [])


def test_an_api_that_is_not_known_is_refused_again() -> None:
    recorded = Recorded()
    client = recorded.node.client()
    client.ask(ApiVersionsRequest(), 3)
    with pytest.raises(ConnectionClosing):
        recorded.node.route(b"\x4e\x20\0\0\0\0\0\1\xff\xff", client)
    client.close()
    result = recorded.replay()
    assert result.differences == []
    assert result.notes == ["request 2, a request of an unknown API, is not in the recording: it is no request"]


def test_another_setting_changes_the_answers_that_follow_from_it_and_no_other() -> None:
    recorded = Recorded(topics={"t": 1})
    member = a_stable_member(recorded.node, session_ms=30_000)
    member.commit(3)
    member.heartbeat()
    result = recorded.replay(offset_metadata_max_bytes="-1")
    assert [(found.request, found.api, found.client_id, found.group_id) for found in result.differences] == [
        (4, "OffsetCommit", "a", "g")
    ]
    assert result.differences[0].fields == (
        FieldDifference("topics[t].partitions[0].error_code", "NONE", "OFFSET_METADATA_TOO_LARGE"),
    )


def test_a_rebalance_delay_that_is_left_out_changes_times_only() -> None:
    recorded = Recorded({"group.initial.rebalance.delay.ms": "3000"})
    member = Member(recorded.node, "a")
    member.send_join()
    member.take_join()
    member.send_join()
    recorded.node.pass_ms(3_000)
    member.take_join()
    assert recorded.replay(group_initial_rebalance_delay_ms="0").differences == []
    (found,) = recorded.replay(timing_ms=100, group_initial_rebalance_delay_ms="0").differences
    assert (found.api, found.fields) == ("JoinGroup", (FieldDifference("(ms)", "3000", "0"),))


def test_a_request_waits_until_the_one_before_it_is_answered() -> None:
    recorded = Recorded({"group.initial.rebalance.delay.ms": "0"})
    member = a_stable_member(recorded.node)
    member.heartbeat()
    result = recorded.replay(group_initial_rebalance_delay_ms="5000")
    recorded.node.pass_ms(1)
    assert [found.fields for found in result.differences if found.api == "Heartbeat"] == [
        (FieldDifference("answer", "12 bytes", "(no answer yet)"),)
    ]


def test_members_keep_their_generation_where_another_setting_gives_them_another() -> None:
    recorded = Recorded({"group.initial.rebalance.delay.ms": "3000"}, topics={"t": 1})
    node = recorded.node
    a, b = Member(node, "a"), Member(node, "b")
    for member in (a, b):
        member.send_join()
        member.take_join()
        member.send_join()
    node.pass_ms(6_000)
    a.take_join()
    b.take_join()
    b.leave()
    a.heartbeat()
    a.send_join()
    a.take_join()
    result = recorded.replay(group_initial_rebalance_delay_ms="0")
    first, *_ = result.differences
    assert (first.api, first.client_id) == ("JoinGroup", "a")
    assert FieldDifference("members.length", "2", "1") in first.fields


def test_a_recording_that_was_cut_off_replays_up_to_there() -> None:
    recorded = Recorded()
    member = a_stable_member(recorded.node)
    for _ in range(20):
        recorded.node.pass_ms(1_000)
        member.heartbeat()
    data = recorded.data
    end = len(data) * 3 // 4
    results = [replay(BytesIO(data[:end])), replay(BytesIO(data[: end + 1]))]  # one of them ends within an entry
    for result in results:
        assert result.differences == []
        assert 4 < result.request_count < 23
        assert not result.is_ended
    assert any(result.damage is not None for result in results)


def test_a_recording_without_a_beginning_is_refused() -> None:
    with pytest.raises(RecordingError, match="how it began"):
        replay(BytesIO(Recorded().data[:12]))


def test_entries_that_cannot_be_are_no_traceback() -> None:
    encoder = Encoder()
    (start, *_) = Recorded().entries()
    encoder.add(*start)
    encoder.add(Kind.DISCONNECTED, start.now, start.real_ms, 7)
    with pytest.raises(RecordingError, match="what follows 0 requests cannot be played"):
        replay(BytesIO(encoder.header() + encoder.block()))


def test_kinds_of_a_newer_kshim_are_skipped() -> None:
    encoder = Encoder()
    (start, *_, end) = Recorded().entries()
    encoder.add(*start)
    encoder.add(200, start.now, start.real_ms, 7, b"?")
    encoder.add(Kind.OPERATION, start.now, start.real_ms, 0, b'{"what":"fly","height":3}')
    encoder.add(*end)
    result = replay(BytesIO(encoder.header() + encoder.block()))
    assert (result.differences, result.is_ended) == ([], True)
    assert result.notes == ["the operation fly {'height': 3}"]


def test_a_node_that_comes_to_another_address_is_found_there() -> None:
    recorded = Recorded()
    node = recorded.node
    node.client().ask(MetadataRequest(topics=()), 12)
    node.node.node.port = 19092
    node.client().ask(MetadataRequest(topics=()), 12)
    assert recorded.replay().differences == []


ASKING_FOR_LEVELS = ApiVersionsRequest(client_software_name="a", client_software_version="1")


@pytest.mark.parametrize("config", [{}, {"kshim.transaction.version": "0"}], ids=["default", "given"])
def test_the_levels_of_features_are_those_of_the_recording_unless_set(config: dict[str, str]) -> None:
    recorded = Recorded(config)
    recorded.node.client().ask(ASKING_FOR_LEVELS, 4)
    data = recorded.data
    assert replay(BytesIO(data)).differences == []
    (difference,) = replay(BytesIO(data), {"kshim.transaction.version": "1"}).differences
    assert difference.fields[0].path.startswith("finalized_features")


def test_a_recording_that_says_nothing_of_features_was_made_at_level_0() -> None:
    recorded = Recorded({"kshim.transaction.version": "0"})
    recorded.node.client().ask(ASKING_FOR_LEVELS, 4)
    start, *others = recorded.entries()
    fields = {**start.fields, "config": {}, "documents": {}}
    encoder = Encoder()
    for entry in (start._replace(payload=as_json(fields)), *others):
        encoder.add(*entry)
    assert replay(BytesIO(encoder.header() + encoder.block())).differences == []
