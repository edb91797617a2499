"""Which error codes each API answers, and where: at the top of the response, or for a group, topic, partition or member.

From the comments of Kafka's response classes and the code that fills them in, 4.4. Every API may answer those of
`EVERYWHERE` besides.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from kshim.faults.entries import LEVELS
from kshim_protocol.errors import ErrorCode

EVERYWHERE: Final = "UNKNOWN_SERVER_ERROR INVALID_REQUEST UNSUPPORTED_VERSION"

_COORDINATOR: Final = "COORDINATOR_LOAD_IN_PROGRESS COORDINATOR_NOT_AVAILABLE NOT_COORDINATOR"
_GROUP: Final = f"{_COORDINATOR} INVALID_GROUP_ID GROUP_AUTHORIZATION_FAILED"
_TRANSACTION: Final = (
    f"{_COORDINATOR} CONCURRENT_TRANSACTIONS INVALID_PRODUCER_EPOCH PRODUCER_FENCED INVALID_PRODUCER_ID_MAPPING "
    "INVALID_TXN_STATE TRANSACTIONAL_ID_AUTHORIZATION_FAILED TRANSACTION_ABORTABLE REQUEST_TIMED_OUT"
)
_LEADER: Final = (
    "UNKNOWN_TOPIC_OR_PARTITION NOT_LEADER_OR_FOLLOWER KAFKA_STORAGE_ERROR TOPIC_AUTHORIZATION_FAILED UNKNOWN_TOPIC_ID"
)
_READ: Final = f"{_LEADER} FENCED_LEADER_EPOCH UNKNOWN_LEADER_EPOCH REPLICA_NOT_AVAILABLE OFFSET_OUT_OF_RANGE"
_COMMIT: Final = (
    f"{_GROUP} UNKNOWN_MEMBER_ID ILLEGAL_GENERATION FENCED_INSTANCE_ID REBALANCE_IN_PROGRESS STALE_MEMBER_EPOCH "
    "OFFSET_METADATA_TOO_LARGE INVALID_COMMIT_OFFSET_SIZE REQUEST_TIMED_OUT TOPIC_AUTHORIZATION_FAILED "
    "UNKNOWN_TOPIC_OR_PARTITION UNKNOWN_TOPIC_ID GROUP_ID_NOT_FOUND"
)
_CONTROLLER: Final = "NOT_CONTROLLER CLUSTER_AUTHORIZATION_FAILED REQUEST_TIMED_OUT"
_TOPIC_CHANGE: Final = (
    f"{_CONTROLLER} TOPIC_AUTHORIZATION_FAILED INVALID_TOPIC_EXCEPTION THROTTLING_QUOTA_EXCEEDED POLICY_VIOLATION"
)
_CONFIG_CHANGE: Final = (
    f"{_CONTROLLER} TOPIC_AUTHORIZATION_FAILED GROUP_AUTHORIZATION_FAILED INVALID_CONFIG POLICY_VIOLATION "
    "INVALID_TOPIC_EXCEPTION UNKNOWN_TOPIC_OR_PARTITION"
)
_SHARE_STATE: Final = (
    f"{_COORDINATOR} UNKNOWN_TOPIC_OR_PARTITION FENCED_LEADER_EPOCH FENCED_STATE_EPOCH CLUSTER_AUTHORIZATION_FAILED "
    "REQUEST_TIMED_OUT"
)
_SHARE_SESSION: Final = "GROUP_AUTHORIZATION_FAILED SHARE_SESSION_NOT_FOUND INVALID_SHARE_SESSION_EPOCH"
_SHARE_OFFSETS: Final = f"{_GROUP} GROUP_ID_NOT_FOUND NON_EMPTY_GROUP REQUEST_TIMED_OUT"
_SECURITY: Final = "SECURITY_DISABLED CLUSTER_AUTHORIZATION_FAILED"

_STATE_APIS: Final = (("Initialize", ""), ("Read", ""), ("Write", ""), ("Delete", ""), ("Read", "Summary"))

# fmt: off
_CODES: Final[dict[str, dict[str, str]]] = {
    "Produce": {"partition": f"{_LEADER} CORRUPT_MESSAGE MESSAGE_TOO_LARGE RECORD_LIST_TOO_LARGE NOT_ENOUGH_REPLICAS "
                "NOT_ENOUGH_REPLICAS_AFTER_APPEND INVALID_REQUIRED_ACKS INVALID_TOPIC_EXCEPTION INVALID_TIMESTAMP "
                "INVALID_RECORD UNSUPPORTED_FOR_MESSAGE_FORMAT UNSUPPORTED_COMPRESSION_TYPE REQUEST_TIMED_OUT "
                "OUT_OF_ORDER_SEQUENCE_NUMBER DUPLICATE_SEQUENCE_NUMBER UNKNOWN_PRODUCER_ID INVALID_PRODUCER_EPOCH "
                "INVALID_PRODUCER_ID_MAPPING INVALID_TXN_STATE TRANSACTION_ABORTABLE CONCURRENT_TRANSACTIONS "
                "CLUSTER_AUTHORIZATION_FAILED "
                "TRANSACTIONAL_ID_AUTHORIZATION_FAILED POLICY_VIOLATION LEADER_NOT_AVAILABLE"},
    "Fetch": {"top": "FETCH_SESSION_ID_NOT_FOUND INVALID_FETCH_SESSION_EPOCH FETCH_SESSION_TOPIC_ID_ERROR "
              "KAFKA_STORAGE_ERROR",
              "partition": f"{_READ} CORRUPT_MESSAGE UNSUPPORTED_COMPRESSION_TYPE OFFSET_NOT_AVAILABLE "
              "INCONSISTENT_TOPIC_ID OFFSET_MOVED_TO_TIERED_STORAGE LEADER_NOT_AVAILABLE"},
    "ListOffsets": {"partition": f"{_READ} OFFSET_NOT_AVAILABLE LEADER_NOT_AVAILABLE UNSUPPORTED_FOR_MESSAGE_FORMAT "
                    "REQUEST_TIMED_OUT"},
    "Metadata": {"top": "REBOOTSTRAP_REQUIRED",
                 "topic": "UNKNOWN_TOPIC_OR_PARTITION LEADER_NOT_AVAILABLE INVALID_TOPIC_EXCEPTION "
                 "TOPIC_AUTHORIZATION_FAILED UNKNOWN_TOPIC_ID CLUSTER_AUTHORIZATION_FAILED REQUEST_TIMED_OUT "
                 "INVALID_REPLICATION_FACTOR INVALID_PARTITIONS",
                 "partition": "LEADER_NOT_AVAILABLE LISTENER_NOT_FOUND REPLICA_NOT_AVAILABLE"},
    "OffsetCommit": {"partition": _COMMIT},
    "OffsetFetch": {"top": f"{_GROUP} GROUP_ID_NOT_FOUND UNKNOWN_MEMBER_ID STALE_MEMBER_EPOCH UNSTABLE_OFFSET_COMMIT",
                    "group": f"{_GROUP} GROUP_ID_NOT_FOUND UNKNOWN_MEMBER_ID STALE_MEMBER_EPOCH REQUEST_TIMED_OUT",
                    "partition": "UNSTABLE_OFFSET_COMMIT UNKNOWN_TOPIC_OR_PARTITION TOPIC_AUTHORIZATION_FAILED "
                    "UNKNOWN_TOPIC_ID"},
    "FindCoordinator": dict.fromkeys(("top", "group"), "COORDINATOR_LOAD_IN_PROGRESS COORDINATOR_NOT_AVAILABLE "
                                     "GROUP_AUTHORIZATION_FAILED TRANSACTIONAL_ID_AUTHORIZATION_FAILED"),
    "JoinGroup": {"top": f"{_GROUP} MEMBER_ID_REQUIRED UNKNOWN_MEMBER_ID FENCED_INSTANCE_ID INVALID_SESSION_TIMEOUT "
                  "INCONSISTENT_GROUP_PROTOCOL GROUP_MAX_SIZE_REACHED REBALANCE_IN_PROGRESS UNRELEASED_INSTANCE_ID "
                  "ILLEGAL_GENERATION REQUEST_TIMED_OUT"},
    # COORDINATOR_LOAD_IN_PROGRESS: the coordinator of Kafka 4 sends it in SyncGroup, too; that of Kafka 3 sent
    # REBALANCE_IN_PROGRESS instead, for the sake of old clients.
    "SyncGroup": {"top": f"{_GROUP} UNKNOWN_MEMBER_ID FENCED_INSTANCE_ID ILLEGAL_GENERATION REBALANCE_IN_PROGRESS "
                  "INCONSISTENT_GROUP_PROTOCOL REQUEST_TIMED_OUT"},
    "Heartbeat": {"top": f"{_GROUP} UNKNOWN_MEMBER_ID FENCED_INSTANCE_ID ILLEGAL_GENERATION REBALANCE_IN_PROGRESS "
                  "REQUEST_TIMED_OUT"},
    "ConsumerGroupHeartbeat": {"top": f"{_GROUP} GROUP_ID_NOT_FOUND UNKNOWN_MEMBER_ID FENCED_MEMBER_EPOCH "
                               "FENCED_INSTANCE_ID UNRELEASED_INSTANCE_ID UNSUPPORTED_ASSIGNOR GROUP_MAX_SIZE_REACHED "
                               "INVALID_REGULAR_EXPRESSION TOPIC_AUTHORIZATION_FAILED UNSUPPORTED_VERSION "
                               "REQUEST_TIMED_OUT"},
    "ConsumerGroupDescribe": {"group": f"{_GROUP} GROUP_ID_NOT_FOUND TOPIC_AUTHORIZATION_FAILED UNSUPPORTED_VERSION "
                              "REQUEST_TIMED_OUT"},
    "LeaveGroup": {"top": f"{_GROUP} UNKNOWN_MEMBER_ID FENCED_INSTANCE_ID REQUEST_TIMED_OUT",
                   "member": "UNKNOWN_MEMBER_ID FENCED_INSTANCE_ID"},
    "DescribeGroups": {"group": f"{_GROUP} GROUP_ID_NOT_FOUND REQUEST_TIMED_OUT"},
    "DeleteGroups": {"group": f"{_GROUP} GROUP_ID_NOT_FOUND NON_EMPTY_GROUP GROUP_DELETION_FAILED REQUEST_TIMED_OUT"},
    "ListGroups": {"top": "COORDINATOR_LOAD_IN_PROGRESS COORDINATOR_NOT_AVAILABLE REQUEST_TIMED_OUT "
                   "CLUSTER_AUTHORIZATION_FAILED"},
    "OffsetDelete": {"top": f"{_GROUP} GROUP_ID_NOT_FOUND NON_EMPTY_GROUP REQUEST_TIMED_OUT",
                     "partition": "GROUP_SUBSCRIBED_TO_TOPIC UNKNOWN_TOPIC_OR_PARTITION TOPIC_AUTHORIZATION_FAILED"},
    "ApiVersions": {"top": "REBOOTSTRAP_REQUIRED"},
    "SaslHandshake": {"top": "UNSUPPORTED_SASL_MECHANISM ILLEGAL_SASL_STATE"},
    "SaslAuthenticate": {"top": "SASL_AUTHENTICATION_FAILED ILLEGAL_SASL_STATE"},
    "CreateTopics": {"topic": f"{_TOPIC_CHANGE} TOPIC_ALREADY_EXISTS INVALID_PARTITIONS INVALID_REPLICATION_FACTOR "
                     "INVALID_REPLICA_ASSIGNMENT INVALID_CONFIG"},
    "DeleteTopics": {"topic": f"{_TOPIC_CHANGE} UNKNOWN_TOPIC_OR_PARTITION UNKNOWN_TOPIC_ID TOPIC_DELETION_DISABLED"},
    "CreatePartitions": {"topic": f"{_TOPIC_CHANGE} UNKNOWN_TOPIC_OR_PARTITION INVALID_PARTITIONS "
                         "INVALID_REPLICA_ASSIGNMENT REASSIGNMENT_IN_PROGRESS"},
    "DeleteRecords": {"partition": f"{_LEADER} OFFSET_OUT_OF_RANGE REQUEST_TIMED_OUT POLICY_VIOLATION "
                      "INVALID_TOPIC_EXCEPTION"},
    "OffsetForLeaderEpoch": {"partition": _READ},
    "DescribeProducers": {"partition": f"{_LEADER} INVALID_TOPIC_EXCEPTION"},
    "DescribeTopicPartitions": {"topic": "UNKNOWN_TOPIC_OR_PARTITION TOPIC_AUTHORIZATION_FAILED "
                                "INVALID_TOPIC_EXCEPTION",
                                "partition": "LEADER_NOT_AVAILABLE LISTENER_NOT_FOUND"},
    "InitProducerId": {"top": f"{_TRANSACTION} CLUSTER_AUTHORIZATION_FAILED INVALID_TRANSACTION_TIMEOUT"},
    "AddPartitionsToTxn": {"top": "CLUSTER_AUTHORIZATION_FAILED",
                           "partition": f"{_TRANSACTION} TOPIC_AUTHORIZATION_FAILED UNKNOWN_TOPIC_OR_PARTITION "
                           "OPERATION_NOT_ATTEMPTED"},
    "AddOffsetsToTxn": {"top": f"{_TRANSACTION} INVALID_GROUP_ID GROUP_AUTHORIZATION_FAILED"},
    "EndTxn": {"top": _TRANSACTION},
    "TxnOffsetCommit": {"partition": f"{_COMMIT} INVALID_PRODUCER_EPOCH UNSUPPORTED_FOR_MESSAGE_FORMAT "
                        "TRANSACTIONAL_ID_AUTHORIZATION_FAILED TRANSACTION_ABORTABLE"},
    "WriteTxnMarkers": {"request": f"{_LEADER} CLUSTER_AUTHORIZATION_FAILED CORRUPT_MESSAGE INVALID_PRODUCER_EPOCH "
                        "NOT_ENOUGH_REPLICAS NOT_ENOUGH_REPLICAS_AFTER_APPEND REQUEST_TIMED_OUT "
                        "TRANSACTION_COORDINATOR_FENCED"},
    "DescribeTransactions": {"request": f"{_COORDINATOR} TRANSACTIONAL_ID_NOT_FOUND "
                             "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"},
    "ListTransactions": {"top": "COORDINATOR_LOAD_IN_PROGRESS COORDINATOR_NOT_AVAILABLE INVALID_REGULAR_EXPRESSION"},
    "DescribeAcls": {"top": _SECURITY},
    "CreateAcls": {"request": f"{_SECURITY} {_CONTROLLER}"},
    "DeleteAcls": {"request": f"{_SECURITY} {_CONTROLLER}"},
    "DescribeConfigs": {"request": "TOPIC_AUTHORIZATION_FAILED CLUSTER_AUTHORIZATION_FAILED "
                        "GROUP_AUTHORIZATION_FAILED UNKNOWN_TOPIC_OR_PARTITION INVALID_TOPIC_EXCEPTION "
                        "INVALID_CONFIG"},
    "AlterConfigs": {"request": _CONFIG_CHANGE},
    "IncrementalAlterConfigs": {"request": _CONFIG_CHANGE},
    "DescribeLogDirs": {"request": "KAFKA_STORAGE_ERROR CLUSTER_AUTHORIZATION_FAILED LOG_DIR_NOT_FOUND"},
    "AlterReplicaLogDirs": {"request": "KAFKA_STORAGE_ERROR CLUSTER_AUTHORIZATION_FAILED LOG_DIR_NOT_FOUND "
                            "REPLICA_NOT_AVAILABLE UNKNOWN_TOPIC_OR_PARTITION INVALID_TOPIC_EXCEPTION"},
    "DescribeQuorum": {"top": f"{_CONTROLLER} UNKNOWN_SERVER_ERROR"},
    "ElectLeaders": {"top": _CONTROLLER,
                     "partition": "PREFERRED_LEADER_NOT_AVAILABLE ELIGIBLE_LEADERS_NOT_AVAILABLE ELECTION_NOT_NEEDED "
                     f"UNKNOWN_TOPIC_OR_PARTITION INVALID_TOPIC_EXCEPTION {_CONTROLLER}"},
    "AlterPartitionReassignments": {"top": _CONTROLLER,
                                    "partition": "INVALID_REPLICA_ASSIGNMENT NO_REASSIGNMENT_IN_PROGRESS "
                                    "UNKNOWN_TOPIC_OR_PARTITION INVALID_TOPIC_EXCEPTION INVALID_REPLICATION_FACTOR"},
    "ListPartitionReassignments": {"top": _CONTROLLER},
    "DescribeClientQuotas": {"top": "CLUSTER_AUTHORIZATION_FAILED"},
    "AlterClientQuotas": {"request": _CONTROLLER},
    "DescribeUserScramCredentials": {"top": "CLUSTER_AUTHORIZATION_FAILED"},
    "AlterUserScramCredentials": {"request": f"{_CONTROLLER} UNSUPPORTED_SASL_MECHANISM UNACCEPTABLE_CREDENTIAL "
                                  "RESOURCE_NOT_FOUND DUPLICATE_RESOURCE"},
    "DescribeCluster": {"top": "CLUSTER_AUTHORIZATION_FAILED MISMATCHED_ENDPOINT_TYPE UNSUPPORTED_ENDPOINT_TYPE"},
    "ListConfigResources": {"top": "CLUSTER_AUTHORIZATION_FAILED"},
    "ShareGroupHeartbeat": {"top": f"{_GROUP} GROUP_ID_NOT_FOUND UNKNOWN_MEMBER_ID FENCED_MEMBER_EPOCH "
                            "GROUP_MAX_SIZE_REACHED TOPIC_AUTHORIZATION_FAILED REQUEST_TIMED_OUT"},
    "ShareGroupDescribe": {"group": f"{_GROUP} GROUP_ID_NOT_FOUND TOPIC_AUTHORIZATION_FAILED REQUEST_TIMED_OUT"},
    "StreamsGroupHeartbeat": {"top": f"{_GROUP} GROUP_ID_NOT_FOUND UNKNOWN_MEMBER_ID FENCED_MEMBER_EPOCH "
                              "UNRELEASED_INSTANCE_ID FENCED_INSTANCE_ID GROUP_MAX_SIZE_REACHED STREAMS_INVALID_TOPOLOGY "
                              "STREAMS_INVALID_TOPOLOGY_EPOCH STREAMS_TOPOLOGY_FENCED TOPIC_AUTHORIZATION_FAILED "
                              "CLUSTER_AUTHORIZATION_FAILED UNSUPPORTED_VERSION REQUEST_TIMED_OUT"},
    "StreamsGroupDescribe": {"group": f"{_GROUP} GROUP_ID_NOT_FOUND TOPIC_AUTHORIZATION_FAILED REQUEST_TIMED_OUT"},
    "StreamsGroupTopologyDescriptionUpdate": {"top": f"{_GROUP} GROUP_ID_NOT_FOUND UNKNOWN_MEMBER_ID UNSUPPORTED_VERSION "
                                              "STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED REQUEST_TIMED_OUT"},
    "ShareFetch": {"top": f"{_SHARE_SESSION} SHARE_SESSION_LIMIT_REACHED",
                   "partition": f"{_LEADER} FENCED_LEADER_EPOCH OFFSET_NOT_AVAILABLE CORRUPT_MESSAGE "
                   "COORDINATOR_NOT_AVAILABLE"},
    "ShareAcknowledge": {"top": _SHARE_SESSION,
                         "partition": f"{_LEADER} INVALID_RECORD_STATE COORDINATOR_NOT_AVAILABLE"},
    "DescribeShareGroupOffsets": {"group": f"{_GROUP} GROUP_ID_NOT_FOUND REQUEST_TIMED_OUT",
                                  "partition": "TOPIC_AUTHORIZATION_FAILED UNKNOWN_TOPIC_OR_PARTITION"},
    "AlterShareGroupOffsets": {"top": _SHARE_OFFSETS,
                               "partition": "TOPIC_AUTHORIZATION_FAILED UNKNOWN_TOPIC_OR_PARTITION"},
    "DeleteShareGroupOffsets": {"top": _SHARE_OFFSETS,
                                "topic": "TOPIC_AUTHORIZATION_FAILED UNKNOWN_TOPIC_OR_PARTITION"},
    **{f"{verb}ShareGroupState{what}": {"partition": _SHARE_STATE} for verb, what in _STATE_APIS},
    "UpdateFeatures": {"top": f"{_CONTROLLER} INVALID_UPDATE_VERSION FEATURE_UPDATE_FAILED"},
}
# fmt: on
"""`request` stands for an error that is repeated on everything the request names."""


@lru_cache(maxsize=128)
def codes_of(api: str) -> dict[str, tuple[str, ...]]:
    """The error codes of an API by level, from the top down. Those of `EVERYWHERE` are in each."""
    levels = _CODES[api]
    order = ("request", *LEVELS)
    found = {level: f"{levels[level]} {EVERYWHERE}" for level in order if level in levels}
    return {level: tuple(sorted(set(codes.split()))) for level, codes in found.items()}


def check_error(api: str, code: str, level: str | None) -> None:
    """Raises ValueError for a code that the API does not answer, at that level where one is given; with the list."""
    by_level = codes_of(api)
    if code not in ErrorCode.__members__:
        raise ValueError(f'there is no error "{code}" in Kafka; {api} answers {_listed(by_level)}')
    if code == ErrorCode.NONE.name:
        raise ValueError("NONE is no error; leave the fault out")
    if level is not None:
        if level not in by_level:
            raise ValueError(f"{api} has no errors at the level {level}; it answers {_listed(by_level)}")
        if code not in by_level[level]:
            raise ValueError(f"{api} does not answer {code} at the level {level}; it answers {_listed(by_level)}")
    elif not any(code in codes for codes in by_level.values()):
        raise ValueError(f"{api} does not answer {code}; it answers {_listed(by_level)}")


def level_of(api: str, code: str, kinds: tuple[str, ...]) -> str:
    """Where an error goes if no level is given: as near as it can be to what is matched, else as far up as it can be.

    `kinds` are those matched one by one, from the nearest up: `("partition", "topic")`.
    """
    possible = [level for level, codes in codes_of(api).items() if code in codes]
    for kind in kinds:
        if kind in possible:
            return kind
    return possible[0]


def _listed(by_level: dict[str, tuple[str, ...]]) -> str:
    """
    >>> _listed({"top": ("A", "B"), "partition": ("C",)})
    'top: A, B; partition: C'
    """
    if len(by_level) == 1:
        return ", ".join(*by_level.values())
    return "; ".join(f"{level}: {', '.join(codes)}" for level, codes in by_level.items())
