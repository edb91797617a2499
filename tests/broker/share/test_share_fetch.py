"""ShareFetch and ShareAcknowledge as a client sees them. What is answered when is that of a live 4.4."""

from __future__ import annotations

from pathlib import Path

import pytest

from kshim.coordinator.hash_order import scala_map_order, topic_id_partition_hash
from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
)
from kshim_protocol.messages.api_versions import ApiVersionsRequest
from kshim_protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from kshim_protocol.messages.share_fetch import ShareFetchResponse
from kshim_protocol.messages.share_group_heartbeat import ShareGroupHeartbeatResponse
from kshim_protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from kshim_protocol.messages.write_share_group_state import (
    PartitionData,
    StateBatch,
    WriteShareGroupStateRequest,
    WriteStateData,
)
from tests.broker.data_plane import a_batch, produce, produce_of
from tests.broker.harness import NodeUnderTest, a_node, files_in
from tests.broker.share.members import Member, Said, a_share_node, in_words, offsets_in
from tests.broker.transactional import TransactionalProducer

ACCEPT, RELEASE, REJECT, RENEW = (1,), (2,), (3,), (4,)
LOCK_MS = 30_000


def configured(node: NodeUnderTest, **configs: str) -> NodeUnderTest:
    """The group `g` has these `share.*` configs; names with `_` for `.`."""
    texts = {f"share.{name.replace('_', '.')}": text for name, text in configs.items()}
    node.cluster.dynamic_configs.replace("groups", "g", texts)
    return node


def a_reader(
    node: NodeUnderTest | None = None, *, batches: int = 3, reset: str = "earliest", **configs: str
) -> tuple[NodeUnderTest, Member]:
    """A node with batches of five records, and a member `a` that reads from the beginning, without its first answer."""
    node = node or a_share_node()
    configured(node, auto_offset_reset=reset, **configs)
    for _ in range(batches):
        produce(node.client("p"), "t", a_batch(*(b"%d" % number for number in range(5))))
    member = Member(node, "a")
    member.join()
    return node, member


def moving(topic: str, index: int, *, start_offset: int) -> AlterShareGroupOffsetsRequest:
    """The group `g` is to begin one partition anew."""
    partition = AlterShareGroupOffsetsRequestPartition(partition_index=index, start_offset=start_offset)
    altered = AlterShareGroupOffsetsRequestTopic(topic_name=topic, partitions=(partition,))
    return AlterShareGroupOffsetsRequest(group_id="g", topics=(altered,))


def deletion(offset: int) -> DeleteRecordsRequest:
    """Of the records of partition 0 before `offset`."""
    partition = DeleteRecordsPartition(partition_index=0, offset=offset)
    topic = DeleteRecordsTopic(name="t", partitions=(partition,))
    return DeleteRecordsRequest(topics=(topic,), timeout_ms=1_000)


def test_records_are_acquired_acknowledged_and_not_delivered_again() -> None:
    _, member = a_reader()
    first = member.fetch()
    assert in_words(first) == "0:0-14x1"
    assert offsets_in(first) == list(range(15))
    assert first.acquisition_lock_timeout_ms == LOCK_MS
    assert member.acquire(said={0: [(0, 14, ACCEPT)]}) == "0:"
    assert member.acquire() == ""


def test_a_second_member_gets_what_the_first_does_not_hold() -> None:
    node, first = a_reader()
    second = Member(node, "b")
    second.heartbeat(0, ("t",))
    assert first.acquire(max_records=1) == "0:0-4x1"
    assert second.acquire(max_records=1) == "0:5-9x1"
    assert first.acquire() == "0:10-14x1"
    assert second.acquire() == ""


def test_a_lock_that_ends_returns_records_to_others() -> None:
    node, first = a_reader()
    first.acquire()
    second = Member(node, "b")
    node.pass_ms(LOCK_MS - 1)
    assert second.acquire() == "0:"
    node.pass_ms(1)
    assert second.acquire() == "0:0-14x2"
    assert first.say((0, 14, ACCEPT)) == "INVALID_RECORD_STATE Member is not the owner of batch record"


def test_of_locks_that_end_at_the_same_time_that_first_which_began_first() -> None:
    node = configured(a_share_node(partitions=2), auto_offset_reset="earliest")
    for index in (0, 1):
        produce(node.client(f"p{index}"), "t", a_batch(b"x"), first_partition=index)
    member, waiting = Member(node, "a"), Member(node, "b")
    member.join()
    assert [member.acquire(partitions=(index,)) for index in (1, 0)] == ["1:0-0x1", "0:0-0x1"]
    waiting.acquire(partitions=(0, 1))
    waiting.client.send(waiting.fetch_request(max_wait_ms=2 * LOCK_MS))
    node.pass_ms(LOCK_MS)
    assert in_words(waiting.client.take(ShareFetchResponse)) == "1:0-0x2"


def test_a_lock_ends_though_nobody_reads_the_group_any_more() -> None:
    node, member = a_reader(batches=1)
    assert member.acquire() == "0:0-4x1"
    member.fetch(partitions=(), forget=(0,))  # what the session does not have at its end is not given back
    member.client.close()
    node.pass_ms(LOCK_MS)
    assert Member(node, "b").acquire() == "0:0-4x2"


def test_a_renewed_lock_holds_longer() -> None:
    node, member = a_reader()
    member.acquire()
    node.pass_ms(LOCK_MS - 1)
    assert member.say((0, 4, RENEW), renews=True) == "NONE"
    node.pass_ms(1)
    assert Member(node, "b").acquire() == "0:5-14x2"


@pytest.mark.parametrize("is_enabled", ["true", "false"])
def test_renewal_may_be_switched_off(is_enabled: str) -> None:
    _, member = a_reader(renew_acknowledge_enable=is_enabled)
    member.acquire()
    expected = (
        "NONE"
        if is_enabled == "true"
        else "INVALID_RECORD_STATE Renewing acquisition locks is not enabled for the group."
    )
    assert member.say((0, 4, RENEW), renews=True) == expected


def test_a_fetch_waits_for_records_and_is_answered_when_they_come() -> None:
    node, member = a_reader(batches=0)
    assert member.acquire() == "0:"
    member.client.send(member.fetch_request(max_wait_ms=500))
    assert member.client.is_waiting
    produce(node.client("p"), "t", a_batch(b"x"))
    assert in_words(member.client.take(ShareFetchResponse)) == "0:0-0x1"


def test_a_fetch_that_waits_in_vain_is_answered_when_its_time_is_over() -> None:
    node, member = a_reader(batches=0)
    member.acquire()
    member.client.send(member.fetch_request(max_wait_ms=500))
    node.pass_ms(499)
    assert member.client.is_waiting
    node.pass_ms(1)
    assert in_words(member.client.take(ShareFetchResponse)) == ""


def test_whoever_waits_is_not_woken_by_a_release_and_gets_what_it_left_when_the_time_is_over() -> None:
    node, first = a_reader()
    first.acquire()
    others = [Member(node, "b"), Member(node, "c")]
    for other in others:
        other.acquire()
        other.client.send(other.fetch_request(max_wait_ms=5_000))
    assert first.say((0, 4, RELEASE)) == "NONE"
    assert all(other.client.is_waiting for other in others)
    node.pass_ms(5_000)
    assert [in_words(other.client.take(ShareFetchResponse)) for other in others] == ["0:0-4x2", ""]


@pytest.mark.parametrize(
    "what", ["something acknowledged", "something refused", "a session closed", "a connection gone"]
)
def test_whoever_waits_finds_what_was_released_before_when_something_else_happens_to_the_partition(what: str) -> None:
    node, first = a_reader(batches=2)
    first.acquire(max_records=1)
    second, waiting = Member(node, "b"), Member(node, "c")
    second.acquire(max_records=1)
    waiting.acquire()
    waiting.client.send(waiting.fetch_request(max_wait_ms=5_000))
    assert first.say((0, 4, RELEASE)) == "NONE"
    assert waiting.client.is_waiting
    if what == "something acknowledged":
        assert second.say((5, 9, RELEASE)) == "NONE"
    elif what == "something refused":
        assert second.say((0, 4, RELEASE)).startswith("INVALID_RECORD_STATE")
    elif what == "a session closed":
        second.acquire(partitions=(), epoch=-1)
    else:
        second.client.close()
    assert in_words(waiting.client.take(ShareFetchResponse)) == "0:0-4x2"


def test_whoever_waits_for_two_partitions_finds_what_was_released_of_one_when_something_happens_to_the_other() -> None:
    node, first = a_reader(a_share_node(partitions=2), batches=1)
    produce(node.client("p1"), "t", a_batch(b"x"), first_partition=1)
    first.acquire()
    second, waiting = Member(node, "b"), Member(node, "c")
    second.acquire(partitions=(1,))
    waiting.acquire(partitions=(0, 1))
    waiting.client.send(waiting.fetch_request(max_wait_ms=5_000))
    assert first.say((0, 4, RELEASE)) == "NONE"
    assert waiting.client.is_waiting
    second.client.close()  # what it releases by that is not there yet
    assert in_words(waiting.client.take(ShareFetchResponse)) == "0:0-4x2"


def test_what_a_session_gives_back_of_one_partition_is_not_there_for_those_whom_the_next_one_wakes() -> None:
    node, first = a_reader(a_share_node(partitions=2), batches=1)
    first.acquire(partitions=(0, 1))
    waiting = Member(node, "b")
    waiting.acquire(partitions=(0, 1))
    waiting.client.send(waiting.fetch_request(max_wait_ms=5_000))
    first.client.close()
    assert waiting.client.is_waiting


def test_whoever_waits_for_committed_records_finds_what_was_released_when_others_are_written() -> None:
    node, first = a_reader(batches=1, isolation_level="read_committed")
    first.acquire()
    waiting = Member(node, "b")
    waiting.acquire()
    waiting.client.send(waiting.fetch_request(max_wait_ms=5_000))
    assert first.say((0, 4, RELEASE)) == "NONE"
    TransactionalProducer(node.client("x")).write("t", 0, b"not committed yet")
    assert in_words(waiting.client.take(ShareFetchResponse)) == "0:0-4x2"


def test_who_reads_behind_what_is_committed_is_answered_with_nothing_at_once() -> None:
    node, member = a_reader(batches=0)
    TransactionalProducer(node.client("x")).write("t", 0, b"not committed yet")
    assert member.acquire() == "0:0-0x1"
    configured(node, isolation_level="read_committed")
    assert member.acquire(max_wait_ms=5_000) == ""


def test_who_waits_for_committed_records_goes_on_doing_so_when_the_group_no_longer_asks_for_that() -> None:
    node, member = a_reader(batches=0, isolation_level="read_committed")
    member.client.send(member.fetch_request(max_wait_ms=5_000))
    configured(node, isolation_level="read_uncommitted")
    producer = TransactionalProducer(node.client("x"))
    producer.write("t", 0, b"not committed yet")
    assert member.client.is_waiting
    producer.end(committed=True)
    assert in_words(member.client.take(ShareFetchResponse)) == "0:0-1x1"


def test_what_a_session_releases_with_its_end_stays_with_the_fetch_of_it_that_still_waits() -> None:
    node, member = a_reader(batches=2)
    member.acquire(batch_size=1)
    member.client.send(member.fetch_request(max_wait_ms=5_000))
    aside = Member(node, "a", node.client("aside"))
    aside.fetch(epoch=-1, said={0: [(0, 4, ACCEPT), (5, 9, RELEASE)]})
    assert not member.client.is_waiting
    assert Member(node, "b").acquire() == "0:"  # as in Kafka: the session had ended when they were acquired


def test_what_one_member_leaves_of_records_that_were_released_goes_to_whoever_waits() -> None:
    node, first = a_reader(batches=2)
    first.acquire(max_records=1)
    first.acquire(max_records=1)
    waiting = [Member(node, name) for name in ("b", "c")]
    for each in waiting:
        each.acquire()
        each.client.send(each.fetch_request(max_wait_ms=5_000, max_records=1))
    assert first.say((0, 9, RELEASE)) == "NONE"
    assert all(each.client.is_waiting for each in waiting)
    produce(node.client("p2"), "t", a_batch(b"x"))
    assert [in_words(each.client.take(ShareFetchResponse)) for each in waiting] == ["0:0-4x2", "0:5-9x2"]


def test_many_that_wait_are_served_one_after_the_other() -> None:
    node, first = a_reader(batches=400)
    assert first.acquire(max_records=5_000, batch_size=1).startswith("0:0-4x1,5-9x1")
    waiting = [Member(node, f"w{number}") for number in range(300)]
    for each in waiting:
        each.acquire()
        each.client.send(each.fetch_request(max_wait_ms=60_000, max_records=1, batch_size=1))
    node.pass_ms(LOCK_MS)
    assert not any(each.client.is_waiting for each in waiting)


def test_what_is_said_of_one_partition_may_give_a_member_records_of_the_next_one() -> None:
    node, member = a_reader(a_share_node(partitions=2), batches=1)
    produce(node.client("p1"), "t", a_batch(*(b"%d" % number for number in range(5))), first_partition=1)
    member.acquire(partitions=(0, 1))
    member.acquire()
    released = {index: [(0, 4, RELEASE)] for index in (0, 1)}
    member.client.send(member.fetch_request(said=released, max_wait_ms=5_000))
    aside = Member(node, "a", node.client("aside"))
    told = aside.fetch(epoch=-1, said=released)
    # Nobody holds the first of them, and whoever waits is given both then.
    order = scala_map_order((0, 1), lambda index: topic_id_partition_hash(member.topic_id, "t", index))
    errors = {one.partition_index: one.acknowledge_error_code for topic in told.responses for one in topic.partitions}
    assert [errors[index] for index in order] == [ErrorCode.INVALID_RECORD_STATE, ErrorCode.NONE]


def test_a_session_that_ends_without_records_lets_others_look_too() -> None:
    node, first = a_reader(batches=1)
    first.acquire()
    waiting = Member(node, "b")
    waiting.acquire()
    waiting.client.send(waiting.fetch_request(max_wait_ms=5_000))
    assert first.say((0, 4, RELEASE)) == "NONE"
    first.acquire(partitions=(), epoch=-1)
    assert in_words(waiting.client.take(ShareFetchResponse)) == "0:0-4x2"


def test_a_fetch_that_waits_says_nothing_of_partitions_that_its_session_was_given_since() -> None:
    node, member = a_reader(batches=0)
    member.client.send(member.fetch_request(max_wait_ms=5_000))
    aside = Member(node, "a", node.client("aside"))
    assert aside.acquire(partitions=(0, 7), epoch=1, min_bytes=0) == "7:UNKNOWN_TOPIC_OR_PARTITION"
    produce(node.client("p"), "t", a_batch(b"x"))
    assert in_words(member.client.take(ShareFetchResponse)) == "0:0-0x1"


def test_a_fetch_that_waits_gets_nothing_of_a_partition_that_another_node_leads_by_then() -> None:
    node = configured(a_share_node(node_count=2), auto_offset_reset="earliest")
    member = Member(node, "a", node.client("a", node_id=1))
    member.join()
    member.acquire()
    member.client.send(member.fetch_request(max_wait_ms=500))
    node.cluster.leader_election.move("t", 0, 2)
    produce(node.client("p", node_id=2), "t", a_batch(b"x"))
    assert member.client.is_waiting
    node.pass_ms(500)
    assert in_words(member.client.take(ShareFetchResponse)) == ""
    assert Member(node, "b", node.client("b", node_id=2)).acquire() == "0:0-0x1"


def test_the_first_fetch_of_several_partitions_is_answered_when_those_that_were_read_so_far_are_enough() -> None:
    node = configured(a_share_node(partitions=4), auto_offset_reset="earliest")
    for index in (1, 2):
        produce(node.client(f"p{index}"), "t", a_batch(b"x"), first_partition=index)
    member = Member(node, "a")
    member.join()
    assert member.acquire(partitions=(0, 1, 2, 3)) == "0: 1:0-0x1"
    assert member.acquire() == "2:0-0x1"


def test_partitions_that_do_not_exist_take_no_turn() -> None:
    node = configured(a_share_node(partitions=2), auto_offset_reset="earliest")
    member = Member(node, "a")
    member.join()
    produce(node.client("p"), "t", a_batch(b"x"))
    assert member.acquire(partitions=(7,)) == "7:UNKNOWN_TOPIC_OR_PARTITION"
    # Of the two that exist the second is read first, and is enough for a request that wants no bytes.
    assert member.acquire(partitions=(0, 1), min_bytes=0) == "1: 7:UNKNOWN_TOPIC_OR_PARTITION"


def test_the_first_fetch_of_several_partitions_waits_until_those_that_were_read_are_enough() -> None:
    node = configured(a_share_node(partitions=3), auto_offset_reset="earliest")
    for index in (0, 1):
        produce(node.client(f"p{index}"), "t", a_batch(b"x"), first_partition=index)
    member = Member(node, "a")
    member.join()
    assert member.acquire(partitions=(0, 1, 2), min_bytes=100) == "0:0-0x1 1:0-0x1"


def test_whoever_waits_is_woken_by_a_lock_that_ends_and_the_next_one_goes_on_waiting() -> None:
    node, first = a_reader()
    first.acquire()
    others = [Member(node, "b"), Member(node, "c")]
    for other in others:
        other.acquire()
        other.client.send(other.fetch_request(max_wait_ms=40_000))
    node.pass_ms(30_000)
    answered = [other for other in others if not other.client.is_waiting]
    assert [in_words(other.client.take(ShareFetchResponse)) for other in answered] == ["0:0-14x2"]
    node.pass_ms(10_000)
    assert not any(other.client.is_waiting for other in others)


def test_a_lock_begins_when_the_records_are_sent_not_when_they_were_asked_for() -> None:
    node, member = a_reader(batches=0)
    member.acquire()
    member.client.send(member.fetch_request(max_wait_ms=20_000))
    node.pass_ms(15_000)
    produce(node.client("p"), "t", a_batch(b"x"))
    member.client.take(ShareFetchResponse)
    node.pass_ms(LOCK_MS - 1)
    assert Member(node, "b").acquire() == "0:"


@pytest.mark.parametrize(
    ("reset", "expected"), [("earliest", "0:0-14x1"), ("latest", "0:"), ("by_duration:PT1H", "0:0-14x1")]
)
def test_a_group_begins_where_its_configuration_says(reset: str, expected: str) -> None:
    _, member = a_reader(reset=reset)
    assert member.acquire() == expected


def test_where_no_record_is_new_enough_the_group_waits_with_an_error() -> None:
    node, member = a_reader(reset="by_duration:PT1S")
    node.pass_ms(10_000)
    assert member.acquire() == "0:OFFSET_NOT_AVAILABLE"


def test_a_fetch_of_which_no_partition_can_be_read_waits_like_one_that_finds_nothing() -> None:
    node, member = a_reader(reset="by_duration:PT1S")
    node.pass_ms(10_000)
    member.client.send(member.fetch_request(partitions=(0, 7), max_wait_ms=500))
    node.pass_ms(499)
    assert member.client.is_waiting
    node.pass_ms(1)
    assert in_words(member.client.take(ShareFetchResponse)) == "0:OFFSET_NOT_AVAILABLE 7:UNKNOWN_TOPIC_OR_PARTITION"


def test_sessions_open_go_on_and_end() -> None:
    _, member = a_reader()
    assert member.acquire(epoch=5) == "! SHARE_SESSION_NOT_FOUND"
    assert member.acquire(epoch=-1) == "! SHARE_SESSION_NOT_FOUND"
    member.session_epoch = 0
    assert member.acquire(said={0: [(0, 0, ACCEPT)]}) == "! INVALID_REQUEST"
    assert member.acquire(max_records=1) == "0:0-4x1"
    assert member.acquire(epoch=7) == "! INVALID_SHARE_SESSION_EPOCH"
    assert member.say((0, 0, ACCEPT), epoch=0) == "! INVALID_SHARE_SESSION_EPOCH"
    assert member.acquire(max_records=1) == "0:5-9x1"
    last = member.fetch(epoch=-1, said={0: [(0, 4, ACCEPT)]})
    assert in_words(last) == "0:"
    assert member.acquire(epoch=3) == "! SHARE_SESSION_NOT_FOUND"
    member.session_epoch = 0
    assert member.acquire() == "0:5-9x2,10-14x1"


def test_a_session_ends_with_its_connection_and_releases_what_is_held() -> None:
    node, member = a_reader()
    member.acquire()
    member.client.close()
    other = Member(node, "b")
    assert other.acquire() == "0:0-14x2"
    again = Member(node, "a")
    assert again.acquire(epoch=1) == "! SHARE_SESSION_NOT_FOUND"


def test_whoever_goes_away_while_acknowledgements_are_written_gives_back_what_it_was_given_meanwhile(
    tmp_path: Path,
) -> None:
    node = configured(a_share_node(storage=files_in(tmp_path), fsync="always"), auto_offset_reset="earliest")
    for _ in range(2):
        node.client("p").send(produce_of("t", a_batch(*(b"%d" % number for number in range(5)))), 12)
    member = Member(node, "a")
    member.client.send(member.heartbeat_request(0, ("t",)))
    for _ in range(3):
        node.run_background_tasks()
        node.pass_ms(1_000)
    member.client.take(ShareGroupHeartbeatResponse)
    assert member.acquire(max_records=5) == "0:0-4x1"
    member.client.send(member.fetch_request(said={0: [(0, 4, ACCEPT)]}))
    assert member.client.is_waiting
    member.client.close()
    node.run_background_tasks()
    other = Member(node, "b")
    assert other.acquire() == "0:5-9x2"
    node.close()


def test_the_session_may_be_used_from_another_connection() -> None:
    node, member = a_reader()
    member.acquire(max_records=1)
    member.client = node.client("other")
    assert member.acquire(max_records=1) == "0:5-9x1"


@pytest.mark.parametrize("member_id", ["", "x" * 37])
def test_members_have_ids(member_id: str) -> None:
    _, member = a_reader()
    member.member_id = member_id
    assert member.acquire() == "! INVALID_REQUEST"
    assert member.say((0, 0, ACCEPT), epoch=1) == "! INVALID_REQUEST"


def test_errors_of_partitions_are_answered_at_once_until_they_are_forgotten() -> None:
    node, member = a_reader(a_share_node(partitions=2))
    assert member.acquire(partitions=(7,), max_wait_ms=1_000) == "7:UNKNOWN_TOPIC_OR_PARTITION"
    assert member.acquire(partitions=(), max_wait_ms=1_000) == "7:UNKNOWN_TOPIC_OR_PARTITION"
    member.client.send(member.fetch_request(partitions=(1,), forget=(7,), max_wait_ms=1_000))
    node.pass_ms(1_000)
    assert in_words(member.client.take(ShareFetchResponse)) == "1:"
    member.session_epoch += 1
    unknown = member.fetch(partitions=(0,), topic_id=b"?" * 16)
    assert in_words(unknown) == "0:UNKNOWN_TOPIC_ID"


def test_a_negative_batch_size_is_none() -> None:
    found = []
    for batch_size in (0, -1):
        _, member = a_reader(batches=2)
        assert member.acquire(max_records=1) == "0:0-4x1"
        assert member.say((0, 4, RELEASE)) == "NONE"
        found.append(member.acquire(batch_size=batch_size))
    assert found[0] == found[1] != ""


def test_what_a_session_gives_back_with_its_end_is_not_there_for_those_whom_the_end_wakes() -> None:
    node, member = a_reader(batches=2)
    member.acquire(batch_size=1)
    waiting = Member(node, "b")
    waiting.acquire()
    waiting.client.send(waiting.fetch_request(max_wait_ms=5_000))
    # The start moves behind what is accepted, which wakes; the rest is given back, but that is not written yet.
    member.fetch(epoch=-1, said={0: [(0, 4, ACCEPT)]}, partitions=())
    assert waiting.client.is_waiting


def test_a_fetch_waits_until_there_are_as_many_bytes_as_it_wants() -> None:
    node, member = a_reader(batches=1)
    member.client.send(member.fetch_request(min_bytes=120, max_wait_ms=500))
    assert member.client.is_waiting
    produce(node.client("p"), "t", a_batch(b"x" * 100))
    assert in_words(member.client.take(ShareFetchResponse)) == "0:0-5x1"


def test_a_fetch_that_wants_no_bytes_is_answered_at_once() -> None:
    _, member = a_reader(batches=0)
    assert member.acquire() == "0:"
    assert member.acquire(min_bytes=0, max_wait_ms=500) == ""


def test_what_is_released_is_for_the_next_request_unless_there_is_nothing_else() -> None:
    node, member = a_reader(batches=2)
    assert member.acquire(max_records=5) == "0:0-4x1"
    assert member.acquire(said={0: [(0, 4, RELEASE)]}) == "0:5-9x1"
    assert member.acquire() == "0:0-4x2"
    member.client.send(member.fetch_request(said={0: [(0, 4, RELEASE)]}, max_wait_ms=500))
    node.pass_ms(500)
    assert in_words(member.client.take(ShareFetchResponse)) == "0:0-4x3"


def test_partitions_of_which_nothing_is_said_are_answered_if_something_is_said_of_another() -> None:
    _, member = a_reader(a_share_node(partitions=2), batches=1)
    member.acquire(partitions=(0, 1))
    assert member.acquire(partitions=(0, 1)) == ""
    assert member.acquire(partitions=(1,), said={0: [(0, 0, ACCEPT)]}) == "0: 1:"
    assert member.acquire(partitions=(1,), said={0: [(9, 8, ACCEPT)]}) == "0:ack INVALID_REQUEST"


def test_a_group_of_which_nobody_has_a_session_begins_where_its_configuration_says_now() -> None:
    node, member = a_reader(batches=1)
    member.acquire(max_records=0)
    node.cluster.dynamic_configs.replace("groups", "g", {"share.auto.offset.reset": "latest"})
    member.client.close()
    again = Member(node, "a", node.client("again"))
    assert again.acquire() == "0:"
    produce(node.client("p"), "t", a_batch(b"new"))
    assert again.acquire() == "0:5-5x1"


def test_of_two_partitions_that_one_comes_first_which_did_not_in_the_request_before() -> None:
    node, member = a_reader(a_share_node(partitions=2), batches=0)
    member.acquire(partitions=(0, 1))
    for index in (0, 1):
        produce(node.client(f"p{index}"), "t", a_batch(b"x", b"y"), first_partition=index)
    few = {"max_records": 1, "mode": 1}
    assert [member.acquire(**few) for _ in range(3)] == ["1:0-0x1", "0:0-0x1", "1:1-1x1"]


def test_errors_of_some_partitions_are_told_when_there_is_something_to_say_of_the_others() -> None:
    node, member = a_reader(batches=0)
    member.client.send(member.fetch_request(partitions=(0, 7), max_wait_ms=500))
    assert member.client.is_waiting
    produce(node.client("p"), "t", a_batch(b"x"))
    assert in_words(member.client.take(ShareFetchResponse)) == "0:0-0x1 7:UNKNOWN_TOPIC_OR_PARTITION"


def test_a_group_without_a_name_has_no_states() -> None:
    node = a_share_node()
    assert Member(node, "a", group_id="").acquire() == "0:UNKNOWN_SERVER_ERROR"


def test_a_mode_that_does_not_exist_is_an_error() -> None:
    _, member = a_reader()
    assert member.acquire(mode=2) == "! UNKNOWN_SERVER_ERROR"
    assert member.acquire(mode=2, max_records=0) == "! UNKNOWN_SERVER_ERROR"


def test_what_is_held_of_a_partition_that_the_session_has_forgotten_stays_until_its_lock_ends() -> None:
    node, member = a_reader(batches=1)
    assert member.acquire() == "0:0-4x1"
    member.acquire(partitions=(), forget=(0,))
    member.acknowledge(epoch=-1)
    other = Member(node, "b")
    assert other.acquire() == "0:"
    node.pass_ms(LOCK_MS)
    assert other.acquire() == "0:0-4x2"


def test_a_connection_takes_the_session_with_it_that_it_opened_last() -> None:
    node, member = a_reader(batches=1)
    other = Member(node, "b", client=member.client)
    assert (member.acquire(max_records=5), other.acquire()) == ("0:0-4x1", "0:")
    member.client.close()
    member.client = other.client = node.client("again")
    assert member.say((0, 4, ACCEPT)) == "NONE"
    assert other.say() == "! SHARE_SESSION_NOT_FOUND"


def test_partitions_without_state_are_an_error() -> None:
    node = a_share_node()
    assert Member(node, "a").acquire() == "0:UNKNOWN_SERVER_ERROR"


def test_a_request_that_wants_nothing_is_answered_at_once() -> None:
    _, member = a_reader()
    assert member.acquire(max_records=0, max_wait_ms=1_000) == ""
    assert member.acquire(max_bytes=0, max_wait_ms=1_000) == ""
    assert member.acquire(partitions=(), forget=(0,), max_wait_ms=1_000) == ""


def test_the_exact_mode_sends_whole_batches_and_gives_no_more_than_was_asked_for() -> None:
    _, member = a_reader()
    response = member.fetch(max_records=3, mode=1)
    assert in_words(response) == "0:0-2x1"
    assert offsets_in(response) == [0, 1, 2, 3, 4]
    assert [member.acquire(max_records=3, mode=1) for _ in range(2)] == ["0:3-4x1,5-5x1", "0:6-8x1"]


def test_acknowledgements_are_checked_as_kafka_does() -> None:
    _, member = a_reader()
    member.acquire()
    not_valid: list[list[Said]] = [
        [(4, 3, ACCEPT)],
        [(0, 4, ACCEPT), (3, 6, ACCEPT)],
        [(5, 6, ACCEPT), (0, 1, ACCEPT)],
        [(0, 4, ())],
        [(0, 4, (1, 1))],
        [(0, 4, (5,))],
        [(0, 4, RENEW)],
    ]
    assert [member.say(*said) for said in not_valid] == ["INVALID_REQUEST"] * len(not_valid)
    assert member.say((0, 4, RENEW), version=1) == "INVALID_REQUEST"
    assert member.say((0, 4, ACCEPT), index=9) == "UNKNOWN_TOPIC_OR_PARTITION"
    assert member.say((0, 20, ACCEPT)) == (
        "INVALID_REQUEST Batch record not found. The last offset in request is past acquired records."
    )
    assert member.say((0, 4, ACCEPT)) == "NONE"
    assert member.say((0, 4, ACCEPT)) == "NONE"  # below the start by now


def test_what_is_said_from_before_the_start_fails_as_a_whole_where_nothing_is_in_flight() -> None:
    node, member = a_reader(batches=1)
    assert member.acquire() == "0:0-4x1"
    assert member.say((0, 4, ACCEPT)) == "NONE"
    assert member.say((-1, 4, ACCEPT)) == "NONE"  # wholly before the start
    assert member.say((4, 5, ACCEPT)) == "! UNKNOWN_SERVER_ERROR"
    member.session_epoch += 1  # it was taken
    assert member.acquire(said={0: [(4, 5, ACCEPT)]}) == "! UNKNOWN_SERVER_ERROR"
    member.session_epoch += 1
    produce(node.client("p"), "t", a_batch(b"later"))
    assert member.acquire() == "0:5-5x1"
    assert member.say((4, 5, ACCEPT)) == "NONE"


def test_a_session_goes_on_when_the_acknowledgements_with_which_it_was_to_end_fail_as_a_whole() -> None:
    node = configured(a_share_node(), auto_offset_reset="latest")
    produce(node.client("p"), "t", a_batch(b"x", b"y"))
    member = Member(node, "a")
    member.join()
    assert member.acquire() == "0:"
    assert member.say((0, 2, ACCEPT), epoch=-1) == "! UNKNOWN_SERVER_ERROR"
    assert member.acquire(said={0: [(0, 2, ACCEPT)]}, epoch=-1) == "! UNKNOWN_SERVER_ERROR"
    assert member.acquire() == ""
    assert member.acquire(partitions=(), epoch=-1) == ""
    assert member.acquire() == "! SHARE_SESSION_NOT_FOUND"


def test_what_is_said_of_other_partitions_before_such_a_failure_holds() -> None:
    node = configured(a_share_node(partitions=2), auto_offset_reset="earliest")
    for index in (0, 1):
        produce(node.client("p"), "t", a_batch(b"x"), first_partition=index)
    member = Member(node, "a")
    member.join()
    assert member.acquire(partitions=(0, 1)) == "0:0-0x1"
    assert member.acquire(partitions=(0, 1)) == "1:0-0x1"
    assert member.say((0, 0, ACCEPT), index=1) == "NONE"
    assert member.acquire(said={0: [(0, 0, ACCEPT)], 1: [(0, 1, ACCEPT)]}) == "! UNKNOWN_SERVER_ERROR"
    member.session_epoch += 1
    node.pass_ms(LOCK_MS)
    assert member.acquire() == ""


def test_a_renewal_that_would_fetch_is_refused_and_takes_no_epoch() -> None:
    _, member = a_reader()
    member.acquire()
    epoch = member.session_epoch
    assert member.acquire(renews=True, said={0: [(0, 4, RENEW)]}) == "! INVALID_REQUEST"
    assert member.session_epoch == epoch
    nothing = {"max_bytes": 0, "min_bytes": 0, "max_records": 0, "max_wait_ms": 0}
    assert member.acquire(renews=True, said={0: [(0, 4, RENEW)]}, **nothing) == "0:"


def test_the_limit_of_records_in_flight_holds_for_the_group() -> None:
    _, member = a_reader(batches=21, partition_max_record_locks="100")
    assert member.acquire() == "0:0-99x1"
    assert member.acquire() == ""
    assert member.say((0, 1, ACCEPT)) == "NONE"
    assert member.acquire() == "0:100-104x1"  # to the end of the batch


def test_what_is_delivered_too_often_is_delivered_no_more() -> None:
    node, member = a_reader(batches=1, delivery_count_limit="2")
    for _ in range(2):
        member.acquire()
        node.pass_ms(LOCK_MS)
    produce(node.client("p"), "t", a_batch(b"x"))
    assert member.acquire() == "0:5-5x1"


def test_deleted_records_are_passed_over() -> None:
    node, member = a_reader()
    node.client("d").ask(deletion(7))
    assert member.acquire() == "0:7-14x1"
    node.client("d").ask(deletion(14))
    assert member.say((7, 14, RELEASE)) == "NONE"
    assert member.acquire(max_wait_ms=500) == ""  # once, to say so; what is left comes with the next request
    assert member.acquire() == "0:14-14x2"


def test_read_committed_ends_at_the_open_transaction_and_leaves_out_aborted_records() -> None:
    node, member = a_reader(batches=1, isolation_level="read_committed")
    producer = TransactionalProducer(node.client("x"))
    producer.write("t", 0, b"gone")
    assert member.acquire() == "0:0-4x1"
    assert member.acquire() == ""
    producer.end(committed=False)
    produce(node.client("p"), "t", a_batch(b"a", b"b"))
    assert member.acquire() == "0:6-8x1"
    assert member.say((0, 4, ACCEPT)) == "NONE"
    assert member.say((6, 8, (0, 1, 1))) == "NONE"
    assert member.acquire() == ""


def test_after_a_crash_what_was_held_returns_and_what_was_acknowledged_does_not(tmp_path: Path) -> None:
    node = a_share_node(storage=files_in(tmp_path))
    _, member = a_reader(node)
    member.acquire()
    member.say((0, 6, ACCEPT), (7, 7, RELEASE))
    member.say((10, 10, REJECT))
    node.close()
    again = a_node(storage=files_in(tmp_path))
    again.run_background_tasks()
    other = Member(again, "b")
    assert other.acquire() == "0:7-7x2,8-9x1,11-14x1"
    again.close()


def test_whoever_comes_before_the_states_are_read_again_waits_for_them(tmp_path: Path) -> None:
    node, member = a_reader(a_share_node(storage=files_in(tmp_path)))
    member.acquire()
    member.say((0, 9, ACCEPT))
    node.close()
    again = a_node(storage=files_in(tmp_path))
    early = Member(again, "b")
    early.client.send(early.fetch_request())
    assert early.client.is_waiting
    again.run_background_tasks()
    assert in_words(early.client.take(ShareFetchResponse)) == "0:10-14x1"
    again.close()


def test_a_state_that_begins_again_while_others_wait_for_it_is_read_again_by_them(tmp_path: Path) -> None:
    node, member = a_reader(a_share_node(storage=files_in(tmp_path)))
    member.acquire()
    member.say((0, 9, ACCEPT))
    member.acquire(partitions=(), epoch=-1)
    assert member.heartbeat(-1).error_code == ErrorCode.NONE
    node.close()
    again = a_node(storage=files_in(tmp_path))
    again.cluster.groups.loader.finish()
    admin, early = again.client(), Member(again, "b")
    admin.send(moving("t", 0, start_offset=2))
    early.client.send(early.fetch_request())
    assert admin.is_waiting
    assert early.client.is_waiting
    again.run_background_tasks()
    moved = admin.take(AlterShareGroupOffsetsResponse)
    assert moved.responses[0].partitions[0].error_code == ErrorCode.NONE
    again.pass_ms(1)
    assert in_words(early.client.take(ShareFetchResponse)) == "0:NOT_LEADER_OR_FOLLOWER"
    assert early.acquire(epoch=1) == "0:2-14x1"
    again.close()


def test_level_0_switches_share_groups_off_and_ends_their_sessions() -> None:
    node, member = a_reader(batches=1)
    assert member.acquire() == "0:0-4x1"
    lower = UpdateFeaturesRequest(
        feature_updates=(FeatureUpdateKey(feature="share.version", max_version_level=0, upgrade_type=2),)
    )
    assert node.client().ask(lower, 2).error_code == ErrorCode.NONE
    assert member.heartbeat(0, ("t",)).error_code == ErrorCode.UNSUPPORTED_VERSION
    assert member.acquire() == "! UNSUPPORTED_VERSION"
    listed = node.client().ask(ApiVersionsRequest(client_software_name="a", client_software_version="1"), 4)
    assert 78 in {api.api_key for api in listed.api_keys}
    higher = UpdateFeaturesRequest(feature_updates=(FeatureUpdateKey(feature="share.version", max_version_level=1),))
    assert node.client().ask(higher, 2).error_code == ErrorCode.NONE
    assert member.acquire() == "! SHARE_SESSION_NOT_FOUND"
    member.session_epoch = 0
    assert member.acquire() == "0:0-4x1"


@pytest.mark.parametrize("state", [1, 5, -1])
def test_a_state_that_no_broker_writes_makes_the_partition_unreadable(state: int) -> None:
    node, member = a_reader(batches=1)
    write_state(node, member, StateBatch(first_offset=0, last_offset=4, delivery_state=state, delivery_count=1))
    assert member.acquire() == "0:UNKNOWN_SERVER_ERROR"
    node.pass_ms(LOCK_MS)
    assert member.acquire() == "0:UNKNOWN_SERVER_ERROR"


def test_the_greatest_numbers_that_a_client_may_write_as_a_state_do_no_harm() -> None:
    node, member = a_reader(batches=1, delivery_count_limit="10")
    often = StateBatch(first_offset=0, last_offset=0, delivery_state=0, delivery_count=2**15 - 1)
    far = StateBatch(first_offset=1, last_offset=2**63 - 1, delivery_state=2, delivery_count=1)
    write_state(node, member, often, far)
    assert member.acquire() == f"0:0-0x{2**15 - 1}"
    assert member.acquire(said={0: [(0, 0, ACCEPT)]}) == "0:"
    assert member.acquire() == ""


def write_state(node: NodeUnderTest, member: Member, *batches: StateBatch) -> None:
    """As any client may where there are no access rules."""
    partition = PartitionData(partition=0, state_epoch=99, leader_epoch=0, start_offset=-1, state_batches=batches)
    topic = WriteStateData(topic_id=member.topic_id, partitions=(partition,))
    answer = node.client().ask(WriteShareGroupStateRequest(group_id="g", topics=(topic,)))
    assert answer.results[0].partitions[0].error_code == ErrorCode.NONE
