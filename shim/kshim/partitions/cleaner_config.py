"""What a topic's configuration says about old and replaced records. Kafka: LogConfig, LogCleanerManager."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kshim.config.broker_config import BrokerConfig
    from kshim.partitions.partition import Topic
    from kshim.storage.log import SegmentView


class CleanerConfig:
    """The keys that decide, parsed; times in ms, sizes in bytes, -1 for no limit."""

    def __init__(self, config: BrokerConfig, topic: Topic) -> None:
        def value(name: str) -> Any:
            return config.topic_value(topic.configs, name)

        policies = value("cleanup.policy")
        self.compacts: bool = "compact" in policies and config.log_cleaner_enable
        self.deletes: bool = "delete" in policies
        self.retention_ms: int = value("retention.ms")
        self.retention_bytes: int = value("retention.bytes")
        self.segment_bytes: int = value("segment.bytes")
        self.segment_ms: int = value("segment.ms")
        self.delete_retention_ms: int = value("delete.retention.ms")
        self.min_dirty_ratio: float = value("min.cleanable.dirty.ratio")
        self.min_lag_ms: int = value("min.compaction.lag.ms")
        self.max_lag_ms: int = value("max.compaction.lag.ms")
        if self.compacts:  # a segment must be sealed before it can be compacted
            self.segment_ms = min(self.segment_ms, self.max_lag_ms)

    def cleanable_end(self, segments: Sequence[SegmentView], clean_offset: int, now_ms: int) -> int:
        """Where the part ends that is old enough to be compacted: the first segment with a record of the last
        `min.compaction.lag.ms`, or the active one. `now_ms` is Unix time."""
        if self.min_lag_ms > 0:
            for segment in segments[:-1]:
                if segment.end_offset > clean_offset and segment.max_timestamp_ms > now_ms - self.min_lag_ms:
                    return segment.base_offset
        return segments[-1].base_offset if segments else 0

    def is_due(self, segments: Sequence[SegmentView], clean_offset: int, now_ms: int) -> bool:
        """Whether enough of it is dirty, or something has been so for `max.compaction.lag.ms`."""
        end = self.cleanable_end(segments, clean_offset, now_ms)
        clean_bytes = dirty_bytes = 0
        oldest_ms = now_ms
        for segment in segments:
            if segment.end_offset <= clean_offset:
                clean_bytes += segment.size_bytes
            elif segment.end_offset <= end:
                dirty_bytes += segment.size_bytes
                if segment.first_timestamp_ms >= 0:
                    oldest_ms = min(oldest_ms, segment.first_timestamp_ms)
        if not dirty_bytes:
            return False
        if now_ms - oldest_ms > self.max_lag_ms:
            return True
        return dirty_bytes > self.min_dirty_ratio * (clean_bytes + dirty_bytes)
