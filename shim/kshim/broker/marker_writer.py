"""The markers that go out from the transaction coordinator to partitions, those of the offsets topic included."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial

from kshim.coordinator.groups.coordinator import GroupCoordinator
from kshim.coordinator.step import OFFSETS_TOPIC, Marker, Step
from kshim.partitions.partition import Partition
from kshim.partitions.topics import Topics
from kshim.partitions.transaction_markers import append_marker, check_marker
from kshim.storage.log import LogError
from kshim_protocol.errors import ErrorCode, KafkaError

WhenDurable = Callable[[Collection[Partition], Callable[[Collection[Partition]], None]], None]
"""Calls back once logs hold what they hold now safely, with those that have lost it; see `Durability.when_durable`."""

_OUTDATED = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED})


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
        error = self._written(marker, where)
        if error is ErrorCode.NONE:
            when_durable((where,), partial(self._durable, marker))
        else:
            self._settle(marker, error)

    def append(self, where: Partition, marker: Marker) -> None:
        """Write a marker to its partition, once; what is pending there for groups ends with it.

        Raises LogError and KafkaError as `append_marker` does. KafkaError, too, where the group coordinator cannot take
        the marker: COORDINATOR_LOAD_IN_PROGRESS, or what its append was answered.
        """
        if marker.topic != OFFSETS_TOPIC:
            append_marker(
                where,
                producer_id=marker.producer_id,
                producer_epoch=marker.producer_epoch,
                is_commit=marker.is_commit,
                coordinator_epoch=marker.coordinator_epoch,
                now_ms=marker.now.wall_ms,
                transaction_version=marker.transaction_version,
            )
            return
        check_marker(
            where,
            marker.producer_id,
            marker.producer_epoch,
            marker.coordinator_epoch,
            marker.transaction_version,
        )
        outcome: list[ErrorCode] = []
        step = self._groups().end_transaction(
            where.index,
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            is_commit=marker.is_commit,
            coordinator_epoch=marker.coordinator_epoch,
            now=marker.now,
            ended=outcome.append,
        )
        self._apply(step)
        if outcome != [ErrorCode.NONE]:
            raise KafkaError(outcome[0])

    def _written(self, marker: Marker, where: Partition) -> ErrorCode:
        """NONE: it is written, or never needs to be. Anything else: it is to be tried again."""
        try:
            self.append(where, marker)
        except LogError as error:
            self._report(error, where)
            return ErrorCode.KAFKA_STORAGE_ERROR
        except KafkaError as error:
            if error.code not in _OUTDATED:
                return error.code
            self._report(error, where)  # the partition has seen later epochs: nothing of this one is open there
        except Exception as defect:  # it may have left the shard of groups inconsistent, which is loaded again
            self._defect(defect, where)
            return ErrorCode.UNKNOWN_SERVER_ERROR
        return ErrorCode.NONE

    def _durable(self, marker: Marker, lost: Collection[Partition]) -> None:
        self._settle(marker, ErrorCode.KAFKA_STORAGE_ERROR if lost else ErrorCode.NONE)

    def _settle(self, marker: Marker, error: ErrorCode) -> None:
        step = marker.settle(error)
        if step is not None:
            self._apply(step)
