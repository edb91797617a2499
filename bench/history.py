"""What the history costs: a heartbeat and a rebalance with it and without.

    python -m bench.history [--rounds 15] [--heartbeats 20000] [--joins 4000]

Three kshims run at the same time and take turns: one whose history is cut out (`none`, which no option offers), one with
its ring (`ring`, as always), one with `--events-topic` (`topic`). All write their log to nowhere, as a broker whose
stderr is a file would. Heartbeats: 64 connections, each the one member of a group, one request in flight on each.
Rebalances: a group of 10 or 100 members whose leader joins again, over and over. `bare`: a JoinGroup and a SyncGroup of
every member and nothing else; `as clients do`: also the Heartbeat that tells a member to rejoin, the OffsetCommit before
it does, and the OffsetFetch after its Sync, as with the default settings of Java and kafka-python. Printed: median [lowest-highest] of the broker's CPU time, kernel and all threads, and the
median over the rounds of its ratio to `none` in the same round; a broker that is busy makes as much less in a second.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import psutil

from bench.brokers import MeasuredBroker
from bench.heartbeats import Generator
from kshim.tools.client import Client
from kshim_protocol.errors import ErrorCode
from kshim_protocol.internal.consumer import ConsumerProtocolSubscription
from kshim_protocol.messages.find_coordinator import FindCoordinatorRequest
from kshim_protocol.messages.heartbeat import HeartbeatRequest
from kshim_protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kshim_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kshim_protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from kshim_protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kshim_protocol.schema import codec

VARIANTS = ("none", "ring", "topic")
GROUP_SIZES = (10, 100)
ASSIGNMENT = bytes(40)
SETTLE_S = 0.15
"""Longer than events wait before they are written."""


class Members:
    """A group whose members each have a connection."""

    def __init__(self, broker: MeasuredBroker, count: int) -> None:
        host, port = broker.address
        self.group_id = f"bench-{os.urandom(4).hex()}"
        self.clients = [Client(host, port, client_id=f"consumer-{number}", timeout_s=60) for number in range(count)]
        metadata = codec(ConsumerProtocolSubscription, 1).build(ConsumerProtocolSubscription(topics=("orders",)))
        self.protocols = (JoinGroupRequestProtocol(name="range", metadata=b"\0\1" + metadata),)
        while self.clients[0].ask(FindCoordinatorRequest(key=self.group_id), 3).error_code != ErrorCode.NONE:
            time.sleep(0.1)
        self.member_ids = [self._id_of(client) for client in self.clients]
        self.generation_id = 0
        self.leader = 0
        first = self.clients[0].ask(self._join(self.member_ids[0]), 9)  # a group of one, which the others end
        self.generation_id = first.generation_id
        self._begin(1)
        self._join_and_sync([0, *range(2, count)], 1)

    def rebalance_bare(self) -> None:
        """The leader joins again; once another member knows, everybody does; then everybody syncs."""
        self._begin(self.leader)
        self._join_and_sync([number for number in range(len(self.clients)) if number != self.leader], self.leader)

    def rebalance_as_clients_do(self) -> None:
        """The same; each member is told by a heartbeat, commits before it joins, and fetches its offset at the end."""
        self._begin(self.leader)
        others = [number for number in range(len(self.clients)) if number != self.leader]
        for number in others:
            self.clients[number].send(self._heartbeat(number), 4)
        for number in others:
            assert self.clients[number].receive(60).error_code == ErrorCode.REBALANCE_IN_PROGRESS
        for number in others:
            self.clients[number].send(self._commit(number), 9)
        for number in others:
            assert self.clients[number].receive(60).topics[0].partitions[0].error_code == ErrorCode.NONE
        self._join_and_sync(others, self.leader)
        for number, client in enumerate(self.clients):
            client.send(self._fetch(number), 9)
        for client in self.clients:
            assert client.receive(60).groups[0].topics[0].partitions[0].error_code == ErrorCode.NONE

    def _begin(self, number: int) -> None:
        """A rebalance because `number` joins; returns once the group is at it."""
        self.clients[number].send(self._join(self.member_ids[number]), 9)
        other = 1 if number == 0 else 0
        while self.clients[other].ask(self._heartbeat(other), 4).error_code != ErrorCode.REBALANCE_IN_PROGRESS:
            pass

    def _join_and_sync(self, others: list[int], began: int) -> None:
        for number in others:
            self.clients[number].send(self._join(self.member_ids[number]), 9)
        order = [*others, began]
        for number in order:
            answer = self.clients[number].receive(60)
            assert answer.error_code == ErrorCode.NONE, answer
            self.generation_id = answer.generation_id
            self.leader = self.member_ids.index(answer.leader)
        for number in order:
            self.clients[number].send(self._sync(number), 5)
        for number in order:
            assert self.clients[number].receive(60).error_code == ErrorCode.NONE

    def close(self) -> None:
        """Hang up."""
        for client in self.clients:
            client.close()

    def _id_of(self, client: Client) -> str:
        member_id: str = client.ask(self._join(""), 9).member_id
        return member_id

    def _join(self, member_id: str) -> JoinGroupRequest:
        return JoinGroupRequest(
            group_id=self.group_id,
            session_timeout_ms=1_800_000,
            rebalance_timeout_ms=1_800_000,
            member_id=member_id,
            protocol_type="consumer",
            protocols=self.protocols,
        )

    def _heartbeat(self, number: int) -> HeartbeatRequest:
        return HeartbeatRequest(
            group_id=self.group_id, generation_id=self.generation_id, member_id=self.member_ids[number]
        )

    def _commit(self, number: int) -> OffsetCommitRequest:
        partition = OffsetCommitRequestPartition(partition_index=number, committed_offset=7, committed_metadata="")
        return OffsetCommitRequest(
            group_id=self.group_id,
            generation_id_or_member_epoch=self.generation_id,
            member_id=self.member_ids[number],
            topics=(OffsetCommitRequestTopic(name="orders", partitions=(partition,)),),
        )

    def _fetch(self, number: int) -> OffsetFetchRequest:
        topic = OffsetFetchRequestTopics(name="orders", partition_indexes=(number,))
        return OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group_id=self.group_id, topics=(topic,)),))

    def _sync(self, number: int) -> SyncGroupRequest:
        assignments = self.member_ids if number == self.leader else []
        return SyncGroupRequest(
            group_id=self.group_id,
            generation_id=self.generation_id,
            member_id=self.member_ids[number],
            protocol_type="consumer",
            protocol_name="range",
            assignments=tuple(
                SyncGroupRequestAssignment(member_id=member_id, assignment=ASSIGNMENT) for member_id in assignments
            ),
        )


def serve(variant: str) -> int:
    """Be the broker of a variant."""
    from kshim.cli.main import main as kshim

    if variant == "none":
        from kshim.broker.history import making
        from kshim.broker.history.history import History

        make = making.make_history

        def make_deaf(*arguments: object, **options: object) -> History:
            history: History = make(*arguments, **options)  # type: ignore[arg-type]
            history.observe = lambda event: None
            return history

        making.make_history = make_deaf
    sys.argv = [
        "kshim",
        "serve",
        "--listen=127.0.0.1:0",
        "--topic=orders:100",
        *(["--events-topic"] if variant == "topic" else []),
    ]
    return kshim()


@contextlib.contextmanager
def running(variant: str) -> Iterator[MeasuredBroker]:
    """The broker of a variant in a process of its own."""
    command = [sys.executable, "-m", "bench.history", "--serve", variant]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        assert process.stdout is not None
        yield MeasuredBroker(variant, process.stdout.readline().decode().strip(), psutil.Process(process.pid))
    finally:
        process.terminate()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def spent_us(broker: MeasuredBroker, work: Callable[[], object], count: int) -> float:
    """CPU of the broker for each of `count` pieces of work, with what it does some milliseconds later."""
    time.sleep(SETTLE_S)
    spent_s = broker.fine_cpu_s()
    work()
    time.sleep(SETTLE_S)
    return (broker.fine_cpu_s() - spent_s) / count * 1e6


def measured(
    brokers: list[MeasuredBroker], works: Sequence[Callable[[], object]], round_count: int, count: int
) -> list[list[float]]:
    """CPU us a piece of work, a row a round. Each broker is first, second and third in turn: who comes first pays for it."""
    rows = []
    for number in range(round_count):
        row = [0.0] * len(brokers)
        for place in range(len(brokers)):
            index = (number + place) % len(brokers)
            row[index] = spent_us(brokers[index], works[index], count)
        rows.append(row)
    return rows


def show(what: str, rows: list[list[float]]) -> None:
    """One line a variant; `rows` are the rounds, each a figure for every variant."""
    for index, variant in enumerate(VARIANTS):
        figures = sorted(row[index] for row in rows)
        ratio = statistics.median(row[index] / row[0] for row in rows)
        cost = f"{statistics.median(figures):,.1f}  [{figures[0]:,.1f}-{figures[-1]:,.1f}]"
        print(f"{what:<34}{variant:<8}{cost:<36}{ratio - 1:+.1%}")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--heartbeats", type=int, default=20_000)
    parser.add_argument("--joins", type=int, default=4_000, help="JoinGroups a round, of all members together")
    parser.add_argument("--serve", choices=VARIANTS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        sys.exit(serve(options.serve))
    print(f"{'work':<34}{'history':<8}{'broker CPU us each':<36}against none")
    with contextlib.ExitStack() as stack:
        brokers = [stack.enter_context(running(variant)) for variant in VARIANTS]
        generators = [Generator(broker, 64, options.heartbeats) for broker in brokers]
        rows = measured(brokers, [generator.run for generator in generators], options.rounds, options.heartbeats)
        show("heartbeat", rows)
        for generator in generators:
            generator.close()
        for size in GROUP_SIZES:
            groups = [Members(broker, size) for broker in brokers]
            count = max(options.joins // size, 1)
            kinds = {
                "bare": [group.rebalance_bare for group in groups],
                "as clients do": [group.rebalance_as_clients_do for group in groups],
            }
            for name, rebalances in kinds.items():
                works = [partial(repeat, rebalance, count) for rebalance in rebalances]
                for work in works:
                    work()
                rows = measured(brokers, works, options.rounds, count)
                show(f"rebalance of {size}, {name}", rows)
            for group in groups:
                group.close()


def repeat(work: Callable[[], None], count: int) -> None:
    """Do it `count` times."""
    for _ in range(count):
        work()


if __name__ == "__main__":
    main()
