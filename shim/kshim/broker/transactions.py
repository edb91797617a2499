"""The transaction coordinator at work in a broker: its topic, its settings, and the markers that go out from it."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import TYPE_CHECKING

from kshim.coordinator.step import OFFSETS_TOPIC, TRANSACTIONS_TOPIC, Step
from kshim.coordinator.transactions.config import TransactionConfig
from kshim.coordinator.transactions.coordinator import TransactionCoordinator
from kshim.partitions.partition import Partition
from kshim.partitions.transaction_markers import append_marker
from kshim.storage.log import LogError
from kshim_protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable

    from kshim.broker.cluster import Cluster
    from kshim.coordinator.transactions.markers import Marker


class Transactions:
    """`coordinator` and what it needs of the cluster. Made with the first request that has a transactional id."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        config = cluster.config
        topic = cluster.topics.named(TRANSACTIONS_TOPIC)
        self.coordinator = TransactionCoordinator(
            TransactionConfig(
                transaction_max_timeout_ms=config.transaction_max_timeout_ms,
                transactional_id_expiration_ms=config.transactional_id_expiration_ms,
                # A topic made by an earlier run keeps its partitions.
                transaction_state_log_num_partitions=config.transaction_state_log_num_partitions
                if topic is None
                else len(topic.partitions),
            ),
            topics=cluster.topics,
            new_producer_id=self._new_producer_id,
            offsets_partition_for=cluster.coordinator.partition_for,
            coordinator_epoch_of=self._coordinator_epoch_of,
        )

    def _new_producer_id(self) -> int:
        """Raises KafkaError: COORDINATOR_NOT_AVAILABLE."""
        try:
            return self._cluster.next_producer_id()
        except LogError as error:
            self._cluster.report(error, None)
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, str(error)) from error

    def _coordinator_epoch_of(self, index: int) -> int:
        topic = self._cluster.topics.named(TRANSACTIONS_TOPIC)
        return 0 if topic is None else topic.partitions[index].leader.leader_epoch

    def reload(self) -> None:
        """After a defect: load the shard again that it may have left half changed."""
        partition = self.coordinator.partition_at_work
        if partition is not None:
            self._reload(partition)

    def _reload(self, partition: int) -> None:
        loads = self._cluster.transaction_loader
        loads.drop(partition, ErrorCode.NOT_COORDINATOR)
        loads.load(partition)

    # What follows a step

    def go_on(self, step: Step) -> None:
        """The appends of a step were tried and its answers released, or held: do what is to follow them."""
        if step.once_durable:
            logs = self._cluster.partitions_of(step)
            for then in step.once_durable:
                self._when_durable(logs, partial(self._decided, then), step.partitions)
        for marker in step.markers:
            self._write(marker, step.partitions)

    def _when_durable(
        self, logs: Collection[Partition], done: Callable[[Collection[Partition]], None], shards: Collection[int]
    ) -> None:
        """As `Durability.when_durable`; when something goes wrong that nobody has planned for, `shards` are loaded again."""

        def guarded(lost: Collection[Partition]) -> None:
            try:
                done(lost)
            except Exception as error:
                self._cluster.report(error, None)
                for shard in shards:
                    self._reload(shard)

        self._cluster.durability.when_durable(logs, guarded)

    def _decided(self, then: Callable[[], Step | None], lost: Collection[Partition]) -> None:
        if not lost:  # else the shard has been given up
            self._apply(then())

    def _apply(self, step: Step | None) -> None:
        if step is not None:
            self._cluster.apply(step)

    # Markers

    def _write(self, marker: Marker, shards: Collection[int]) -> None:
        """Write a marker, and settle it when it is durable. A partition that does not exist any more needs none."""
        where = self._cluster.topics.partition(marker.topic, marker.partition)
        if where is None:
            self._apply(marker.settle(ErrorCode.NONE))
            return
        try:
            self._append(marker, where)
        except LogError as error:
            self._cluster.report(error, where)
            self._apply(marker.settle(ErrorCode.KAFKA_STORAGE_ERROR))
        except KafkaError as error:
            self._apply(marker.settle(error.code))
        else:
            self._when_durable((where,), partial(self._settle, marker), shards)

    def _append(self, marker: Marker, where: Partition) -> None:
        """Raises LogError; KafkaError when the shard of groups is not there."""
        cluster = self._cluster
        if marker.topic == OFFSETS_TOPIC:
            append = cluster.coordinator.end_transaction(
                marker.partition,
                producer_id=marker.producer_id,
                producer_epoch=marker.producer_epoch,
                is_commit=marker.is_commit,
                coordinator_epoch=marker.coordinator_epoch,
                now=marker.now,
            )
            append.written(where.append(append.batch, marker.now.wall_ms), Step())
            return
        try:
            append_marker(
                where,
                producer_id=marker.producer_id,
                producer_epoch=marker.producer_epoch,
                is_commit=marker.is_commit,
                coordinator_epoch=marker.coordinator_epoch,
                now_ms=marker.now.wall_ms,
            )
        except KafkaError as error:  # the partition has seen later epochs: nothing of this one is open there
            cluster.report(error, where)

    def _settle(self, marker: Marker, lost: Collection[Partition]) -> None:
        self._apply(marker.settle(ErrorCode.KAFKA_STORAGE_ERROR if lost else ErrorCode.NONE))
