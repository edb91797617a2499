"""`__share_group_state` stays short while a share group reads, and a restarted broker finds in it all that it needs."""

from __future__ import annotations

from pathlib import Path

from kshim.coordinator.step import SHARE_STATE_TOPIC
from kshim.storage.log import Log, LogError
from tests.broker.data_plane import a_batch, produce
from tests.broker.harness import NodeUnderTest, a_node, files_in
from tests.broker.share.members import Member, a_share_node
from tests.storage.builders import FailingDisk

ACCEPT, RELEASE = (1,), (2,)
FIVE_MINUTES = 300_000
ONE_LOG = {"share.coordinator.state.topic.num.partitions": "1", "group.share.session.timeout.ms": "3600000"}


def a_reader(node: NodeUnderTest) -> Member:
    """A member that reads both partitions from the beginning."""
    node.cluster.dynamic_configs.replace("groups", "g", {"share.auto.offset.reset": "earliest"})
    member = Member(node, "a")
    member.join()
    return member


def state_log(node: NodeUnderTest) -> Log:
    return node.log(SHARE_STATE_TOPIC)


def length(node: NodeUnderTest) -> int:
    """How many records the topic has."""
    log = state_log(node)
    return log.end_offset - log.start_offset


def read_and_accept(member: Member, index: int, count: int) -> None:
    """So many records, one by one."""
    for _ in range(count):
        produce(member.node.client("p"), "t", a_batch(b"value"), first_partition=index)
        got = member.acquire(partitions=(index,), max_records=1, mode=1)
        offset = int(got.removeprefix(f"{index}:").split("-")[0])
        assert member.say((offset, offset, ACCEPT), index=index) == "NONE"


def test_ten_minutes_after_many_writes_the_topic_is_short() -> None:
    node = a_share_node(ONE_LOG, partitions=2)
    member = a_reader(node)
    read_and_accept(member, 0, 40)
    read_and_accept(member, 1, 1)
    assert length(node) > 40
    node.pass_ms(2 * FIVE_MINUTES)
    assert length(node) == 2
    read_and_accept(member, 1, 1)
    read_and_accept(member, 0, 1)


def test_a_restarted_broker_goes_on_where_the_group_was(tmp_path: Path) -> None:
    node = a_share_node(ONE_LOG, partitions=2, storage=files_in(tmp_path))
    member = a_reader(node)
    read_and_accept(member, 0, 20)
    read_and_accept(member, 1, 5)
    produce(node.client("p"), "t", a_batch(b"20"))
    assert member.acquire(partitions=(0,)) == "0:20-20x1"
    assert member.say((20, 20, RELEASE)) == "NONE"
    node.pass_ms(2 * FIVE_MINUTES)
    start_offset = state_log(node).start_offset
    assert start_offset > 20
    node.close()

    again = a_node(ONE_LOG, storage=files_in(tmp_path))
    again.warm_up()
    assert state_log(again).start_offset == start_offset
    member = a_reader(again)
    assert member.acquire(partitions=(0,)) == "0:20-20x2"
    assert member.say((20, 20, ACCEPT)) == "NONE"
    read_and_accept(member, 1, 1)
    again.close()


def test_nothing_is_removed_before_the_snapshots_are_safe_from_power_loss(tmp_path: Path) -> None:
    node = a_share_node(ONE_LOG, storage=files_in(tmp_path), fsync="always")
    member = Member(node, "a")
    member.client.send(member.heartbeat_request(0, ("t",)))
    node.run_background_tasks()
    node.pass_ms(2 * FIVE_MINUTES)
    assert state_log(node).durable_offset < state_log(node).end_offset
    assert state_log(node).start_offset == 0
    node.run_background_tasks()
    assert length(node) == 1
    node.close()


def test_what_cannot_be_removed_is_reported_and_removed_later(tmp_path: Path) -> None:
    disk = FailingDisk()
    node = a_share_node(ONE_LOG, storage=files_in(tmp_path, disk), tolerates_defects=True)
    member = a_reader(node)
    read_and_accept(member, 0, 3)
    node.pass_ms(FIVE_MINUTES)
    disk.broken.add("rename")
    node.pass_ms(FIVE_MINUTES)
    (error,) = node.defects
    assert isinstance(error, LogError)
    assert state_log(node).start_offset == 0
    disk.broken.clear()
    read_and_accept(member, 0, 1)
    node.pass_ms(FIVE_MINUTES)
    assert length(node) == 2
    node.close()
