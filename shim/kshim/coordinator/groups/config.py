"""The coordinator's settings, under Kafka's own names."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kshim.coordinator.value_object import ValueObject


class ConsumerSettings(NamedTuple):
    """What a group of the new protocol may have for itself (ConfigResource GROUP); what it has not is the broker's."""

    session_timeout_ms: int
    heartbeat_interval_ms: int
    assignment_interval_ms: int


class ShareSettings(NamedTuple):
    """What a share group may have for itself (ConfigResource GROUP); what it has not is the broker's."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    assignment_interval_ms: int = 1_000
    record_lock_duration_ms: int = 30_000
    delivery_count_limit: int = 5
    partition_max_record_locks: int = 2_000
    auto_offset_reset: str = "latest"
    isolation_level: str = "read_uncommitted"
    renew_acknowledge_enable: bool = True
    max_size: int = 200  # that of the broker holds for all groups


class StreamsSettings(NamedTuple):
    """What a streams group may have for itself (ConfigResource GROUP); what it has not is the broker's."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    assignment_interval_ms: int = 1_000
    initial_rebalance_delay_ms: int = 3_000
    standby_replicas: int = 0
    rack_aware_tags: str = ""  # separated by commas
    task_offset_interval_ms: int = 60_000
    acceptable_recovery_lag: int = 10_000
    max_size: int = 2_147_483_647  # that of the broker holds for all groups


StreamsSettingsOf = Callable[[str], StreamsSettings]
"""`streams_settings_of(group_id)`, as `SettingsOf`."""

ShareSettingsOf = Callable[[str], ShareSettings]
"""`share_settings_of(group_id)`, as `SettingsOf`."""

SettingsOf = Callable[[str], ConsumerSettings]
"""`settings_of(group_id)`: what holds now. It is asked for each heartbeat, so it is fast, and nothing keeps its answer."""


class GroupConfig(ValueObject, frozen=False):
    """Broker settings that the coordinator reads; `.` and `-` of Kafka's keys are `_` here, defaults are Kafka 4.4's.

    One differs on purpose: `group_initial_rebalance_delay_ms` is 0 here and 3000 in Kafka.
    """

    broker_rack: str | None = None
    group_consumer_assignment_interval_ms: int = 1_000
    group_consumer_assignors: tuple[str, ...] = ("uniform", "range")
    group_consumer_heartbeat_interval_ms: int = 5_000
    group_consumer_max_size: int = 2_147_483_647
    group_consumer_migration_policy: str = "bidirectional"
    group_consumer_regex_refresh_interval_ms: int = 600_000
    group_consumer_session_timeout_ms: int = 45_000
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

    @property
    def default_assignor(self) -> str:
        """Of groups of the new protocol whose members ask for none."""
        return self.group_consumer_assignors[0]

    def consumer_settings(self, group_id: str) -> ConsumerSettings:
        """`SettingsOf` where no group has settings of its own."""
        return ConsumerSettings(
            self.group_consumer_session_timeout_ms,
            self.group_consumer_heartbeat_interval_ms,
            self.group_consumer_assignment_interval_ms,
        )
