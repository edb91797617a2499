"""The share coordinator's settings, under Kafka's own names."""

from __future__ import annotations

from typing import NamedTuple


class ShareStateConfig(NamedTuple):
    """Defaults are Kafka 4.4's."""

    state_topic_num_partitions: int = 50
    snapshot_update_records_per_snapshot: int = 500
    state_topic_prune_interval_ms: int = 300_000
    cold_partition_snapshot_interval_ms: int = 300_000
