"""The guards that are no more than a row: what the whole request needs, and what each of its rows needs."""

from __future__ import annotations

from typing import Any, Final

from kshim.broker.authorized_operations import NOT_ASKED
from kshim.broker.guards.guard import Call, Guard, Rows, changed, guards
from kshim.coordinator.step import Step
from kshim.security.authorizer.model import CLUSTER_NAME, Operation, ResourceType
from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.offset_delete import OffsetDeleteResponsePartition, OffsetDeleteResponseTopic

CLUSTER, GROUP, TOPIC, TRANSACTION = (
    ResourceType.CLUSTER,
    ResourceType.GROUP,
    ResourceType.TOPIC,
    ResourceType.TRANSACTIONAL_ID,
)
Need = tuple[Operation, ResourceType, str]
"""The operation, and the field of the request that names the resource; "" for the cluster."""


def _described_group(call: Call, group: Any) -> Any:
    if group.authorized_operations == NOT_ASKED:
        return group
    return changed(group, authorized_operations=call.caller.operations(GROUP, group.group_id))


def _described_members(call: Call, group: Any) -> Any:
    """A group of the new protocol, unless its members have topics that the caller may not see."""
    names = {
        topic.topic_name
        for member in group.members
        for assignment in (member.assignment, getattr(member, "target_assignment", member.assignment))
        for topic in assignment.topic_partitions
    } | {name for member in group.members for name in member.subscribed_topic_names}
    if all(call.may(Operation.DESCRIBE, TOPIC, name) for name in names):
        return _described_group(call, group)
    return changed(
        group,
        error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        error_message="The group has described topic(s) that the client is not authorized to describe.",
        members=(),
    )


def _described_transaction(call: Call, state: Any) -> Any:
    return changed(state, topics=call.split_topics(state.topics, Operation.DESCRIBE)[0])


def _created_topic(call: Call, topic: Any) -> Any:
    """The configuration of a new one is shown with DESCRIBE_CONFIGS on it."""
    if topic.error_code or call.may(Operation.DESCRIBE_CONFIGS, TOPIC, topic.name):
        return topic
    return changed(
        topic,
        topic_config_error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        num_partitions=-1,
        replication_factor=-1,
        configs=(),
    )


def _kept_offsets(topic: Any) -> OffsetDeleteResponseTopic:
    return OffsetDeleteResponseTopic(
        name=topic.name,
        partitions=tuple(
            OffsetDeleteResponsePartition(
                partition_index=partition.partition_index, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED
            )
            for partition in topic.partitions
        ),
    )


# fmt: off
_READ_GROUP: Final = (Operation.READ, GROUP, "group_id")
_WRITE_TRANSACTION: Final = (Operation.WRITE, TRANSACTION, "transactional_id")

_WHOLE: Final[dict[tuple[str, ...], tuple[Need, ...]]] = {
    ("Heartbeat", "LeaveGroup", "OffsetCommit"):        (_READ_GROUP,),
    ("OffsetDelete",):                                  ((Operation.DELETE, GROUP, "group_id"),),
    ("AddOffsetsToTxn", "TxnOffsetCommit"):             (_WRITE_TRANSACTION, _READ_GROUP),
    ("EndTxn",):                                        (_WRITE_TRANSACTION,),
    ("DescribeAcls", "DescribeUserScramCredentials", "DescribeLogDirs", "DescribeQuorum",
     "ListPartitionReassignments"):
                                                        ((Operation.DESCRIBE, CLUSTER, ""),),
    ("CreateAcls", "DeleteAcls", "AlterUserScramCredentials", "AlterReplicaLogDirs", "ElectLeaders",
     "AlterPartitionReassignments"):
                                                        ((Operation.ALTER, CLUSTER, ""),),
    ("AlterClientQuotas",):                             ((Operation.ALTER_CONFIGS, CLUSTER, ""),),
    ("DescribeClientQuotas", "ListConfigResources"):    ((Operation.DESCRIBE_CONFIGS, CLUSTER, ""),),
    ("InitializeShareGroupState", "ReadShareGroupState", "WriteShareGroupState", "DeleteShareGroupState",
     "ReadShareGroupStateSummary"):                     ((Operation.CLUSTER_ACTION, CLUSTER, ""),),
}
_ROWS: Final[dict[str, Rows]] = {
    "AlterConfigs":            Rows("resources", "responses", Operation.ALTER_CONFIGS, None),
    "ConsumerGroupDescribe":   Rows("group_ids", "groups", Operation.DESCRIBE, GROUP, visible=_described_members),
    "CreatePartitions":        Rows("topics", "results", Operation.ALTER),
    "CreateTopics":            Rows("topics", "topics", Operation.CREATE, unless=Operation.CREATE,
                                    visible=_created_topic, message="Authorization failed."),
    "DeleteGroups":            Rows("groups_names", "results", Operation.DELETE, GROUP),
    "DeleteRecords":           Rows("topics", "topics", Operation.DELETE),
    "DescribeConfigs":         Rows("resources", "results", Operation.DESCRIBE_CONFIGS, None),
    "DescribeGroups":          Rows("groups", "groups", Operation.DESCRIBE, GROUP, visible=_described_group),
    "DescribeProducers":       Rows("topics", "topics", Operation.READ),
    "DescribeTransactions":    Rows("transactional_ids", "transaction_states", Operation.DESCRIBE, TRANSACTION,
                                    visible=_described_transaction),
    "IncrementalAlterConfigs": Rows("resources", "responses", Operation.ALTER_CONFIGS, None),
    "ListOffsets":             Rows("topics", "topics", Operation.DESCRIBE),
    "OffsetCommit":            Rows("topics", "topics", Operation.READ),
    "OffsetDelete":            Rows("topics", "topics", Operation.READ, refused=_kept_offsets, always_asks=True),
    "OffsetForLeaderEpoch":    Rows("topics", "topics", Operation.DESCRIBE, unless=Operation.CLUSTER_ACTION),
    "ShareGroupDescribe":      Rows("group_ids", "groups", Operation.DESCRIBE, GROUP, visible=_described_members),
    "TxnOffsetCommit":         Rows("topics", "topics", Operation.READ),
}
# fmt: on


def _guard(api_name: str, needs: tuple[Need, ...], rows: Rows | None) -> Guard:
    @guards(api_name)
    def guard(call: Call) -> Step:
        for operation, resource_type, field in needs:
            name = getattr(call.request, field) if field else CLUSTER_NAME
            if not call.may(operation, resource_type, name):
                return call.refuse(resource_type)
        return call.proceed() if rows is None else call.split(rows)

    return guard


_NEEDS: Final = {name: needs for names, needs in _WHOLE.items() for name in names}
GUARDS: Final = tuple(_guard(name, _NEEDS.get(name, ()), _ROWS.get(name)) for name in _NEEDS | _ROWS)
