"""What holds for each group of the new protocol: its own configuration within the broker's bounds, else the broker's.

The seam to the coordinator is `GroupSettings.of_consumers`, a `SettingsOf` (`coordinator/groups/config.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from kshim.coordinator.groups.config import ConsumerSettings, ShareSettings, StreamsSettings

if TYPE_CHECKING:
    from kshim.config.broker_config import BrokerConfig
    from kshim.config.dynamic import DynamicConfig


def consumer_settings(config: BrokerConfig, configs: Mapping[str, str]) -> ConsumerSettings:
    """Of a group with its own `configs`, which were checked when they were set.

    The broker's bounds may have changed since: a value outside them counts as the nearest one within. Source: Kafka's
    GroupConfig.evaluate.
    """
    return ConsumerSettings(
        _within(
            configs.get("consumer.session.timeout.ms"),
            config.group_consumer_session_timeout_ms,
            config.group_consumer_min_session_timeout_ms,
            config.group_consumer_max_session_timeout_ms,
        ),
        _within(
            configs.get("consumer.heartbeat.interval.ms"),
            config.group_consumer_heartbeat_interval_ms,
            config.group_consumer_min_heartbeat_interval_ms,
            config.group_consumer_max_heartbeat_interval_ms,
        ),
        _within(
            configs.get("consumer.assignment.interval.ms"),
            config.group_consumer_assignment_interval_ms,
            config.group_consumer_min_assignment_interval_ms,
            config.group_consumer_max_assignment_interval_ms,
        ),
    )


def share_settings(config: BrokerConfig, configs: Mapping[str, str]) -> ShareSettings:
    """The same of a share group. The broker's own keys are `group.share.*`."""
    default = ShareSettings()

    return ShareSettings(
        session_timeout_ms=_within(
            configs.get("share.session.timeout.ms"),
            config.group_share_session_timeout_ms,
            config.group_share_min_session_timeout_ms,
            config.group_share_max_session_timeout_ms,
        ),
        heartbeat_interval_ms=_within(
            configs.get("share.heartbeat.interval.ms"),
            config.group_share_heartbeat_interval_ms,
            config.group_share_min_heartbeat_interval_ms,
            config.group_share_max_heartbeat_interval_ms,
        ),
        assignment_interval_ms=_within(
            configs.get("share.assignment.interval.ms"),
            config.group_share_assignment_interval_ms,
            config.group_share_min_assignment_interval_ms,
            config.group_share_max_assignment_interval_ms,
        ),
        record_lock_duration_ms=_within(
            configs.get("share.record.lock.duration.ms"),
            config.group_share_record_lock_duration_ms,
            config.group_share_min_record_lock_duration_ms,
            config.group_share_max_record_lock_duration_ms,
        ),
        delivery_count_limit=_within(
            configs.get("share.delivery.count.limit"),
            config.group_share_delivery_count_limit,
            config.group_share_min_delivery_count_limit,
            config.group_share_max_delivery_count_limit,
        ),
        partition_max_record_locks=_within(
            configs.get("share.partition.max.record.locks"),
            config.group_share_partition_max_record_locks,
            config.group_share_min_partition_max_record_locks,
            config.group_share_max_partition_max_record_locks,
        ),
        auto_offset_reset=configs.get("share.auto.offset.reset", default.auto_offset_reset),
        isolation_level=configs.get("share.isolation.level", default.isolation_level),
        max_size=config.group_share_max_size,
        renew_acknowledge_enable=configs.get("share.renew.acknowledge.enable", "true").lower() == "true",
    )


def streams_settings(config: BrokerConfig, configs: Mapping[str, str]) -> StreamsSettings:
    """The same of a streams group. The broker's own keys are `group.streams.*`."""
    default = StreamsSettings()
    own_tags = configs.get("streams.rack.aware.assignment.tags")
    return StreamsSettings(
        session_timeout_ms=_within(
            configs.get("streams.session.timeout.ms"),
            config.group_streams_session_timeout_ms,
            config.group_streams_min_session_timeout_ms,
            config.group_streams_max_session_timeout_ms,
        ),
        heartbeat_interval_ms=_within(
            configs.get("streams.heartbeat.interval.ms"),
            config.group_streams_heartbeat_interval_ms,
            config.group_streams_min_heartbeat_interval_ms,
            config.group_streams_max_heartbeat_interval_ms,
        ),
        assignment_interval_ms=_within(
            configs.get("streams.assignment.interval.ms"),
            config.group_streams_assignment_interval_ms,
            config.group_streams_min_assignment_interval_ms,
            config.group_streams_max_assignment_interval_ms,
        ),
        initial_rebalance_delay_ms=int(
            configs.get("streams.initial.rebalance.delay.ms", config.group_streams_initial_rebalance_delay_ms)
        ),
        standby_replicas=_within(
            configs.get("streams.num.standby.replicas"),
            config.group_streams_num_standby_replicas,
            0,
            config.group_streams_max_standby_replicas,
        ),
        rack_aware_tags=",".join(
            _list(own_tags) if own_tags is not None else config.group_streams_rack_aware_assignment_tags
        ),
        task_offset_interval_ms=int(configs.get("streams.task.offset.interval.ms", default.task_offset_interval_ms)),
        acceptable_recovery_lag=int(configs.get("streams.acceptable.recovery.lag", default.acceptable_recovery_lag)),
        max_size=config.group_streams_max_size,
    )


class GroupSettings:
    """The settings of all groups. Changes of the configuration hold at once."""

    def __init__(self, config: BrokerConfig, dynamic: DynamicConfig) -> None:
        self._config = config
        self._dynamic = dynamic
        self._own: dict[str, ConsumerSettings] = {}
        self._own_share: dict[str, ShareSettings] = {}
        self._own_streams: dict[str, StreamsSettings] = {}
        self._common = consumer_settings(config, {})
        self._common_share = share_settings(config, {})
        self._common_streams = streams_settings(config, {})
        self._read()
        dynamic.on_broker_change.append(self._read)
        dynamic.on_group_change.append(self._read)

    def of_consumers(self, group_id: str) -> ConsumerSettings:
        """What holds for a group now."""
        return self._own.get(group_id, self._common)

    def of_share_groups(self, group_id: str) -> ShareSettings:
        """What holds for a share group now."""
        return self._own_share.get(group_id, self._common_share)

    def of_streams_groups(self, group_id: str) -> StreamsSettings:
        """What holds for a streams group now."""
        return self._own_streams.get(group_id, self._common_streams)

    def _read(self) -> None:
        config, dynamic = self._config, self._dynamic
        self._common = consumer_settings(config, {})
        self._common_share = share_settings(config, {})
        self._common_streams = streams_settings(config, {})
        self._own_streams = {
            name: streams_settings(config, dynamic.of("groups", name)) for name in dynamic.names("groups")
        }
        self._own_share = {name: share_settings(config, dynamic.of("groups", name)) for name in dynamic.names("groups")}
        self._own = {name: consumer_settings(config, dynamic.of("groups", name)) for name in dynamic.names("groups")}


def _within(text: str | None, otherwise: int, low: int, high: int) -> int:
    return otherwise if text is None else min(max(int(text), low), high)


def _list(text: str) -> list[str]:
    return [part.strip() for part in text.split(",")] if text.strip() else []
