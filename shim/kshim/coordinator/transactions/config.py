"""The transaction coordinator's settings, under Kafka's own names."""

from __future__ import annotations

from kshim.coordinator.value_object import ValueObject


class TransactionConfig(ValueObject):
    """Broker settings that the coordinator reads; `.` of Kafka's keys is `_` here, defaults are Kafka 4.4's."""

    transaction_max_timeout_ms: int = 900_000
    transactional_id_expiration_ms: int = 604_800_000
    transaction_state_log_num_partitions: int = 50
