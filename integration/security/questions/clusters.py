"""The cluster as a whole."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from integration.security.questions.things import GROUPS, MISSING, TOPICS, Rows
from kshim_protocol.messages.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData
from kshim_protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResource
from kshim_protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from kshim_protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
)
from kshim_protocol.messages.create_acls import AclCreation, CreateAclsRequest
from kshim_protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from kshim_protocol.messages.describe_acls import DescribeAclsRequest
from kshim_protocol.messages.describe_client_quotas import DescribeClientQuotasRequest
from kshim_protocol.messages.describe_cluster import DescribeClusterRequest
from kshim_protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from kshim_protocol.messages.describe_quorum import DescribeQuorumRequest, PartitionData, TopicData
from kshim_protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from kshim_protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from kshim_protocol.messages.list_config_resources import ListConfigResourcesRequest
from kshim_protocol.messages.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest

NO_MARKER: Final = WritableTxnMarker(
    producer_id=1,
    producer_epoch=0,
    transaction_result=False,
    topics=(WritableTxnMarkerTopic(name=MISSING, partition_indexes=(0,)),),
    coordinator_epoch=0,
)
NO_QUOTA: Final = EntryData(
    entity=(EntityData(entity_type="user", entity_name="nobody"),),
    ops=(OpData(key="producer_byte_rate", value=1.0, remove=True),),
)


def access_rules(ids: Mapping[str, bytes]) -> Rows:
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


def cluster(ids: Mapping[str, bytes]) -> Rows:
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
        "AlterReplicaLogDirs",
        AlterReplicaLogDirsRequest(
            dirs=(
                AlterReplicaLogDir(path="/nowhere", topics=(AlterReplicaLogDirTopic(name=TOPICS[0], partitions=(0,)),)),
            )
        ),
        2,
    )
    yield (
        "DescribeQuorum",
        DescribeQuorumRequest(topics=(TopicData(topic_name="none", partitions=(PartitionData(partition_index=0),)),)),
        1,
    )
    yield (
        "ElectLeaders",
        ElectLeadersRequest(topic_partitions=(TopicPartitions(topic=TOPICS[0], partitions=(0,)),), timeout_ms=1_000),
        2,
    )
    yield "WriteTxnMarkers", WriteTxnMarkersRequest(markers=(NO_MARKER,)), 1
    yield "AlterClientQuotas", AlterClientQuotasRequest(entries=(NO_QUOTA,), validate_only=True), 1
    yield (
        "AlterConfigs",
        AlterConfigsRequest(
            resources=tuple(
                AlterConfigsResource(resource_type=kind, resource_name=name, configs=())
                for kind, name in ((2, TOPICS[0]), (2, TOPICS[1]), (4, "1"), (32, GROUPS[0]), (16, "metrics"))
            ),
            validate_only=True,
        ),
        2,
    )
    yield "DescribeClientQuotas", DescribeClientQuotasRequest(components=(), strict=False), 1
    yield "ListConfigResources", ListConfigResourcesRequest(resource_types=(2,)), 1
