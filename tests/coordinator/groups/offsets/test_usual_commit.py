"""The short way of a commit of one partition: what it appends and keeps is what the handler does for the same commit."""

from __future__ import annotations

from kshim.coordinator.groups.offsets.usual_commit import UsualCommit
from kshim_protocol.internal.records import build_position
from kshim_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kshim_protocol.records.batch import set_base_offset
from tests.coordinator.harness import topic_id
from tests.coordinator.peers import GroupSim, a_group, fetched

VERSION = 8


def commit_of(sim: GroupSim, offset: int) -> OffsetCommitRequest:
    partitions = (OffsetCommitRequestPartition(partition_index=2, committed_offset=offset, committed_metadata=""),)
    return OffsetCommitRequest(
        group_id="g",
        generation_id_or_member_epoch=sim["a"].generation_id,
        member_id=sim["a"].member_id,
        topics=(OffsetCommitRequestTopic(name="orders", partitions=partitions),),
    )


def test_what_the_short_way_has_written_is_appended_and_found_as_what_the_handler_has() -> None:
    short, long = a_group().stable("a"), a_group().stable("a")
    for sim in (short, long):
        sim.pass_ms(1_000)
    long.ask(commit_of(long, 70), VERSION)

    usual = UsualCommit(commit_of(short, 7), VERSION, "orders", topic_id("orders"))
    shard, position = short.shard(), build_position(70, -1, "")
    batch = usual.batch(shard, position, short.now)
    assert batch is not None
    log = short.logs[short.coordinator.partition_for("g")]
    base_offset = len(log)
    log.append(set_base_offset(batch, base_offset))
    assert shard.offsets.get("g", "orders", 2) is None
    usual.written(shard, position, base_offset, short.now)

    assert short.logs == long.logs
    assert fetched(short, ("orders", 2)) == fetched(long, ("orders", 2))
    assert shard.offsets.get("g", "orders", 2) == long.shard().offsets.get("g", "orders", 2)
    assert short.deadline_ms("session", "g", short["a"].member_id) == long.deadline_ms(
        "session", "g", long["a"].member_id
    )
