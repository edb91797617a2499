"""Share groups: members, records, offsets, and the state that only brokers ask for."""

from __future__ import annotations

from collections.abc import Mapping

from integration.security.questions.things import GROUPS, MISSING, NO_MEMBER, TOPICS, Rows
from kshim_protocol.messages import alter_share_group_offsets as altering
from kshim_protocol.messages import delete_share_group_offsets as deleting
from kshim_protocol.messages import describe_share_group_offsets as describing
from kshim_protocol.messages.delete_share_group_state import DeleteShareGroupStateRequest
from kshim_protocol.messages.initialize_share_group_state import InitializeShareGroupStateRequest
from kshim_protocol.messages.read_share_group_state import ReadShareGroupStateRequest
from kshim_protocol.messages.read_share_group_state_summary import ReadShareGroupStateSummaryRequest
from kshim_protocol.messages.share_acknowledge import ShareAcknowledgeRequest
from kshim_protocol.messages.share_fetch import FetchPartition, FetchTopic, ShareFetchRequest
from kshim_protocol.messages.share_group_describe import ShareGroupDescribeRequest
from kshim_protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from kshim_protocol.messages.write_share_group_state import WriteShareGroupStateRequest

_STATES = (
    InitializeShareGroupStateRequest,
    ReadShareGroupStateRequest,
    WriteShareGroupStateRequest,
    DeleteShareGroupStateRequest,
    ReadShareGroupStateSummaryRequest,
)


def share_members(ids: Mapping[str, bytes]) -> Rows:
    for names in (None, TOPICS, TOPICS[:1]):
        request = ShareGroupHeartbeatRequest(
            group_id=GROUPS[0], member_id=NO_MEMBER, member_epoch=7, rack_id=None, subscribed_topic_names=names
        )
        yield f"ShareGroupHeartbeat {names}", request, 1
    described = (*GROUPS, "group-missing")
    yield "ShareGroupDescribe", ShareGroupDescribeRequest(group_ids=described, include_authorized_operations=True), 1


def share_records(ids: Mapping[str, bytes]) -> Rows:
    topics = tuple(
        FetchTopic(topic_id=ids[name], partitions=(FetchPartition(partition_index=0, acknowledgement_batches=()),))
        for name in TOPICS
    )
    for group_id in GROUPS:
        for epoch in (0, 5):
            fetch = ShareFetchRequest(
                group_id=group_id,
                member_id=NO_MEMBER,
                share_session_epoch=epoch,
                max_wait_ms=2_000,  # in which Kafka finds that there is no state
                min_bytes=0,
                max_bytes=1,
                max_records=1,
                batch_size=1,
                topics=topics,
                forgotten_topics_data=(),
            )
            yield f"ShareFetch {group_id} epoch {epoch}", fetch, 2
        acknowledge = ShareAcknowledgeRequest(group_id=group_id, member_id=NO_MEMBER, share_session_epoch=5, topics=())
        yield f"ShareAcknowledge {group_id}", acknowledge, 2


def share_offsets(ids: Mapping[str, bytes]) -> Rows:
    names = (*TOPICS, MISSING)
    # Kafka asks its share coordinator for half a minute where a partition is not there.
    asked = tuple(describing.DescribeShareGroupOffsetsRequestTopic(topic_name=name, partitions=(0,)) for name in names)
    for topics in (None, asked):
        groups = tuple(
            describing.DescribeShareGroupOffsetsRequestGroup(group_id=group_id, topics=topics) for group_id in GROUPS
        )
        what = "all topics" if topics is None else "topics"
        yield f"DescribeShareGroupOffsets {what}", describing.DescribeShareGroupOffsetsRequest(groups=groups), 1
    altered = tuple(
        altering.AlterShareGroupOffsetsRequestTopic(
            topic_name=name,
            partitions=(altering.AlterShareGroupOffsetsRequestPartition(partition_index=0, start_offset=0),),
        )
        for name in names
    )
    deleted = tuple(deleting.DeleteShareGroupOffsetsRequestTopic(topic_name=name) for name in names)
    # The first group is not a share group; the second does not exist, and is not made for a topic that is not there.
    for group_id, rows in zip(GROUPS, (altered, altered[-1:]), strict=True):
        yield (
            f"AlterShareGroupOffsets {group_id}",
            altering.AlterShareGroupOffsetsRequest(group_id=group_id, topics=rows),
            0,
        )
        yield (
            f"DeleteShareGroupOffsets {group_id}",
            deleting.DeleteShareGroupOffsetsRequest(group_id=group_id, topics=deleted),
            0,
        )


def share_states(ids: Mapping[str, bytes]) -> Rows:
    for kind in _STATES:
        yield kind.__name__, kind(group_id="group-missing", topics=()), 0
