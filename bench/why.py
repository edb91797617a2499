"""What `kshim why` costs on a cluster with many groups: seconds, CPU and memory of the whole command.

    python -m bench.why [--bootstrap kafka=HOST:PORT] [--groups 1000] [--records 1000000] [--rounds 3] [--filled]

Fills each broker first, over the wire: each group joins with one member, commits again and again for all partitions of a topic,
and leaves, so that that many records were written to `__consumer_offsets`, of which compaction may leave fewer. `--filled` asks brokers
that were filled before. Then the command asks for one group, and for all. Printed: median [lowest-highest] of wall seconds and CPU
seconds, and the largest memory.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from typing import Any, NamedTuple

from bench.brokers import add_broker_options, chosen_brokers
from kshim.tools.client import Client
from kshim_protocol.codec import codec
from kshim_protocol.errors import ErrorCode
from kshim_protocol.internal.consumer import ConsumerProtocolSubscription
from kshim_protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kshim_protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kshim_protocol.messages.leave_group import LeaveGroupRequest
from kshim_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kshim_protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

TOPIC, PARTITIONS = "why-bench", 50
IN_FLIGHT = 20
_SUBSCRIPTION = b"\0\0" + codec(ConsumerProtocolSubscription, 0).build(ConsumerProtocolSubscription(topics=(TOPIC,)))


class Cost(NamedTuple):
    """Of one run of the command."""

    wall_s: float
    cpu_s: float
    memory_mb: float


def fill(host: str, port: int, group_count: int, record_count: int) -> None:
    """Make the groups and their commits, which keep their order in each partition of the offsets topic."""
    client = Client(host, port, client_id="why-bench", timeout_s=120)
    topic = CreatableTopic(name=TOPIC, num_partitions=PARTITIONS, replication_factor=1, assignments=(), configs=())
    client.ask(CreateTopicsRequest(topics=(topic,), timeout_ms=60_000), 2)
    time.sleep(1)
    rounds = max(record_count // group_count // PARTITIONS, 1)
    for number in range(group_count):
        _live(client, f"why-bench-{number}", rounds)
    client.close()


def _live(client: Client, group_id: str, rounds: int) -> None:
    """One life of a group."""
    protocol = JoinGroupRequestProtocol(name="range", metadata=_SUBSCRIPTION)
    joined = client.ask(
        JoinGroupRequest(
            group_id=group_id,
            session_timeout_ms=45_000,
            rebalance_timeout_ms=300_000,
            member_id="",
            protocol_type="consumer",
            protocols=(protocol,),
        ),
        3,
    )
    _require(joined.error_code)
    me, generation = joined.member_id, joined.generation_id
    assignment = SyncGroupRequestAssignment(member_id=me, assignment=b"")
    synced = client.ask(
        SyncGroupRequest(group_id=group_id, generation_id=generation, member_id=me, assignments=(assignment,)), 2
    )
    _require(synced.error_code)
    owed = 0
    for number in range(rounds):
        partitions = tuple(
            OffsetCommitRequestPartition(partition_index=index, committed_offset=number, committed_metadata="")
            for index in range(PARTITIONS)
        )
        topics = (OffsetCommitRequestTopic(name=TOPIC, partitions=partitions),)
        request = OffsetCommitRequest(
            group_id=group_id, generation_id_or_member_epoch=generation, member_id=me, topics=topics
        )
        client.send(request, 7)
        owed += 1
        if owed == IN_FLIGHT:
            _committed(client)
            owed -= 1
    for _ in range(owed):
        _committed(client)
    _require(client.ask(LeaveGroupRequest(group_id=group_id, member_id=me), 2).error_code)


def _committed(client: Client) -> None:
    answer: Any = client.receive(120)
    _require(answer.topics[0].partitions[0].error_code)


def _require(error_code: int) -> None:
    assert error_code == ErrorCode.NONE, ErrorCode(error_code).name


def ask(*arguments: str) -> Cost:
    """Run the command once."""
    began_s = time.monotonic()
    child = subprocess.Popen(
        [sys.executable, "-m", "kshim", "why", *arguments, "--output", "json"], stdout=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(child.pid, 0)
    assert status == 0, status
    return Cost(time.monotonic() - began_s, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def main() -> None:
    """Fill, ask and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.why", description=__doc__)
    add_broker_options(parser)
    parser.add_argument("--groups", type=int, default=1_000)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--filled", action="store_true")
    options = parser.parse_args()
    with chosen_brokers(options) as brokers:
        for broker in brokers:
            if not options.filled:
                fill(*broker.address, options.groups, options.records)
            for name, question in (("one group", f"why-bench-{options.groups // 2}"), ("all groups", "--all")):
                costs = [ask(question, "--bootstrap-server", broker.bootstrap) for _ in range(options.rounds)]
                print(
                    f"{broker.name}, {name}: {_text([each.wall_s for each in costs])} s, "
                    f"{_text([each.cpu_s for each in costs])} s CPU, {max(each.memory_mb for each in costs):.0f} MB",
                    flush=True,
                )


def _text(values: list[float]) -> str:
    return f"{statistics.median(values):.2f} [{min(values):.2f}-{max(values):.2f}]"


if __name__ == "__main__":
    main()
