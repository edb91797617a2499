"""The transaction coordinator's settings, under Kafka's own names."""

from __future__ import annotations


class TransactionConfig:
    """Broker settings that the coordinator reads; `.` of Kafka's keys is `_` here, defaults are Kafka 4.4's."""

    __slots__ = ("transaction_max_timeout_ms", "transaction_state_log_num_partitions", "transactional_id_expiration_ms")

    def __init__(
        self,
        *,
        transaction_max_timeout_ms: int = 900_000,
        transactional_id_expiration_ms: int = 604_800_000,
        transaction_state_log_num_partitions: int = 50,
    ) -> None:
        self.transaction_max_timeout_ms = transaction_max_timeout_ms
        self.transactional_id_expiration_ms = transactional_id_expiration_ms
        self.transaction_state_log_num_partitions = transaction_state_log_num_partitions
