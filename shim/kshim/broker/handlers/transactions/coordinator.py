"""The APIs that the transaction coordinator answers by itself."""

from __future__ import annotations

from kshim.broker.relay import relay
from kshim.coordinator.step import TRANSACTIONS_TOPIC
from kshim.coordinator.transactions.coordinator import TransactionCoordinator
from kshim_protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kshim_protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from kshim_protocol.messages.describe_transactions import DescribeTransactionsRequest
from kshim_protocol.messages.end_txn import EndTxnRequest

# fmt: off
HANDLERS = (
    relay(TRANSACTIONS_TOPIC, AddPartitionsToTxnRequest,   TransactionCoordinator.add_partitions_to_txn),
    relay(TRANSACTIONS_TOPIC, AddOffsetsToTxnRequest,      TransactionCoordinator.add_offsets_to_txn),
    relay(TRANSACTIONS_TOPIC, EndTxnRequest,               TransactionCoordinator.end_txn),
    relay(TRANSACTIONS_TOPIC, DescribeTransactionsRequest, TransactionCoordinator.describe_transactions),
)
# fmt: on
