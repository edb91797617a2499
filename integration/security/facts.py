"""What an answer says of permissions: error codes, names and bit fields; nothing that differs from broker to broker."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kshim_protocol.messages.create_topics import CreatableTopicResult
from kshim_protocol.schema import ZERO_UUID, Struct

LEFT_OUT = frozenset(
    {
        "aborted_transactions",
        "brokers",
        "cluster_id",
        "config_source",
        "controller_id",
        "coordinators_epoch",
        "current_leader",
        "eligible_leader_replicas",
        "error_message",
        "high_watermark",
        "host",
        "last_known_elr",
        "last_stable_offset",
        "leader_epoch",
        "log_append_time_ms",
        "log_start_offset",
        "node_id",
        "offset",
        "port",
        "producer_epoch",
        "producer_id",
        "records",
        "session_id",
        "throttle_time_ms",
        "total_bytes",
        "usable_bytes",
        "log_dir",
        "node_endpoints",
        "unknown_tagged_fields",
    }
)


def facts_of(response: Any, names: Mapping[bytes, str]) -> Any:
    """The response as nested dicts and sorted lists. `names` tells which topic an id is of."""
    if isinstance(response, Struct):
        return {
            row.name: facts_of(getattr(response, row.name), names)
            for row in response.info.rows
            if row.name not in LEFT_OUT and not (isinstance(response, CreatableTopicResult) and row.name == "topic_id")
        }
    if isinstance(response, tuple):
        return sorted((facts_of(one, names) for one in response), key=repr)
    if isinstance(response, bytes) and len(response) == 16:
        return names.get(response, "none" if response == ZERO_UUID else "another")
    return int(response) if isinstance(response, int) else response
