"""What the reconciliation of a large group of the new protocol (KIP-848) costs the broker.

    python -m bench.consumer_groups [--members 100 1000] [--rounds 3] [--bootstrap kafka=127.0.0.1:9092]...

N members subscribe to a topic of 2 N partitions and join at once, until each owns what it is to own at the last epoch
(`join`). Then one leaves while N / 10 more join (`change`), and in the end all leave (`leave`). The members are bare
requests over a few connections: each acknowledges a new assignment at once, as clients do, and else sends a heartbeat
every second. No partition may be in two hands at any time. The brokers take turns, round after round, each time with a
new group. Printed: medians of the CPU seconds of the broker's process with all its threads and the kernel's part, as a
ratio to those of the first broker, of wall seconds, of how much the epoch rose, and of heartbeats.
"""

from __future__ import annotations

import argparse
import heapq
import selectors
import socket
import statistics
import struct
import time
import uuid
from collections import Counter, defaultdict, deque
from itertools import count
from typing import NamedTuple

from bench.brokers import MeasuredBroker, add_broker_options, chosen_brokers
from kshim.tools.client import Client
from kshim_protocol.codec import codec
from kshim_protocol.errors import ErrorCode
from kshim_protocol.frame import build_request_frame
from kshim_protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from kshim_protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kshim_protocol.messages.find_coordinator import FindCoordinatorRequest
from kshim_protocol.messages.list_groups import ListGroupsRequest

VERSION = 1
API_KEY = 68
LEAVING = -1
CONNECTION_COUNT = 8
INTERVAL_S = 1.0
TIMEOUT_S = 120
_REQUESTS = codec(ConsumerGroupHeartbeatRequest, VERSION)
_RESPONSES = codec(ConsumerGroupHeartbeatResponse, VERSION)
_BODY_AT = 4 + 4 + 1  # size, correlation id, tagged fields


class Member:
    """A member of the new protocol, without I/O. It gives up partitions as soon as it is told to."""

    def __init__(self, group_id: str, topic: str) -> None:
        self.group_id = group_id
        self.topic = topic
        self.member_id = str(uuid.uuid4())
        self.epoch = 0
        self.owned: frozenset[int] = frozenset()
        self.is_leaving = False
        self._topic_id = b""
        self._has_news = True

    def request(self) -> ConsumerGroupHeartbeatRequest:
        """The next heartbeat: all that there is to say when it joins, else what it owns when that is news."""
        is_joining = self.epoch == 0
        owned = None
        if self._has_news or is_joining:
            partitions = TopicPartitions(topic_id=self._topic_id, partitions=tuple(sorted(self.owned)))
            owned = (partitions,) if self.owned else ()
        return ConsumerGroupHeartbeatRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            member_epoch=LEAVING if self.is_leaving else self.epoch,
            rebalance_timeout_ms=60_000 if is_joining else -1,
            subscribed_topic_names=(self.topic,) if is_joining else None,
            topic_partitions=owned,
        )

    def take(self, response: ConsumerGroupHeartbeatResponse) -> bool:
        """The answer to a heartbeat. Whether there is something to say at once: it owns others, or leaves."""
        assert response.error_code == ErrorCode.NONE, response
        self._has_news = False
        if response.member_epoch == LEAVING:
            return False
        self.epoch = response.member_epoch
        if response.assignment is not None and not self.is_leaving:
            topics = response.assignment.topic_partitions
            before, self.owned = self.owned, frozenset(index for topic in topics for index in topic.partitions)
            self._topic_id = topics[0].topic_id if topics else self._topic_id
            self._has_news = self.owned != before
        return self._has_news or self.is_leaving

    def leave(self) -> None:
        """Its next heartbeat is its last."""
        self.is_leaving, self.owned = True, frozenset()


class Connection:
    """A connection that members share. One request is in flight on it, as clients do it."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.socket = socket.create_connection(address)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._waiting: deque[Member] = deque()
        self._asking: Member | None = None
        self._buffer = b""

    def ask(self, member: Member) -> None:
        """Send a member's next heartbeat when it is its turn."""
        self._waiting.append(member)
        self._send()

    def _send(self) -> None:
        if self._asking is None and self._waiting:
            self._asking = self._waiting.popleft()
            body = _REQUESTS.build(self._asking.request())
            self.socket.sendall(build_request_frame(API_KEY, VERSION, 7, "bench", body, flexible=True))

    def receive(self) -> tuple[Member, ConsumerGroupHeartbeatResponse] | None:
        """Whom the answer is for, and the answer, once all of it is here."""
        data = self.socket.recv(1 << 18)
        assert data, "the broker closed the connection"
        self._buffer += data
        if len(self._buffer) < 4 or len(self._buffer) < 4 + struct.unpack_from(">i", self._buffer)[0]:
            return None
        response, _ = _RESPONSES.parse(self._buffer, _BODY_AT)
        member, self._asking, self._buffer = self._asking, None, b""
        assert member is not None
        return member, response

    def go_on(self) -> None:
        """The answer has been taken: send what waits."""
        self._send()


class Phase(NamedTuple):
    """What a change of a group took."""

    cpu_s: float
    wall_s: float
    epoch_count: int
    heartbeat_count: int


class Group:
    """Members of one group at work, who owns what, and how far they are."""

    def __init__(self, broker: MeasuredBroker, topic: str, partition_count: int) -> None:
        self.group_id = f"bench-{uuid.uuid4().hex}"
        self.members: dict[Member, Connection] = {}
        self._broker = broker
        self._topic = topic
        self._partition_count = partition_count
        self._owners: dict[int, Member] = {}
        self._epochs: Counter[int] = Counter()  # how many members are at each
        self._sizes: Counter[int] = Counter()  # how many have so many partitions
        self._epoch = 1  # of a group that nobody has joined yet
        self._heartbeat_count = 0
        self._due: list[tuple[float, int, Member]] = []
        self._numbers = count()
        self._connections = [Connection(broker.address) for _ in range(CONNECTION_COUNT)]
        self._selector = selectors.DefaultSelector()
        for connection in self._connections:
            self._selector.register(connection.socket, selectors.EVENT_READ, connection)

    def close(self) -> None:
        """Close the connections."""
        self._selector.close()
        for connection in self._connections:
            connection.socket.close()

    def change(self, *, joining: int = 0, leaving: int = 0) -> Phase:
        """So many members leave while so many join; returns when nothing is left to reconcile."""
        spent_s, began_s, before, sent = self._broker.cpu_s(), time.perf_counter(), self._epoch, self._heartbeat_count
        stays = len(self.members) - leaving + joining
        for member in list(self.members)[:leaving]:
            self._count(member, -1)
            self._release(member.owned)
            member.leave()
        soon = [member for _, _, member in self._due if member.is_leaving]
        self._due = [entry for entry in self._due if not entry[2].is_leaving]
        heapq.heapify(self._due)
        for _ in range(joining):
            member = Member(self.group_id, self._topic)
            self.members[member] = self._connections[next(self._numbers) % CONNECTION_COUNT]
            self._count(member, 1)
            soon.append(member)
        for member in soon:
            self._heartbeat(member)
        while len(self.members) != stays or not self._is_settled():
            assert time.perf_counter() < began_s + TIMEOUT_S, (self._epochs, self._sizes, len(self._owners))
            self._go_on()
        self._epoch = max(self._epochs, default=self._epoch + leaving)
        return Phase(
            self._broker.cpu_s() - spent_s,
            time.perf_counter() - began_s,
            self._epoch - before,
            self._heartbeat_count - sent,
        )

    def _is_settled(self) -> bool:
        """Whether all are at one epoch, and all partitions with them in equal shares: nobody waits for a target, then."""
        if not self.members:
            return True
        is_all_owned = len(self._owners) == self._partition_count
        return is_all_owned and len(self._epochs) == 1 and max(self._sizes) - min(self._sizes) <= 1

    def _go_on(self) -> None:
        now_s = time.perf_counter()
        while self._due and self._due[0][0] <= now_s:
            self._heartbeat(heapq.heappop(self._due)[2])
        wait_s = max(self._due[0][0] - now_s, 0.0) if self._due else 1.0
        for key, _ in self._selector.select(wait_s):
            answered = key.data.receive()
            if answered is not None:
                self._answered(*answered)
                key.data.go_on()

    def _heartbeat(self, member: Member) -> None:
        self._heartbeat_count += 1
        self.members[member].ask(member)

    def _answered(self, member: Member, response: ConsumerGroupHeartbeatResponse) -> None:
        before, was_leaving = member.owned, member.is_leaving
        if not was_leaving:
            self._count(member, -1)
        is_due = member.take(response)
        if response.member_epoch == LEAVING:
            del self.members[member]
            return
        if not was_leaving:
            self._count(member, 1)
            self._release(before - member.owned)
            for index in member.owned - before:
                assert index not in self._owners, f"partition {index} has two owners"
                self._owners[index] = member
        if is_due:
            self._heartbeat(member)
        else:
            heapq.heappush(self._due, (time.perf_counter() + INTERVAL_S, next(self._numbers), member))

    def _count(self, member: Member, by: int) -> None:
        for counts, key in ((self._epochs, member.epoch), (self._sizes, len(member.owned))):
            counts[key] += by
            if not counts[key]:
                del counts[key]

    def _release(self, partitions: frozenset[int]) -> None:
        for index in partitions:
            del self._owners[index]


def made_topic(broker: MeasuredBroker, partition_count: int) -> str:
    """A new topic, which the coordinator knows."""
    client = Client(*broker.address, client_id="bench", timeout_s=60)
    topic = f"bench-{uuid.uuid4().hex}"
    wanted = CreatableTopic(
        name=topic, num_partitions=partition_count, replication_factor=1, assignments=(), configs=()
    )
    made = client.ask(CreateTopicsRequest(topics=(wanted,)), 7).topics[0]
    assert made.error_code == ErrorCode.NONE, made
    join_alone(client, topic)
    client.close()
    return topic


def join_alone(client: Client, topic: str) -> Member:
    """A new group with one member, which has all partitions of a topic and nothing to say."""
    member = Member(f"bench-{uuid.uuid4().hex}", topic)
    while client.ask(FindCoordinatorRequest(key=member.group_id), 3).error_code != ErrorCode.NONE:
        time.sleep(0.1)  # the offsets topic is being made, which only this request brings about
    while not member.owned:
        response = client.ask(member.request(), VERSION)
        if response.error_code == ErrorCode.NONE:
            member.take(response)
            member.epoch = member.epoch if member.owned else 0
        if not member.owned:  # being loaded, or the topic is not known yet
            time.sleep(0.1)
    member.take(client.ask(member.request(), VERSION))
    return member


def reconcile(broker: MeasuredBroker, topic: str, member_count: int) -> dict[str, Phase]:
    """What each phase of a new group took."""
    group = Group(broker, topic, 2 * member_count)
    try:
        phases = {"join": group.change(joining=member_count)}
        phases["change"] = group.change(joining=member_count // 10, leaving=1)
        client = Client(*broker.address, client_id="bench", timeout_s=60)
        listed = {found.group_id: found.group_state for found in client.ask(ListGroupsRequest(), 5).groups}
        assert listed[group.group_id] == "Stable", listed[group.group_id]
        client.close()
        phases["leave"] = group.change(leaving=len(group.members))
    finally:
        group.close()
    return phases


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--members", type=int, nargs="+", default=[100, 1_000])
    parser.add_argument("--rounds", type=int, default=3)
    add_broker_options(parser)
    options = parser.parse_args()
    rows: defaultdict[tuple[int, str, str], list[Phase]] = defaultdict(list)
    with chosen_brokers(options) as brokers:
        for member_count in options.members:
            topics = [made_topic(broker, 2 * member_count) for broker in brokers]
            for _ in range(options.rounds):
                for broker, topic in zip(brokers, topics, strict=True):
                    for phase, took in reconcile(broker, topic, member_count).items():
                        rows[member_count, phase, broker.name].append(took)
    print(
        f"{'members':>7} {'phase':<8}{'broker':<10}{'CPU s':<24}{'ratio':>6}{'wall s':>8}{'epochs':>8}{'heartbeats':>12}"
    )
    for (member_count, phase, name), taken in rows.items():
        cpu_s, wall_s, epoch_count, heartbeat_count = map(statistics.median, zip(*taken, strict=True))
        first_s = statistics.median(took.cpu_s for took in rows[member_count, phase, brokers[0].name])
        spread = f"{cpu_s:.2f}  [{min(taken).cpu_s:.2f}-{max(taken).cpu_s:.2f}]"
        ratio = f"{cpu_s / first_s:.2f}" if first_s else "-"
        print(
            f"{member_count:>7} {phase:<8}{name:<10}{spread:<24}{ratio:>6}{wall_s:>8.1f}{epoch_count:>8.0f}"
            f"{heartbeat_count:>12,.0f}"
        )


if __name__ == "__main__":
    main()
