"""Where the handler of each API is: the areas of the protocol, one module an API."""

from __future__ import annotations

from typing import Final

_AREAS: Final = {
    "cluster": (
        "api_versions",
        "describe_cluster",
        "find_coordinator",
        "describe_log_dirs",
        "alter_replica_log_dirs",
        "describe_quorum",
        "alter_client_quotas",
        "describe_client_quotas",
        "update_features",
    ),
    "configs": (
        "alter_configs",
        "incremental_alter_configs",
        "describe_configs",
        "list_config_resources",
    ),
    "records": (
        "produce",
        "fetch",
        "list_offsets",
        "delete_records",
        "describe_producers",
        "offset_for_leader_epoch",
        "init_producer_id",
    ),
    "security": (
        "sasl_handshake",
        "sasl_authenticate",
        "create_acls",
        "describe_acls",
        "delete_acls",
        "alter_user_scram_credentials",
        "describe_user_scram_credentials",
    ),
    "share": (
        "describe_share_group_offsets",
        "share_fetch",
        "share_acknowledge",
    ),
    "streams": (
        "streams_group_heartbeat",
        "streams_group_topology_description_update",
    ),
    "topics": (
        "metadata",
        "create_topics",
        "create_partitions",
        "delete_topics",
        "describe_topic_partitions",
        "elect_leaders",
        "alter_partition_reassignments",
        "list_partition_reassignments",
    ),
    "transactions": (
        "list_transactions",
        "txn_offset_commit",
        "write_txn_markers",
    ),
}
_COORDINATORS: Final = (
    "kshim.broker.handlers.groups.coordinator",
    "kshim.broker.handlers.transactions.coordinator",
    "kshim.broker.handlers.share.coordinator",
    "kshim.broker.handlers.streams.coordinator",
)
"""Modules with the tables of what coordinators answer by themselves."""

_MODULES: Final = {name: f"kshim.broker.handlers.{area}.{name}" for area, names in _AREAS.items() for name in names}


def modules_of(api: str) -> tuple[str, ...]:
    """The modules where the handler of an API is, of which the first that has it counts. `api` is as in `join_group`."""
    return (_MODULES[api],) if api in _MODULES else _COORDINATORS
