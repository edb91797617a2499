"""Requests of every API about two topics, two groups and two transactional ids: what may a user see and do?

None of them changes anything that another one tells of, so that they can be asked again under other rules. Where a
request would be carried out, it is one that fails for another reason after it was allowed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from kshim_protocol.apis import API_TABLE
from kshim_protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kshim_protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from kshim_protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
)
from kshim_protocol.messages.create_acls import AclCreation, CreateAclsRequest
from kshim_protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kshim_protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kshim_protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from kshim_protocol.messages.delete_groups import DeleteGroupsRequest
from kshim_protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from kshim_protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kshim_protocol.messages.describe_acls import DescribeAclsRequest
from kshim_protocol.messages.describe_client_quotas import DescribeClientQuotasRequest
from kshim_protocol.messages.describe_cluster import DescribeClusterRequest
from kshim_protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kshim_protocol.messages.describe_groups import DescribeGroupsRequest
from kshim_protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from kshim_protocol.messages.describe_producers import DescribeProducersRequest
from kshim_protocol.messages.describe_producers import TopicRequest as ProducersTopic
from kshim_protocol.messages.describe_topic_partitions import Cursor, DescribeTopicPartitionsRequest, TopicRequest
from kshim_protocol.messages.describe_transactions import DescribeTransactionsRequest
from kshim_protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from kshim_protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from kshim_protocol.messages.end_txn import EndTxnRequest
from kshim_protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kshim_protocol.messages.find_coordinator import FindCoordinatorRequest
from kshim_protocol.messages.heartbeat import HeartbeatRequest
from kshim_protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kshim_protocol.messages.init_producer_id import InitProducerIdRequest
from kshim_protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kshim_protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kshim_protocol.messages.list_config_resources import ListConfigResourcesRequest
from kshim_protocol.messages.list_groups import ListGroupsRequest
from kshim_protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kshim_protocol.messages.list_transactions import ListTransactionsRequest
from kshim_protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kshim_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kshim_protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kshim_protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from kshim_protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kshim_protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kshim_protocol.messages.sync_group import SyncGroupRequest
from kshim_protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kshim_protocol.schema import Request

__all__ = ["GROUPS", "TOPICS", "TRANSACTIONAL_IDS", "Question", "questions"]

TOPICS = ("orders", "payments")
GROUPS = ("group-a", "group-b")
TRANSACTIONAL_IDS = ("txn-a", "txn-b")
MISSING = "missing"
"""A topic that is not there."""
NO_MEMBER = "nobody"


class Question(NamedTuple):
    """A request in a version; `name` tells them apart."""

    name: str
    request: Request[Any]
    version: int


def questions(ids: Mapping[str, bytes]) -> Iterator[Question]:
    """All that the API table serves. `ids` are those of the topics."""
    for name, request, version in [*_records(ids), *_topics(ids), *_groups(ids), *_transactions(), *_cluster()]:
        if request.info.api_key in API_TABLE:
            yield Question(f"{name} v{version}", request, version)


Rows = Iterator[tuple[str, Request[Any], int]]


def _records(ids: Mapping[str, bytes]) -> Rows:
    both = [(topic, ids[topic]) for topic in TOPICS]

    def produce(transactional_id: str | None = None) -> ProduceRequest:
        # An empty batch is refused, but not by the authorizer.
        rows = tuple(
            TopicProduceData(name=name, topic_id=one, partition_data=(PartitionProduceData(index=0, records=b""),))
            for name, one in both
        )
        return ProduceRequest(transactional_id=transactional_id, acks=1, timeout_ms=1_000, topic_data=rows)

    yield "Produce", produce(), 9
    yield "Produce", produce(), 13
    yield (
        "Fetch",
        FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            topics=tuple(
                FetchTopic(
                    topic=name,
                    topic_id=one,
                    partitions=(FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1_000),),
                )
                for name, one in both
            ),
        ),
        12,
    )
    yield (
        "Fetch",
        FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            topics=tuple(
                FetchTopic(
                    topic_id=one,
                    partitions=(FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1_000),),
                )
                for one in (*(one for _, one in both), b"unknown-topic-id")
            ),
        ),
        17,
    )
    names = (*TOPICS, MISSING)
    yield (
        "ListOffsets",
        ListOffsetsRequest(
            replica_id=-1,
            topics=tuple(
                ListOffsetsTopic(name=name, partitions=(ListOffsetsPartition(partition_index=0, timestamp=-1),))
                for name in names
            ),
        ),
        7,
    )
    yield (
        "OffsetForLeaderEpoch",
        OffsetForLeaderEpochRequest(
            replica_id=-1,
            topics=tuple(
                OffsetForLeaderTopic(topic=name, partitions=(OffsetForLeaderPartition(partition=0, leader_epoch=0),))
                for name in names
            ),
        ),
        4,
    )
    yield (
        "DeleteRecords",
        DeleteRecordsRequest(
            topics=tuple(
                DeleteRecordsTopic(name=name, partitions=(DeleteRecordsPartition(partition_index=0, offset=99),))
                for name in names
            ),
            timeout_ms=1_000,
        ),
        2,
    )
    yield (
        "DescribeProducers",
        DescribeProducersRequest(topics=tuple(ProducersTopic(name=name, partition_indexes=(0,)) for name in names)),
        0,
    )


def _topics(ids: Mapping[str, bytes]) -> Rows:
    named = tuple(MetadataRequestTopic(name=name) for name in (*TOPICS, MISSING))
    quiet = {"allow_auto_topic_creation": False, "include_topic_authorized_operations": True}
    yield "Metadata of all", MetadataRequest(topics=None, **quiet), 12
    yield "Metadata of all with cluster", MetadataRequest(topics=None, include_cluster_authorized_operations=True), 9
    yield "Metadata of all", MetadataRequest(topics=()), 0
    yield "Metadata by name", MetadataRequest(topics=named, **quiet), 12
    yield "Metadata by name", MetadataRequest(topics=named, allow_auto_topic_creation=False), 4
    by_id = tuple(MetadataRequestTopic(name=None, topic_id=one) for one in (*ids.values(), b"unknown-topic-id"))
    yield "Metadata by id", MetadataRequest(topics=by_id, **quiet), 12
    yield "DescribeTopicPartitions of all", DescribeTopicPartitionsRequest(topics=()), 0
    yield (
        "DescribeTopicPartitions by name",
        DescribeTopicPartitionsRequest(topics=tuple(TopicRequest(name=name) for name in (*TOPICS, MISSING))),
        0,
    )
    yield (
        "DescribeTopicPartitions from a cursor",
        DescribeTopicPartitionsRequest(topics=(), cursor=Cursor(topic_name="p", partition_index=0)),
        0,
    )
    yield (
        "CreateTopics",
        CreateTopicsRequest(
            topics=tuple(
                CreatableTopic(name=name, num_partitions=1, replication_factor=1, assignments=(), configs=())
                for name in (TOPICS[0], "orders-new", "new")
            ),
            validate_only=True,
        ),
        7,
    )
    yield (
        "CreatePartitions",
        CreatePartitionsRequest(
            topics=tuple(CreatePartitionsTopic(name=name, count=3, assignments=None) for name in (*TOPICS, MISSING)),
            timeout_ms=1_000,
            validate_only=True,
        ),
        3,
    )
    missing = tuple(DeleteTopicState(name=name) for name in (MISSING, "orders-missing"))
    unknown = DeleteTopicState(name=None, topic_id=b"unknown-topic-id")
    yield "DeleteTopics", DeleteTopicsRequest(topics=(*missing, unknown), timeout_ms=1_000), 6
    yield "DeleteTopics", DeleteTopicsRequest(topic_names=(MISSING, "orders-missing"), timeout_ms=1_000), 4
    resources = ((2, "orders"), (2, "payments"), (2, MISSING), (4, "1"), (32, GROUPS[0]))
    yield (
        "DescribeConfigs",
        DescribeConfigsRequest(
            resources=tuple(
                DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=("none",))
                for kind, name in resources
                if kind != 32
            )
        ),
        4,
    )
    yield (
        "IncrementalAlterConfigs",
        IncrementalAlterConfigsRequest(
            resources=tuple(
                AlterConfigsResource(
                    resource_type=kind,
                    resource_name=name,
                    configs=(AlterableConfig(name="retention.ms", config_operation=0, value="x"),),
                )
                for kind, name in resources
                if kind == 2
            ),
            validate_only=True,
        ),
        1,
    )


def _groups(ids: Mapping[str, bytes]) -> Rows:
    for group_id in GROUPS:
        yield (
            f"JoinGroup {group_id}",
            JoinGroupRequest(
                group_id=group_id,
                session_timeout_ms=10_000,
                rebalance_timeout_ms=10_000,
                member_id=NO_MEMBER,
                protocol_type="consumer",
                protocols=(JoinGroupRequestProtocol(name="range", metadata=b""),),
            ),
            9,
        )
        yield (
            f"SyncGroup {group_id}",
            SyncGroupRequest(group_id=group_id, generation_id=1, member_id=NO_MEMBER, assignments=()),
            5,
        )
        yield (
            f"SyncGroup with a protocol {group_id}",
            SyncGroupRequest(
                group_id=group_id,
                generation_id=1,
                member_id=NO_MEMBER,
                protocol_type="consumer",
                protocol_name="range",
                assignments=(),
            ),
            5,
        )
        yield f"Heartbeat {group_id}", HeartbeatRequest(group_id=group_id, generation_id=1, member_id=NO_MEMBER), 4
        yield (
            f"LeaveGroup {group_id}",
            LeaveGroupRequest(group_id=group_id, members=(MemberIdentity(member_id=NO_MEMBER),)),
            5,
        )
        yield (
            f"OffsetCommit {group_id}",
            OffsetCommitRequest(
                group_id=group_id,
                member_id="",
                topics=tuple(
                    OffsetCommitRequestTopic(
                        name=name,
                        partitions=(
                            OffsetCommitRequestPartition(partition_index=0, committed_offset=7, committed_metadata=""),
                        ),
                    )
                    for name in (*TOPICS, MISSING)
                ),
            ),
            9,
        )
        yield (
            f"OffsetCommit by id {group_id}",
            OffsetCommitRequest(
                group_id=group_id,
                member_id="",
                topics=tuple(
                    OffsetCommitRequestTopic(
                        topic_id=one,
                        partitions=(
                            OffsetCommitRequestPartition(partition_index=0, committed_offset=7, committed_metadata=""),
                        ),
                    )
                    for one in (*ids.values(), b"unknown-topic-id")
                ),
            ),
            10,
        )
        yield (
            f"OffsetFetch {group_id}",
            OffsetFetchRequest(
                group_id=group_id,
                topics=tuple(OffsetFetchRequestTopic(name=name, partition_indexes=(0,)) for name in TOPICS),
            ),
            5,
        )
        yield f"OffsetFetch of all {group_id}", OffsetFetchRequest(group_id=group_id, topics=None), 7
        yield (
            f"OffsetDelete {group_id}",
            OffsetDeleteRequest(
                group_id=group_id,
                topics=tuple(
                    OffsetDeleteRequestTopic(name=name, partitions=(OffsetDeleteRequestPartition(partition_index=9),))
                    for name in (*TOPICS, MISSING)
                ),
            ),
            0,
        )
    yield (
        "OffsetFetch of groups",
        OffsetFetchRequest(
            groups=tuple(
                OffsetFetchRequestGroup(
                    group_id=group_id,
                    topics=tuple(OffsetFetchRequestTopics(name=name, partition_indexes=(0,)) for name in TOPICS),
                )
                for group_id in GROUPS
            )
        ),
        8,
    )
    yield (
        "OffsetFetch of all of groups",
        OffsetFetchRequest(
            groups=tuple(OffsetFetchRequestGroup(group_id=group_id, topics=None) for group_id in GROUPS)
        ),
        10,
    )
    described = (*GROUPS, "group-missing")
    yield "DescribeGroups", DescribeGroupsRequest(groups=described, include_authorized_operations=True), 5
    yield "DescribeGroups", DescribeGroupsRequest(groups=described, include_authorized_operations=True), 6
    yield "ListGroups", ListGroupsRequest(), 4
    yield "DeleteGroups", DeleteGroupsRequest(groups_names=("group-missing", "nothing")), 2
    for kind, keys in ((0, GROUPS), (1, TRANSACTIONAL_IDS)):
        yield f"FindCoordinator of type {kind}", FindCoordinatorRequest(key_type=kind, coordinator_keys=keys), 4
        yield f"FindCoordinator of type {kind}", FindCoordinatorRequest(key_type=kind, key=keys[0]), 2


def _transactions() -> Rows:
    yield "InitProducerId", InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1_000), 4
    for name in TRANSACTIONAL_IDS:
        yield (  # a timeout that no broker takes
            f"InitProducerId {name}",
            InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=-1),
            4,
        )
        ids = {"transactional_id": name, "producer_id": 1_000_000_007, "producer_epoch": 0}
        yield f"EndTxn {name}", EndTxnRequest(**ids, committed=True), 3
        yield f"AddOffsetsToTxn {name}", AddOffsetsToTxnRequest(**ids, group_id=GROUPS[0]), 3
        yield (
            f"AddPartitionsToTxn {name}",
            AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=name,
                v3_and_below_producer_id=1_000_000_007,
                v3_and_below_topics=tuple(
                    AddPartitionsToTxnTopic(name=topic, partitions=(0,)) for topic in (*TOPICS, MISSING)
                ),
            ),
            3,
        )
        yield (
            f"TxnOffsetCommit {name}",
            TxnOffsetCommitRequest(
                **ids,
                group_id=GROUPS[0],
                generation_id_or_member_epoch=5,
                member_id=NO_MEMBER,
                topics=tuple(
                    TxnOffsetCommitRequestTopic(
                        name=topic,
                        partitions=(
                            TxnOffsetCommitRequestPartition(
                                partition_index=0, committed_offset=1, committed_metadata=""
                            ),
                        ),
                    )
                    for topic in (*TOPICS, MISSING)
                ),
            ),
            3,
        )
    yield "DescribeTransactions", DescribeTransactionsRequest(transactional_ids=TRANSACTIONAL_IDS), 0
    yield "ListTransactions", ListTransactionsRequest(state_filters=(), producer_id_filters=()), 0


def _cluster() -> Rows:
    yield "DescribeCluster", DescribeClusterRequest(include_cluster_authorized_operations=True), 1
    yield (
        "DescribeAcls",
        DescribeAclsRequest(
            resource_type_filter=7,
            resource_name_filter=None,
            pattern_type_filter=1,
            principal_filter=None,
            host_filter=None,
            operation=1,
            permission_type=1,
        ),
        3,
    )
    yield (
        "CreateAcls",
        CreateAclsRequest(
            creations=(
                AclCreation(
                    resource_type=4,
                    resource_name="no-cluster",
                    principal="User:x",
                    host="*",
                    operation=3,
                    permission_type=3,
                ),
            )
        ),
        3,
    )
    yield (
        "DeleteAcls",
        DeleteAclsRequest(
            filters=(
                DeleteAclsFilter(
                    resource_type_filter=2,
                    resource_name_filter="none",
                    principal_filter=None,
                    host_filter=None,
                    operation=1,
                    permission_type=1,
                ),
            )
        ),
        3,
    )
    yield "DescribeUserScramCredentials", DescribeUserScramCredentialsRequest(users=(UserName(name="nobody"),)), 0
    yield (
        "AlterUserScramCredentials",
        AlterUserScramCredentialsRequest(
            deletions=(ScramCredentialDeletion(name="nobody", mechanism=1),), upsertions=()
        ),
        0,
    )
    yield "DescribeLogDirs", DescribeLogDirsRequest(topics=(DescribableLogDirTopic(topic="none", partitions=(0,)),)), 4
    yield (
        "ElectLeaders",
        ElectLeadersRequest(topic_partitions=(TopicPartitions(topic=TOPICS[0], partitions=(0,)),), timeout_ms=1_000),
        2,
    )
    yield "DescribeClientQuotas", DescribeClientQuotasRequest(components=(), strict=False), 1
    yield "ListConfigResources", ListConfigResourcesRequest(resource_types=(2,)), 1
