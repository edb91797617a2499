"""The coordinator's settings, under Kafka's own names."""

from __future__ import annotations

from kshim.coordinator.value_object import ValueObject


class GroupConfig(ValueObject, frozen=False):
    """Broker settings that the coordinator reads; `.` and `-` of Kafka's keys are `_` here, defaults are Kafka 4.4's.

    One differs on purpose: `group_initial_rebalance_delay_ms` is 0 here and 3000 in Kafka.
    """

    group_min_session_timeout_ms: int = 6_000
    group_max_session_timeout_ms: int = 1_800_000
    group_max_size: int = 2_147_483_647
    group_initial_rebalance_delay_ms: int = 0
    offsets_retention_minutes: int = 10_080
    offsets_retention_check_interval_ms: int = 600_000
    offset_metadata_max_bytes: int = 4_096
    offsets_topic_num_partitions: int = 50

    @property
    def offsets_retention_ms(self) -> int:
        """How long an offset outlives its base time."""
        return self.offsets_retention_minutes * 60_000
