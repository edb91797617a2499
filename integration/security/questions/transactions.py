"""Producer ids and transactions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from integration.security.questions.things import GROUPS, MISSING, NO_MEMBER, TOPICS, TRANSACTIONAL_IDS, Rows
from kshim_protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kshim_protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from kshim_protocol.messages.describe_transactions import DescribeTransactionsRequest
from kshim_protocol.messages.end_txn import EndTxnRequest
from kshim_protocol.messages.init_producer_id import InitProducerIdRequest
from kshim_protocol.messages.list_transactions import ListTransactionsRequest
from kshim_protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)


def transactions(topic_ids: Mapping[str, bytes]) -> Rows:
    yield "InitProducerId", InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1_000), 4
    for name in TRANSACTIONAL_IDS:
        yield (  # a timeout that no broker takes
            f"InitProducerId {name}",
            InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=-1),
            4,
        )
        ids: dict[str, Any] = {"transactional_id": name, "producer_id": 1_000_000_007, "producer_epoch": 0}
        yield f"EndTxn {name}", EndTxnRequest(**ids, committed=True), 3
        yield f"AddOffsetsToTxn {name}", AddOffsetsToTxnRequest(**ids, group_id=GROUPS[0]), 3
        yield (
            f"AddPartitionsToTxn {name}",
            AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=name,
                v3_and_below_producer_id=1_000_000_007,
                v3_and_below_topics=tuple(
                    AddPartitionsToTxnTopic(name=topic, partitions=(0,)) for topic in (*TOPICS, MISSING)
                ),
            ),
            3,
        )
        yield (
            f"TxnOffsetCommit {name}",
            TxnOffsetCommitRequest(
                **ids,
                group_id=GROUPS[0],
                generation_id_or_member_epoch=5,
                member_id=NO_MEMBER,
                topics=tuple(
                    TxnOffsetCommitRequestTopic(
                        name=topic,
                        partitions=(
                            TxnOffsetCommitRequestPartition(
                                partition_index=0, committed_offset=1, committed_metadata=""
                            ),
                        ),
                    )
                    for topic in (*TOPICS, MISSING)
                ),
            ),
            3,
        )
    yield "DescribeTransactions", DescribeTransactionsRequest(transactional_ids=TRANSACTIONAL_IDS), 0
    yield "ListTransactions", ListTransactionsRequest(state_filters=(), producer_id_filters=()), 0
