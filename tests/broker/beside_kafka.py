"""The same transactions on Kafka and on a node of ours, step by step, with what each answers.

Producer ids are brought to agree; times are not compared.
"""

from __future__ import annotations

from typing import Any, Protocol

from integration.support.broker import Deadline
from kshim.tools.client import Client as WireClient
from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from kshim_protocol.messages.end_txn import EndTxnRequest
from kshim_protocol.messages.fetch import PartitionData
from kshim_protocol.messages.find_coordinator import FindCoordinatorRequest
from kshim_protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kshim_protocol.records.batch import iter_batches, parse_batch_header
from kshim_protocol.records.record import iter_records
from kshim_protocol.schema import Request
from tests.broker.harness import NodeUnderTest

_TIMEOUT_S = 30
_RETRIABLE = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS,
}


class Peer(Protocol):
    def ask(self, request: Request[Any], version: int) -> Any: ...


class Side:
    """One broker. Requests are repeated for as long as it says that its coordinator is busy."""

    def __init__(self, peer: Peer, node: NodeUnderTest | None) -> None:
        self.peer = peer
        self.node = node

    def ask(self, request: Request[Any], version: int) -> Any:
        deadline = Deadline(_TIMEOUT_S)
        while True:
            answer = self.peer.ask(request, version)
            if self.node is not None:
                self.node.pass_ms(100)
                self.node.run_background_tasks()
            if getattr(answer, "error_code", 0) not in _RETRIABLE:
                return answer
            deadline.check(f"another answer than {answer!r}")

    def init(self, transactional_id: str | None, timeout_ms: int = 60_000) -> InitProducerIdResponse:
        if transactional_id is not None:
            self.peer.ask(FindCoordinatorRequest(key=transactional_id, key_type=1), 3)
        request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=timeout_ms)
        answer: InitProducerIdResponse = self.ask(request, 4)
        return answer


class Sides:
    """Both brokers."""

    def __init__(self, kafka: WireClient, node: NodeUnderTest) -> None:
        self.kafka = Side(kafka, None)
        self.node = Side(node.client(), node)
        self._next_id = 0  # that our node, a new one, will give

    def init(self, transactional_id: str) -> tuple[int, int]:
        """Producer id and epoch, the same from both. Ours are counted up until they are."""
        theirs = self.kafka.init(transactional_id)
        assert theirs.error_code == ErrorCode.NONE
        while self._next_id < theirs.producer_id:
            self._next_id = self.node.init(None).producer_id + 1
        ours = self.node.init(transactional_id)
        self._next_id = max(self._next_id, ours.producer_id + 1)
        found = [(each.error_code, each.producer_id, each.producer_epoch) for each in (ours, theirs)]
        assert found[0] == found[1]
        return theirs.producer_id, theirs.producer_epoch

    def ask(self, request: Request[Any], version: int) -> Any:
        """Kafka's answer, which is also ours."""
        ours, theirs = (side.ask(request, version) for side in (self.node, self.kafka))
        assert ours == theirs, f"{request!r} v{version}"
        return theirs

    def add(self, transactional_id: str, producer: tuple[int, int], topic: str, *partitions: int) -> None:
        """AddPartitionsToTxn."""
        self.ask(
            AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=transactional_id,
                v3_and_below_producer_id=producer[0],
                v3_and_below_producer_epoch=producer[1],
                v3_and_below_topics=(AddPartitionsToTxnTopic(name=topic, partitions=partitions),),
            ),
            3,
        )

    def end(self, transactional_id: str, producer: tuple[int, int], *, commit: bool) -> None:
        """EndTxn, and once more: it is refused until all markers are written."""
        request = EndTxnRequest(
            transactional_id=transactional_id, producer_id=producer[0], producer_epoch=producer[1], committed=commit
        )
        for _ in range(2):
            assert self.ask(request, 3).error_code == ErrorCode.NONE


COORDINATOR_EPOCH_AT = 2
"""Where the value of a transaction's marker holds the epoch of its coordinator."""


def seen(part: PartitionData, *, markers_end_at: int | None = None) -> Any:
    """A partition in a Fetch answer without times: what is comparable between two brokers.

    `markers_end_at`: so many bytes of the value of a marker are compared. A Kafka that was restarted has coordinators
    of later epochs.
    """
    batches = []
    for batch in iter_batches(part.records or b""):
        header = parse_batch_header(batch)
        end = markers_end_at if header.is_control else None
        records = [(record.offset, record.key, record.value and record.value[:end]) for record in iter_records(batch)]
        batches.append((header.attributes, header[9:], header.last_offset, records))
    end_offset = batches[-1][2] + 1 if batches else 0
    aborted = part.aborted_transactions
    return (
        part.error_code,
        part.high_watermark,
        part.last_stable_offset,
        part.log_start_offset,
        # Kafka goes by its sparse index, and so may name some that begin behind what it sends.
        None
        if aborted is None
        else [(each.producer_id, each.first_offset) for each in aborted if each.first_offset < end_offset],
        batches,
    )
