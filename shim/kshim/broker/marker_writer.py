"""The markers that go out from the transaction coordinator to partitions, those of the offsets topic included."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial

from kshim.coordinator.groups.coordinator import GroupCoordinator
from kshim.coordinator.step import OFFSETS_TOPIC, Marker, Step
from kshim.partitions.partition import Partition
from kshim.partitions.topics import Topics
from kshim.partitions.transaction_markers import append_marker
from kshim.storage.log import LogError
from kshim_protocol.errors import ErrorCode, KafkaError

WhenDurable = Callable[[Collection[Partition], Callable[[Collection[Partition]], None]], None]
"""Calls back once logs hold what they hold now safely, with those that have lost it; see `Durability.when_durable`."""


class MarkerWriter:
    """Writes markers and settles them. `groups()` is the group coordinator, which ends transactions in its shards."""

    def __init__(
        self,
        topics: Topics,
        groups: Callable[[], GroupCoordinator],
        *,
        apply: Callable[[Step], None],
        report: Callable[[BaseException, object], None],
        defect: Callable[[BaseException, object], None],
    ) -> None:
        self._topics = topics
        self._groups = groups
        self._apply = apply
        self._report = report
        self._defect = defect

    def write(self, marker: Marker, when_durable: WhenDurable) -> None:
        """Write a marker, and settle it when it is durable. A partition that does not exist any more needs none."""
        where = self._topics.partition(marker.topic, marker.partition)
        if where is None:
            self._settle(marker, ErrorCode.NONE)
            return
        try:
            is_of_groups = marker.topic == OFFSETS_TOPIC
            error = self._written_to_group(marker, where) if is_of_groups else self._append(marker, where)
        except (
            Exception
        ) as defect:  # in the shard of groups, which is loaded again; the marker is tried again after that
            self._defect(defect, where)
            error = ErrorCode.UNKNOWN_SERVER_ERROR
        if error is ErrorCode.NONE:
            when_durable((where,), partial(self._durable, marker))
        else:
            self._settle(marker, error)

    def _written_to_group(self, marker: Marker, where: Partition) -> ErrorCode:
        outcome = [ErrorCode.KAFKA_STORAGE_ERROR]
        try:
            step = self._groups().end_transaction(
                where.index,
                producer_id=marker.producer_id,
                producer_epoch=marker.producer_epoch,
                is_commit=marker.is_commit,
                coordinator_epoch=marker.coordinator_epoch,
                now=marker.now,
                ended=outcome.append,
            )
        except KafkaError as error:
            return error.code
        self._apply(step)
        return outcome[-1]

    def _append(self, marker: Marker, where: Partition) -> ErrorCode:
        try:
            append_marker(
                where,
                producer_id=marker.producer_id,
                producer_epoch=marker.producer_epoch,
                is_commit=marker.is_commit,
                coordinator_epoch=marker.coordinator_epoch,
                now_ms=marker.now.wall_ms,
            )
        except LogError as error:
            self._report(error, where)
            return ErrorCode.KAFKA_STORAGE_ERROR
        except KafkaError as error:  # the partition has seen later epochs: nothing of this one is open there
            self._report(error, where)
        return ErrorCode.NONE

    def _durable(self, marker: Marker, lost: Collection[Partition]) -> None:
        self._settle(marker, ErrorCode.KAFKA_STORAGE_ERROR if lost else ErrorCode.NONE)

    def _settle(self, marker: Marker, error: ErrorCode) -> None:
        step = marker.settle(error)
        if step is not None:
            self._apply(step)
