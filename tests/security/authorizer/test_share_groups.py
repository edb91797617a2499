"""Share groups under access rules. What each API answers is compared with a live Kafka in integration/security."""

from __future__ import annotations

from kshim.broker.guards.guard import changed
from kshim.security.authorizer.model import Operation, ResourceType
from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages import alter_share_group_offsets as altering
from kshim_protocol.messages import delete_share_group_offsets as deleting
from kshim_protocol.messages import describe_share_group_offsets as describing
from kshim_protocol.messages.create_acls import AclCreation
from kshim_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kshim_protocol.messages.read_share_group_state_summary import (
    PartitionData,
    ReadShareGroupStateSummaryRequest,
    ReadStateSummaryData,
)
from kshim_protocol.messages.share_group_describe import ShareGroupDescribeRequest
from tests.broker.data_plane import a_batch, produce
from tests.broker.harness import NodeUnderTest
from tests.broker.share.members import Member
from tests.security.authorizer.test_guards import a_ruled_node, allow, named, rule

NO_TOPIC, NO_GROUP = ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.GROUP_AUTHORIZATION_FAILED
DENY = 2


def group_rule(operation: Operation) -> AclCreation:
    return rule(operation, "g", ResourceType.GROUP)


def a_node_of_alice(*rules: AclCreation) -> tuple[NodeUnderTest, Member]:
    """The topics `t`, of which the group `g` reads all, and `secret`; and a member of `g` that is alice."""
    node = a_ruled_node(*rules, topics=("t", "secret"))
    node.cluster.dynamic_configs.replace("groups", "g", {"share.auto.offset.reset": "earliest"})
    return node, Member(node, "m", named(node, "alice"))


def test_without_a_rule_for_the_group_nothing_is_joined_or_read() -> None:
    _, member = a_node_of_alice(rule(Operation.READ, "t"))
    assert member.heartbeat(0, ("t",)).error_code == NO_GROUP
    assert member.acquire() == "! GROUP_AUTHORIZATION_FAILED"
    assert member.say((0, 0, (1,)), epoch=1) == "! GROUP_AUTHORIZATION_FAILED"


def test_a_member_may_only_name_topics_that_it_may_describe() -> None:
    _, member = a_node_of_alice(group_rule(Operation.READ), rule(Operation.DESCRIBE, "t"))
    assert member.heartbeat(0, ("t", "secret")).error_code == NO_TOPIC
    assert member.heartbeat(0, ("t",)).error_code == ErrorCode.NONE


def test_a_topic_that_may_be_read_no_more_is_refused_within_the_session() -> None:
    node, member = a_node_of_alice(group_rule(Operation.READ), rule(Operation.READ, "t"))
    member.join()
    produce(named(node, "admin"), "t", a_batch(b"one"))
    assert member.acquire() == "0:0-0x1"
    allow(node, changed(rule(Operation.READ, "t"), permission_type=DENY))
    assert member.acquire(partitions=()) == "0:TOPIC_AUTHORIZATION_FAILED"
    assert member.say((0, 0, (1,))) == "TOPIC_AUTHORIZATION_FAILED"


def test_a_group_with_topics_that_may_not_be_seen_is_not_described() -> None:
    node, member = a_node_of_alice(group_rule(Operation.READ), rule(Operation.READ, "t"))
    member.join()
    alice = named(node, "alice")
    (group,) = alice.ask(ShareGroupDescribeRequest(group_ids=("g",), include_authorized_operations=False)).groups
    assert (group.error_code, len(group.members)) == (ErrorCode.NONE, 1)
    allow(node, changed(rule(Operation.ALL, "t"), permission_type=DENY))
    (group,) = alice.ask(ShareGroupDescribeRequest(group_ids=("g",), include_authorized_operations=False)).groups
    assert (group.error_code, len(group.members)) == (NO_TOPIC, 0)


def test_offsets_are_shown_moved_and_deleted_topic_by_topic() -> None:
    node, _ = a_node_of_alice(rule(Operation.READ, "t"), group_rule(Operation.READ), group_rule(Operation.DELETE))
    alice = named(node, "alice")
    starts = (altering.AlterShareGroupOffsetsRequestPartition(partition_index=0, start_offset=7),)
    moved = alice.ask(
        altering.AlterShareGroupOffsetsRequest(
            group_id="g",
            topics=tuple(
                altering.AlterShareGroupOffsetsRequestTopic(topic_name=name, partitions=starts)
                for name in ("t", "secret")
            ),
        )
    )
    assert {one.topic_name: one.partitions[0].error_code for one in moved.responses} == {"t": 0, "secret": NO_TOPIC}
    asked = describing.DescribeShareGroupOffsetsRequestGroup(
        group_id="g",
        topics=tuple(
            describing.DescribeShareGroupOffsetsRequestTopic(topic_name=name, partitions=(0,))
            for name in ("t", "secret")
        ),
    )
    (shown,) = alice.ask(describing.DescribeShareGroupOffsetsRequest(groups=(asked,))).groups
    found = {one.topic_name: (one.partitions[0].start_offset, one.partitions[0].error_code) for one in shown.topics}
    assert found == {"t": (7, 0), "secret": (-1, NO_TOPIC)}
    other = describing.DescribeShareGroupOffsetsRequestGroup(group_id="h", topics=None)
    (refused,) = alice.ask(describing.DescribeShareGroupOffsetsRequest(groups=(other,))).groups
    assert (refused.group_id, refused.error_code) == ("h", NO_GROUP)
    gone = alice.ask(
        deleting.DeleteShareGroupOffsetsRequest(
            group_id="g",
            topics=tuple(deleting.DeleteShareGroupOffsetsRequestTopic(topic_name=name) for name in ("t", "secret")),
        )
    )
    assert {one.topic_name: one.error_code for one in gone.responses} == {"t": 0, "secret": NO_TOPIC}


def test_where_no_topic_is_allowed_the_error_of_the_group_is_said() -> None:
    node, _ = a_node_of_alice(group_rule(Operation.READ), group_rule(Operation.DELETE))
    committed = OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="")
    commit = OffsetCommitRequest(
        group_id="g", member_id="", topics=(OffsetCommitRequestTopic(name="t", partitions=(committed,)),)
    )
    assert named(node, "admin").ask(commit, 9).topics[0].partitions[0].error_code == ErrorCode.NONE
    alice = named(node, "alice")
    starts = (altering.AlterShareGroupOffsetsRequestPartition(partition_index=0, start_offset=7),)
    secret = altering.AlterShareGroupOffsetsRequestTopic(topic_name="secret", partitions=starts)
    moved = alice.ask(altering.AlterShareGroupOffsetsRequest(group_id="g", topics=(secret,)))
    assert (moved.error_code, moved.responses) == (ErrorCode.GROUP_ID_NOT_FOUND, ())
    doomed = deleting.DeleteShareGroupOffsetsRequestTopic(topic_name="secret")
    gone = alice.ask(deleting.DeleteShareGroupOffsetsRequest(group_id="g", topics=(doomed,)))
    assert (gone.error_code, gone.responses) == (ErrorCode.GROUP_ID_NOT_FOUND, ())


def test_where_all_topics_are_asked_for_those_that_may_not_be_seen_are_left_out() -> None:
    node, _ = a_node_of_alice(rule(Operation.DESCRIBE, "t"), group_rule(Operation.DESCRIBE))
    starts = (altering.AlterShareGroupOffsetsRequestPartition(partition_index=0, start_offset=7),)
    named(node, "admin").ask(
        altering.AlterShareGroupOffsetsRequest(
            group_id="g",
            topics=tuple(
                altering.AlterShareGroupOffsetsRequestTopic(topic_name=name, partitions=starts)
                for name in ("t", "secret")
            ),
        )
    )
    everything = describing.DescribeShareGroupOffsetsRequestGroup(group_id="g", topics=None)
    request = describing.DescribeShareGroupOffsetsRequest(groups=(everything,))
    (shown,) = named(node, "alice").ask(request).groups
    assert [one.topic_name for one in shown.topics] == ["t"]
    (whole,) = named(node, "admin").ask(request).groups
    assert {one.topic_name for one in whole.topics} == {"t", "secret"}


def test_the_state_of_share_partitions_is_for_brokers() -> None:
    node, member = a_node_of_alice(group_rule(Operation.ALL), rule(Operation.ALL, "t"))
    topic = ReadStateSummaryData(topic_id=member.topic_id, partitions=(PartitionData(partition=0, leader_epoch=0),))
    request = ReadShareGroupStateSummaryRequest(group_id="g", topics=(topic,))

    def error() -> int:
        return named(node, "alice").ask(request).results[0].partitions[0].error_code

    assert error() == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    allow(node, rule(Operation.CLUSTER_ACTION, "kafka-cluster", ResourceType.CLUSTER))
    assert error() == ErrorCode.NONE
