"""Every API this project speaks: key, versions, first flexible version, and where its messages are declared.

The table is static, so that ApiVersions can be answered before any message module is imported; tests hold it equal to
the message tables and to Kafka's JSON schemas.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kshim_protocol.schema import Request, Struct


class Api:
    """One API: `key`, `name` as Kafka spells it, stable versions `min_version`..`max_version`.

    `flexible_from` is the first version with compact types and tagged fields, None where there is none. `module` is
    the name shared by its message module, its coordinator module and its handler.
    """

    def __init__(self, key: int, name: str, module: str, versions: tuple[int, int], flexible_from: int | None) -> None:
        self.key = key
        self.name = name
        self.module = module
        self.min_version, self.max_version = versions
        self.flexible_from = flexible_from

    def is_flexible(self, version: int) -> bool:
        """Whether `version` uses request header v2 (and response header v1, but for ApiVersions)."""
        return self.flexible_from is not None and version >= self.flexible_from

    def request_class(self) -> type[Request[Any]]:
        """The request message; imports its module on first use."""
        found: type[Request[Any]] = getattr(
            import_module(f"kshim_protocol.messages.{self.module}"), f"{self.name}Request"
        )
        return found

    def response_class(self) -> type[Struct]:
        """The response message; imports its module on first use."""
        found: type[Struct] = getattr(import_module(f"kshim_protocol.messages.{self.module}"), f"{self.name}Response")
        return found

    def __repr__(self) -> str:
        return f"<{self.name} ({self.key}) {self.min_version}-{self.max_version}>"


# fmt: off
API_TABLE: dict[int, Api] = {
    api.key: api
    for api in (
        Api( 0, "Produce",                   "produce",                    (3, 13), 9),
        Api( 1, "Fetch",                     "fetch",                      (4, 18), 12),
        Api( 2, "ListOffsets",               "list_offsets",               (1, 11), 6),
        Api( 3, "Metadata",                  "metadata",                   (0, 13), 9),
        Api( 8, "OffsetCommit",              "offset_commit",              (2, 10), 8),
        Api( 9, "OffsetFetch",               "offset_fetch",               (1, 10), 6),
        Api(10, "FindCoordinator",           "find_coordinator",           (0, 6), 3),
        Api(11, "JoinGroup",                 "join_group",                 (0, 9), 6),
        Api(12, "Heartbeat",                 "heartbeat",                  (0, 4), 4),
        Api(13, "LeaveGroup",                "leave_group",                (0, 5), 4),
        Api(14, "SyncGroup",                 "sync_group",                 (0, 5), 4),
        Api(15, "DescribeGroups",            "describe_groups",            (0, 6), 5),
        Api(16, "ListGroups",                "list_groups",                (0, 5), 3),
        Api(17, "SaslHandshake",             "sasl_handshake",             (0, 1), None),
        Api(18, "ApiVersions",               "api_versions",               (0, 5), 3),
        Api(19, "CreateTopics",              "create_topics",              (2, 7), 5),
        Api(20, "DeleteTopics",              "delete_topics",              (1, 6), 4),
        Api(21, "DeleteRecords",             "delete_records",             (0, 2), 2),
        Api(22, "InitProducerId",            "init_producer_id",           (0, 5), 2),
        Api(23, "OffsetForLeaderEpoch",      "offset_for_leader_epoch",    (2, 4), 4),
        Api(24, "AddPartitionsToTxn",        "add_partitions_to_txn",      (0, 5), 3),
        Api(25, "AddOffsetsToTxn",           "add_offsets_to_txn",         (0, 4), 3),
        Api(26, "EndTxn",                    "end_txn",                    (0, 5), 3),
        Api(27, "WriteTxnMarkers",           "write_txn_markers",          (1, 2), 1),
        Api(28, "TxnOffsetCommit",           "txn_offset_commit",          (0, 6), 3),
        Api(29, "DescribeAcls",              "describe_acls",              (1, 3), 2),
        Api(30, "CreateAcls",                "create_acls",                (1, 3), 2),
        Api(31, "DeleteAcls",                "delete_acls",                (1, 3), 2),
        Api(32, "DescribeConfigs",           "describe_configs",           (1, 4), 4),
        Api(33, "AlterConfigs",              "alter_configs",              (0, 2), 2),
        Api(34, "AlterReplicaLogDirs",       "alter_replica_log_dirs",     (1, 2), 2),
        Api(35, "DescribeLogDirs",           "describe_log_dirs",          (1, 5), 2),
        Api(36, "SaslAuthenticate",          "sasl_authenticate",          (0, 2), 2),
        Api(37, "CreatePartitions",          "create_partitions",          (0, 3), 2),
        Api(42, "DeleteGroups",              "delete_groups",              (0, 3), 2),
        Api(43, "ElectLeaders",              "elect_leaders",              (0, 2), 2),
        Api(44, "IncrementalAlterConfigs",   "incremental_alter_configs",  (0, 1), 1),
        Api(45, "AlterPartitionReassignments", "alter_partition_reassignments", (0, 1), 0),
        Api(46, "ListPartitionReassignments", "list_partition_reassignments", (0, 0), 0),
        Api(47, "OffsetDelete",              "offset_delete",              (0, 0), None),
        Api(48, "DescribeClientQuotas",      "describe_client_quotas",     (0, 1), 1),
        Api(49, "AlterClientQuotas",         "alter_client_quotas",        (0, 1), 1),
        Api(50, "DescribeUserScramCredentials", "describe_user_scram_credentials", (0, 0), 0),
        Api(51, "AlterUserScramCredentials", "alter_user_scram_credentials", (0, 0), 0),
        Api(55, "DescribeQuorum",            "describe_quorum",            (0, 2), 0),
        Api(57, "UpdateFeatures",            "update_features",            (0, 2), 0),
        Api(60, "DescribeCluster",           "describe_cluster",           (0, 2), 0),
        Api(61, "DescribeProducers",         "describe_producers",         (0, 0), 0),
        Api(65, "DescribeTransactions",      "describe_transactions",      (0, 0), 0),
        Api(66, "ListTransactions",          "list_transactions",          (0, 2), 0),
        Api(68, "ConsumerGroupHeartbeat",    "consumer_group_heartbeat",   (0, 1), 0),
        Api(69, "ConsumerGroupDescribe",     "consumer_group_describe",    (0, 1), 0),
        Api(74, "ListConfigResources",       "list_config_resources",      (0, 1), 0),
        Api(75, "DescribeTopicPartitions",   "describe_topic_partitions",  (0, 0), 0),
        Api(76, "ShareGroupHeartbeat",       "share_group_heartbeat",      (1, 1), 0),
        Api(77, "ShareGroupDescribe",        "share_group_describe",       (1, 1), 0),
        Api(78, "ShareFetch",                "share_fetch",                (1, 2), 0),
        Api(79, "ShareAcknowledge",          "share_acknowledge",          (1, 2), 0),
        Api(83, "InitializeShareGroupState", "initialize_share_group_state", (0, 0), 0),
        Api(84, "ReadShareGroupState",       "read_share_group_state",     (0, 0), 0),
        Api(85, "WriteShareGroupState",      "write_share_group_state",    (0, 1), 0),
        Api(86, "DeleteShareGroupState",     "delete_share_group_state",   (0, 0), 0),
        Api(87, "ReadShareGroupStateSummary", "read_share_group_state_summary", (0, 1), 0),
        Api(88, "StreamsGroupHeartbeat",     "streams_group_heartbeat",    (0, 1), 0),
        Api(89, "StreamsGroupDescribe",      "streams_group_describe",     (0, 1), 0),
        Api(90, "DescribeShareGroupOffsets", "describe_share_group_offsets", (0, 1), 0),
        Api(91, "AlterShareGroupOffsets",    "alter_share_group_offsets",  (0, 0), 0),
        Api(92, "DeleteShareGroupOffsets",   "delete_share_group_offsets", (0, 0), 0),
        Api(93, "StreamsGroupTopologyDescriptionUpdate", "streams_group_topology_description_update", (0, 0), 0),
    )
}
# fmt: on


def api_named(name: str) -> Api:
    """The API of that name ("JoinGroup"). Raises KeyError."""
    for api in API_TABLE.values():
        if api.name == name:
            return api
    raise KeyError(name)
