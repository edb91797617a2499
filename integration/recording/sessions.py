"""A session of real clients on recorded brokers: members come, one leaves, one is killed, one reads in its own way."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer
from kafka import KafkaConsumer

from kshim.testing import Kshim
from kshim.tools.client import Client
from kshim_protocol.errors import ErrorCode
from kshim_protocol.group_requests import Committed, GroupMember
from kshim_protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kshim_protocol.messages.find_coordinator import FindCoordinatorRequest
from kshim_protocol.messages.join_group import JoinGroupRequest

RECORDS = 20


def record_a_session(path: Path) -> None:
    """Two kafka-python consumers share a topic; one is a process that is killed, and its session expires. A consumer and
    a transactional producer of librdkafka do the same beside them, and leave."""
    with Kshim(topics={"t": 4}, record=path) as kshim:
        kshim.produce("t", *[f"value {number}" for number in range(RECORDS)])
        group = kshim.group("g")
        doomed = subprocess.Popen(
            [sys.executable, "-m", "integration.kafka_python.doomed", kshim.bootstrap_servers, "g", "45000", "t"],
            stdout=subprocess.PIPE,
        )
        try:
            group.wait_stable(members=1, timeout=30)
            consumer = KafkaConsumer(
                "t",
                bootstrap_servers=kshim.bootstrap_servers,
                group_id="g",
                auto_offset_reset="earliest",
                heartbeat_interval_ms=200,
            )
            poll_until(consumer, lambda: len(consumer.assignment()) == 2)
            _librdkafka(kshim)
            consumer.commit()
        finally:
            doomed.kill()
            doomed.wait()
            assert doomed.stdout is not None
            doomed.stdout.close()
        while len(group.members) == 2:
            consumer.poll(600)  # heartbeats, so that its own session does not expire
            kshim.clock.advance(10)
        poll_until(consumer, lambda: len(consumer.assignment()) == 4)
        consumer.close()
        group.wait_empty()


def poll_until(consumer: Any, is_so: Callable[[], bool]) -> None:
    """Poll as an application does."""
    for _ in range(300):
        if is_so():
            return
        consumer.poll(100)
    raise AssertionError("it never came to that")


def _librdkafka(kshim: Kshim) -> None:
    servers = kshim.bootstrap_servers
    producer = Producer({"bootstrap.servers": servers, "transactional.id": "tx"})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce("t", b"in a transaction")
    producer.commit_transaction()
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "other", "auto.offset.reset": "earliest"})
    consumer.subscribe(["t"])
    seen = 0
    while seen < RECORDS + 1:
        message = consumer.poll(10)
        assert message is not None
        seen += message.error() is None
    consumer.close()


def record_a_short_session(path: Path) -> None:
    """A producer, and two members that come, commit and leave, in real time: a second."""
    with Kshim(topics={"t": 4}, record=path) as kshim:
        host, _, port = kshim.bootstrap_servers.rpartition(":")
        address = (host, int(port))
        producer = Producer({"bootstrap.servers": kshim.bootstrap_servers, "enable.idempotence": True})
        for number in range(RECORDS):
            producer.produce("t", f"value {number}".encode())
        producer.flush()
        first, second = _Member(address, "first"), _Member(address, "second")
        first.join()
        first.sync({first: b"all"})
        assert first.commit(3) == ErrorCode.NONE
        second.send_join()  # it waits until the first one joins again
        # Where this is played to a broker under load, it has the join before the heartbeat, which comes on another connection.
        first.fetch_in_vain(500)
        assert first.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
        first.join()
        second.take_join()
        first.sync({first: b"half", second: b"other half"})
        second.sync({})
        assert second.commit(4) == ErrorCode.NONE
        second.leave()
        assert first.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
        first.leave()
        assert first.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID
        for member in (first, second):
            member.client.close()


class _Member:
    """A consumer that does one thing at a time."""

    def __init__(self, address: tuple[str, int], name: str) -> None:
        self.client = Client(*address, client_id=name, timeout_s=60)
        self.client.ask(FindCoordinatorRequest(key="short", key_type=0), 2)
        self.own = GroupMember("short")

    def send_join(self) -> None:
        """Get a member id, and join with it; the answer may come later."""
        if not self.own.member_id:
            self.own = self.own._replace(member_id=self.client.ask(self._join(), 9).member_id)
        self.client.send(self._join(), 9)

    def _join(self) -> JoinGroupRequest:
        return self.own.join(9, [("range", b"t")], session_timeout_ms=60_000)

    def take_join(self) -> None:
        answer = self.client.receive(60)
        assert answer is not None
        assert answer.error_code == ErrorCode.NONE
        self.own = self.own._replace(generation_id=answer.generation_id)

    def join(self) -> None:
        self.send_join()
        self.take_join()

    def sync(self, assignments: dict[_Member, bytes]) -> None:
        rows = [(member.own.member_id, assignment) for member, assignment in assignments.items()]
        assert self.client.ask(self.own.sync(5, rows), 5).error_code == ErrorCode.NONE

    def heartbeat(self) -> int:
        error: int = self.client.ask(self.own.heartbeat(4), 4).error_code
        return error

    def commit(self, offset: int) -> int:
        answer = self.client.ask(self.own.commit(8, [("t", [Committed(0, offset)])]), 8)
        error: int = answer.topics[0].partitions[0].error_code
        return error

    def fetch_in_vain(self, wait_ms: int) -> None:
        """Ask for more bytes than there are, which a broker answers after `wait_ms`."""
        topic = FetchTopic(
            topic="t", partitions=(FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1024),)
        )
        self.client.ask(FetchRequest(max_wait_ms=wait_ms, min_bytes=1 << 20, topics=(topic,)), 11)

    def leave(self) -> None:
        self.client.ask(self.own.leave(5), 5)
