"""Transactions in a whole broker: over the wire format, on files, through kills at every write, under every policy."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kshim.broker.producer_ids import BLOCK_SIZE
from kshim.storage.os_calls import OsCalls
from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.describe_transactions import DescribeTransactionsRequest
from kshim_protocol.messages.find_coordinator import FindCoordinatorRequest
from kshim_protocol.messages.init_producer_id import InitProducerIdRequest
from kshim_protocol.messages.list_transactions import ListTransactionsRequest
from tests.broker.harness import Client, NodeUnderTest, a_node, files_in
from tests.broker.transactional import TransactionalProducer, committed_offset, committed_values

Outcome = tuple[list[list[bytes | None]], tuple[int, ErrorCode]]
"""The values of each partition that a reader sees, and what it gets for the offset."""

pytestmark = pytest.mark.usefixtures("at_both_levels")

UNSTABLE = (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)


def state_of(client: Client, transactional_id: str = "x") -> str:
    (found,) = client.ask(DescribeTransactionsRequest(transactional_ids=(transactional_id,)), 0).transaction_states
    return found.transaction_state


def test_a_transaction_is_visible_when_it_is_committed_and_so_are_its_offsets() -> None:
    client = a_node(topics={"t": 2}).client()
    producer = TransactionalProducer(client)
    producer.write("t", 0, b"a")
    producer.write("t", 1, b"b")
    producer.commit_offset("g", "t", 42)
    assert [committed_values(client, "t", index) for index in (0, 1)] == [[], []]
    assert committed_offset(client, "g", "t") == UNSTABLE
    assert state_of(client) == "Ongoing"
    assert producer.end(committed=True) is ErrorCode.NONE
    assert [committed_values(client, "t", index) for index in (0, 1)] == [[b"a"], [b"b"]]
    assert committed_offset(client, "g", "t") == (42, ErrorCode.NONE)
    assert state_of(client) == "CompleteCommit"


def test_offsets_of_an_aborted_transaction_were_never_there() -> None:
    client = a_node(topics={"t": 1}).client()
    producer = TransactionalProducer(client)
    producer.commit_offset("g", "t", 42)
    assert producer.end(committed=False) is ErrorCode.NONE
    assert committed_offset(client, "g", "t") == (-1, ErrorCode.NONE)


def test_a_transaction_that_is_open_too_long_is_aborted_by_the_nodes_timer() -> None:
    node = a_node(topics={"t": 1})
    client = node.client()
    TransactionalProducer(client, timeout_ms=5_000).commit_offset("g", "t", 42)
    node.pass_ms(4_999)
    assert committed_offset(client, "g", "t") == UNSTABLE
    node.pass_ms(1)
    assert committed_offset(client, "g", "t") == (-1, ErrorCode.NONE)
    assert state_of(client) == "CompleteAbort"


def test_a_topic_that_is_deleted_meanwhile_needs_no_marker() -> None:
    node = a_node(topics={"t": 1, "gone": 1})
    client = node.client()
    producer = TransactionalProducer(client)
    producer.write("gone", 0, b"a")
    producer.write("t", 0, b"b")
    topic = node.cluster.topics.named("gone")
    assert topic is not None
    node.cluster.delete_topic(topic, node.now)
    assert producer.end(committed=True) is ErrorCode.NONE
    assert (state_of(client), committed_values(client, "t", 0)) == ("CompleteCommit", [b"b"])


class Snapshots:
    """A copy of the data directory as it was before each write: what a kill at that moment leaves."""

    def __init__(self, path: Path, copies: Path) -> None:
        self.path = path
        self.copies = copies
        self.count = 0
        self.is_on = False
        self.calls = OsCalls()
        self._pwrite = self.calls.pwrite
        self.calls.pwrite = self._copy_and_write

    def _copy_and_write(self, descriptor: int, data: bytes, offset: int) -> int:
        if self.is_on:
            shutil.copytree(self.path, self.copies / str(self.count))
            self.count += 1
        return self._pwrite(descriptor, data, offset)


def restarted(path: Path, **options: Any) -> NodeUnderTest:
    node = a_node(storage=files_in(path), **options)
    node.run_background_tasks()
    return node


def test_a_kill_at_any_write_leaves_a_transaction_that_is_whole_or_not_at_all(tmp_path: Path) -> None:
    snapshots = Snapshots(tmp_path / "data", tmp_path / "copies")
    node = a_node(topics={"t": 2}, storage=files_in(tmp_path / "data", snapshots.calls))
    client = node.client()
    producer = TransactionalProducer(client)
    snapshots.is_on = True
    producer.write("t", 0, b"a")
    producer.write("t", 1, b"b")
    producer.commit_offset("g", "t", 42)
    assert producer.end(committed=True) is ErrorCode.NONE
    snapshots.is_on = False
    node.close()
    outcomes: list[Outcome] = []
    for index in range(snapshots.count):
        after = restarted(tmp_path / "copies" / str(index))
        after.pass_ms(61_000)  # what was open times out
        client = after.client()
        values = [committed_values(client, "t", partition) for partition in (0, 1)]
        outcomes.append((values, committed_offset(client, "g", "t")))
        assert state_of(client) in ("Empty", "CompleteAbort", "CompleteCommit")
        after.close()
    nothing: Outcome = ([[], []], (-1, ErrorCode.NONE))
    everything: Outcome = ([[b"a"], [b"b"]], (42, ErrorCode.NONE))
    decided = outcomes.index(everything)
    assert outcomes == [nothing] * decided + [everything] * (len(outcomes) - decided)
    assert decided > 5
    assert len(outcomes) - decided >= 4, "a Prepare, two partitions, a group: four kills after the outcome stood"


def test_a_restart_loads_ids_and_epochs_and_refuses_until_it_has(tmp_path: Path) -> None:
    node = a_node(topics={"t": 1}, storage=files_in(tmp_path))
    old = TransactionalProducer(node.client())
    old.write("t", 0, b"a")
    node.close()
    node = a_node(storage=files_in(tmp_path))
    client = node.client()
    request = InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=1_000)
    assert ErrorCode(client.ask(request, 5).error_code) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    old.client = client
    assert old.end(committed=True) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    node.run_background_tasks()
    assert old.end(committed=True) is ErrorCode.NONE
    assert committed_values(client, "t", 0) == [b"a"]
    new = TransactionalProducer(client)
    assert (new.producer_id, new.producer_epoch) == (old.producer_id, old.producer_epoch + 1)
    node.close()


def test_producer_ids_are_not_given_twice_across_restarts(tmp_path: Path) -> None:
    seen: list[int] = []
    for _ in range(3):
        node = a_node(storage=files_in(tmp_path))
        node.run_background_tasks()
        client = node.client()
        seen.append(client.ask(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0)).producer_id)
        seen.append(TransactionalProducer(client, f"x{len(seen)}").producer_id)
        node.close()
    assert len(set(seen)) == len(seen)
    assert seen == [0, 1, BLOCK_SIZE, BLOCK_SIZE + 1, 2 * BLOCK_SIZE, 2 * BLOCK_SIZE + 1]


def test_the_coordinator_of_a_transactional_id_is_found_and_its_topic_made() -> None:
    node = a_node()
    client = node.client()
    (found,) = client.ask(FindCoordinatorRequest(key_type=1, coordinator_keys=("x",)), 6).coordinators
    assert (found.error_code, found.node_id) == (ErrorCode.NONE, 1)
    topic = node.cluster.topics.named("__transaction_state")
    assert topic is not None
    assert (len(topic.partitions), topic.configs["cleanup.policy"], topic.is_internal) == (50, "compact", True)


def test_each_node_lists_the_ids_it_coordinates_and_refuses_the_others() -> None:
    first = a_node(topics={"t": 1}, node_count=2)
    clients = [first.client(node_id=node_id) for node_id in (1, 2)]
    homes = {}
    for name in ("a", "b", "c", "d", "e"):
        (found,) = clients[0].ask(FindCoordinatorRequest(key_type=1, coordinator_keys=(name,)), 6).coordinators
        homes[name] = found.node_id
        TransactionalProducer(clients[found.node_id - 1], name)
        other = clients[2 - found.node_id]
        request = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=1_000)
        assert ErrorCode(other.ask(request, 5).error_code) is ErrorCode.NOT_COORDINATOR
    assert set(homes.values()) == {1, 2}
    for node_id, client in enumerate(clients, 1):
        rows = client.ask(ListTransactionsRequest(state_filters=(), producer_id_filters=()), 1).transaction_states
        assert {row.transactional_id for row in rows} == {name for name in homes if homes[name] == node_id}


def test_a_shard_that_moves_takes_its_transactions_along() -> None:
    node = a_node(topics={"t": 1}, node_count=2)
    clients = {node_id: node.client(node_id=node_id) for node_id in (1, 2)}
    (found,) = clients[1].ask(FindCoordinatorRequest(key_type=1, coordinator_keys=("x",)), 6).coordinators
    here, there = found.node_id, 3 - found.node_id
    producer = TransactionalProducer(clients[here])
    node.cluster.leader_election.move(
        "__transaction_state", node.cluster.transactions.coordinator.partition_for("x"), there
    )
    assert producer.end(committed=True) is ErrorCode.NOT_COORDINATOR
    producer.client = clients[there]
    assert producer.end(committed=True) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    node.run_background_tasks()
    assert producer.end(committed=True) is ErrorCode.INVALID_TXN_STATE  # it is known, and nothing is open


def test_groups_alone_import_nothing_of_transactions() -> None:
    code = (
        "import sys\n"
        "from tests.broker.harness import a_node\n"
        "from kshim_protocol.messages.init_producer_id import InitProducerIdRequest\n"
        "node = a_node()\n"
        "node.warm_up()\n"
        "node.client().ask(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0))\n"
        "assert node.cluster.transactions.made is None\n"
        "print([name for name in sys.modules if name.startswith('kshim.coordinator.transactions') or 'transaction_records' in name])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert (done.stdout, done.stderr) == ("[]\n", "")


@pytest.mark.parametrize("fsync", ["never", "interval", "always"])
def test_a_transaction_ends_under_every_policy(fsync: Any) -> None:
    node = a_node(topics={"t": 1}, fsync=fsync)
    client = Patient(node)
    producer = TransactionalProducer(client)
    producer.write("t", 0, b"a")
    producer.commit_offset("g", "t", 7)
    assert producer.end(committed=True) is ErrorCode.NONE
    node.run_background_tasks()
    assert state_of(client) == "CompleteCommit"
    assert committed_values(client, "t", 0) == [b"a"]
    assert committed_offset(client, "g", "t") == (7, ErrorCode.NONE)


class Patient(Client):
    """A client that lets the node work until it is answered."""

    def __init__(self, node: NodeUnderTest) -> None:
        super().__init__(node, "patient", "/127.0.0.1")

    def ask(self, request: Any, version: int | None = None, *, client_id: str | None = None) -> Any:
        self.send(request, version, client_id=client_id)
        while self.is_waiting:
            self._node.run_background_tasks()
        return self.unread.popleft()
