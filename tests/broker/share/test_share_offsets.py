"""Where share groups are, for administrators: answers are those of a live 4.4."""

from __future__ import annotations

from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages import alter_share_group_offsets as altering
from kshim_protocol.messages import delete_share_group_offsets as deleting
from kshim_protocol.messages import describe_share_group_offsets as describing
from kshim_protocol.messages.delete_groups import DeleteGroupsRequest
from tests.broker.data_plane import a_batch, produce
from tests.broker.harness import NodeUnderTest
from tests.broker.share.members import Member, a_share_node

ACCEPT = (1,)


def described(node: NodeUnderTest, group_id: str = "g", topics: dict[str, tuple[int, ...]] | None = None) -> str:
    """Start and lag of each partition, in words: `t0:5+10`."""
    wanted = None
    if topics is not None:
        wanted = tuple(
            describing.DescribeShareGroupOffsetsRequestTopic(topic_name=name, partitions=indexes)
            for name, indexes in topics.items()
        )
    group = describing.DescribeShareGroupOffsetsRequestGroup(group_id=group_id, topics=wanted)
    (answer,) = node.client("admin").ask(describing.DescribeShareGroupOffsetsRequest(groups=(group,))).groups
    if answer.error_code != ErrorCode.NONE:
        return f"! {ErrorCode(answer.error_code).name} {answer.error_message}"
    return " ".join(
        f"{topic.topic_name}{one.partition_index}:{one.start_offset}+{one.lag}"
        for topic in answer.topics
        for one in topic.partitions
    )


def altered(node: NodeUnderTest, starts: dict[str, dict[int, int]], group_id: str = "g") -> str:
    request = altering.AlterShareGroupOffsetsRequest(
        group_id=group_id,
        topics=tuple(
            altering.AlterShareGroupOffsetsRequestTopic(
                topic_name=name,
                partitions=tuple(
                    altering.AlterShareGroupOffsetsRequestPartition(partition_index=index, start_offset=start)
                    for index, start in found.items()
                ),
            )
            for name, found in starts.items()
        ),
    )
    answer = node.client("admin").ask(request)
    if answer.error_code != ErrorCode.NONE:
        return f"! {ErrorCode(answer.error_code).name} {answer.error_message}"
    return " ".join(
        f"{topic.topic_name}{one.partition_index}:{ErrorCode(one.error_code).name}"
        for topic in answer.responses
        for one in topic.partitions
    )


def deleted(node: NodeUnderTest, *names: str, group_id: str = "g") -> str:
    topics = tuple(deleting.DeleteShareGroupOffsetsRequestTopic(topic_name=name) for name in names)
    answer = node.client("admin").ask(deleting.DeleteShareGroupOffsetsRequest(group_id=group_id, topics=topics))
    if answer.error_code != ErrorCode.NONE:
        return f"! {ErrorCode(answer.error_code).name} {answer.error_message}"
    return " ".join(
        f"{topic.topic_name}:{ErrorCode(topic.error_code).name} {topic.error_message}" for topic in answer.responses
    )


def a_group_that_has_read() -> tuple[NodeUnderTest, Member]:
    """Ten records, of which four are acknowledged: two at the head, two behind."""
    node = a_share_node()
    node.cluster.dynamic_configs.replace("groups", "g", {"share.auto.offset.reset": "earliest"})
    produce(node.client("p"), "t", a_batch(*(b"%d" % number for number in range(10))))
    member = Member(node, "a")
    member.join()
    member.acquire()
    member.say((0, 1, ACCEPT))
    member.say((4, 5, ACCEPT))
    return node, member


def test_the_lag_counts_what_is_done_behind_the_start_as_done() -> None:
    node, _ = a_group_that_has_read()
    assert described(node) == "t0:2+6"
    assert described(node, topics={"t": (0, 7), "nothing": (0,)}) == "t0:2+6 t7:-1+-1 nothing0:-1+-1"
    assert described(node, topics={}) == ""


def test_groups_that_do_not_exist_are_nowhere() -> None:
    node = a_share_node()
    assert described(node, "nobody") == ""
    assert described(node, "nobody", {"t": (0,)}) == "t0:-1+-1"


def test_a_group_without_members_can_be_moved_and_one_that_does_not_exist_begins_there() -> None:
    node = a_share_node()
    assert altered(node, {"t": {0: 5, 9: 1}, "nothing": {0: 1}}) == (
        "t0:NONE t9:UNKNOWN_TOPIC_OR_PARTITION nothing0:UNKNOWN_TOPIC_OR_PARTITION"
    )
    assert described(node) == "t0:5+-5"
    assert altered(node, {"t": {0: -1}}) == "t0:NONE"
    assert described(node) == "t0:-1+-1"
    assert altered(node, {}) == ""
    assert altered(node, {}, group_id="") == "! INVALID_GROUP_ID The group id is invalid."


def test_a_group_that_was_moved_reads_from_there() -> None:
    node, member = a_group_that_has_read()
    assert altered(node, {"t": {0: 7}}) == "! NON_EMPTY_GROUP The group is not empty."
    member.fetch(epoch=-1)
    member.heartbeat(-1)
    assert altered(node, {"t": {0: 7}}) == "t0:NONE"
    other = Member(node, "b")
    other.heartbeat(0, ("t",))
    assert other.acquire() == "0:7-9x1"


def test_of_a_group_that_never_had_a_state_no_topic_is_named_when_its_offsets_are_deleted() -> None:
    node = a_share_node()
    member = Member(node, "a")
    assert member.heartbeat(0, ("not there",)).error_code == ErrorCode.NONE
    assert member.heartbeat(-1).error_code == ErrorCode.NONE
    assert deleted(node, "t", "not there") == ""


def test_topics_of_a_group_without_members_can_be_forgotten() -> None:
    node, member = a_group_that_has_read()
    assert deleted(node, "t") == "! NON_EMPTY_GROUP The group is not empty."
    member.heartbeat(-1)
    assert deleted(node, "t", "nothing") == (
        "t:NONE None nothing:UNKNOWN_TOPIC_OR_PARTITION This server does not host this topic-partition."
    )
    assert deleted(node, "t") == "t:UNKNOWN_TOPIC_OR_PARTITION There is no offset information to delete."
    assert described(node) == ""
    assert deleted(node, "t", group_id="nobody") == "! GROUP_ID_NOT_FOUND Group nobody not found."
    assert deleted(node, group_id="") == "! INVALID_GROUP_ID The group id is invalid."


def test_a_deleted_group_leaves_nothing_behind() -> None:
    node, member = a_group_that_has_read()
    admin = node.client("admin")

    def delete() -> ErrorCode:
        (result,) = admin.ask(DeleteGroupsRequest(groups_names=("g",)), 2).results
        return ErrorCode(result.error_code)

    assert delete() is ErrorCode.NON_EMPTY_GROUP
    member.fetch(epoch=-1)
    member.heartbeat(-1)
    assert delete() is ErrorCode.NONE
    assert delete() is ErrorCode.GROUP_ID_NOT_FOUND
    again = Member(node, "b")
    again.join()
    assert described(node) == "t0:-1+-1"
    assert again.acquire() == "0:0-9x1"


def test_a_start_offset_may_be_any_number_and_the_lag_is_computed_as_java_does() -> None:
    node = a_share_node()
    assert altered(node, {"t": {0: -(2**63)}}) == "t0:NONE"
    assert described(node) == f"t0:{-(2**63)}+{-(2**63)}"
