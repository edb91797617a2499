"""CPU time of the codec: construct interpreted, our generated Python, and kafka-python 3, in both directions.

    python -m bench.codec [--rounds N]

Microseconds a message: the median of interleaved rounds, CPU time of this thread (the wall clock of a shared machine
says little). "x" is how many times the generated code is faster than the interpreted tree. Cold costs stand below:
what it takes to make a codec, and to import the modules.
"""

from __future__ import annotations

import argparse
import gc
import os
import statistics
import subprocess
import sys
import tempfile
import time
import timeit
from collections.abc import Callable
from functools import partial
from typing import Any

from kafka.protocol.consumer import FetchResponse as KafkaFetchResponse
from kafka.protocol.consumer import HeartbeatRequest as KafkaHeartbeatRequest
from kafka.protocol.consumer import HeartbeatResponse as KafkaHeartbeatResponse
from kafka.protocol.consumer import JoinGroupRequest as KafkaJoinGroupRequest
from kafka.protocol.consumer import JoinGroupResponse as KafkaJoinGroupResponse
from kafka.protocol.consumer import OffsetCommitRequest as KafkaOffsetCommitRequest
from kafka.protocol.metadata import MetadataResponse as KafkaMetadataResponse

from kshim_protocol.apis import API_TABLE
from kshim_protocol.codec import Codec, codec
from kshim_protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from kshim_protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kshim_protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    JoinGroupResponseMember,
)
from kshim_protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kshim_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)

MEMBER_ID = "consumer-orders-1-5f0e7a9c-3b52-4d0e-9a51-0c8f6f1f2b7d"
SUBSCRIPTION = bytes.fromhex("000300000001000 66f7264657273ffffffff00000000ffffffffffff".replace(" ", ""))
ROUND_S = 0.02


def heartbeat_request() -> HeartbeatRequest:
    return HeartbeatRequest(group_id="orders", generation_id=7, member_id=MEMBER_ID, group_instance_id=None)


def join_group_request() -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id="orders",
        session_timeout_ms=45_000,
        rebalance_timeout_ms=300_000,
        member_id=MEMBER_ID,
        protocol_type="consumer",
        protocols=(
            JoinGroupRequestProtocol(name="range", metadata=SUBSCRIPTION),
            JoinGroupRequestProtocol(name="cooperative-sticky", metadata=SUBSCRIPTION * 2),
        ),
        reason="rebalance enforced by user",
    )


def join_group_response(members: int) -> JoinGroupResponse:
    return JoinGroupResponse(
        error_code=0,
        generation_id=7,
        protocol_type="consumer",
        protocol_name="range",
        leader=MEMBER_ID,
        member_id=MEMBER_ID,
        members=tuple(
            JoinGroupResponseMember(member_id=f"{MEMBER_ID}{n}", metadata=SUBSCRIPTION) for n in range(members)
        ),
    )


def offset_commit_request(partitions: int) -> OffsetCommitRequest:
    return OffsetCommitRequest(
        group_id="orders",
        generation_id_or_member_epoch=7,
        member_id=MEMBER_ID,
        topics=(
            OffsetCommitRequestTopic(
                name="orders",
                partitions=tuple(
                    OffsetCommitRequestPartition(
                        partition_index=n, committed_offset=n * 1000, committed_leader_epoch=0, committed_metadata=""
                    )
                    for n in range(partitions)
                ),
            ),
        ),
    )


def fetch_response(partitions: int) -> FetchResponse:
    return FetchResponse(
        responses=(
            FetchableTopicResponse(
                topic_id=bytes(range(16)),
                partitions=tuple(
                    PartitionData(
                        partition_index=n,
                        error_code=0,
                        high_watermark=1000,
                        last_stable_offset=1000,
                        log_start_offset=0,
                        aborted_transactions=None,
                        records=b"",
                    )
                    for n in range(partitions)
                ),
            ),
        )
    )


def metadata_response(topics: int, partitions: int) -> MetadataResponse:
    return MetadataResponse(
        brokers=(MetadataResponseBroker(node_id=1, host="127.0.0.1", port=9092),),
        cluster_id="AAAAAAAAAAAAAAAAAAAAAQ",
        controller_id=1,
        topics=tuple(
            MetadataResponseTopic(
                error_code=0,
                name=f"topic-{topic}",
                topic_id=bytes(range(16)),
                partitions=tuple(
                    MetadataResponsePartition(
                        error_code=0, partition_index=n, leader_id=1, leader_epoch=0, replica_nodes=(1,), isr_nodes=(1,)
                    )
                    for n in range(partitions)
                ),
            )
            for topic in range(topics)
        ),
    )


CASES: list[tuple[str, Any, int, Any]] = [
    ("HeartbeatRequest", heartbeat_request(), 4, KafkaHeartbeatRequest),
    ("HeartbeatResponse", HeartbeatResponse(error_code=0), 4, KafkaHeartbeatResponse),
    ("JoinGroupRequest", join_group_request(), 9, KafkaJoinGroupRequest),
    ("JoinGroupResponse, 50 members", join_group_response(50), 9, KafkaJoinGroupResponse),
    ("OffsetCommitRequest, 10 partitions", offset_commit_request(10), 9, KafkaOffsetCommitRequest),
    ("OffsetCommitRequest, 100 partitions", offset_commit_request(100), 9, KafkaOffsetCommitRequest),
    ("FetchResponse, 10 partitions", fetch_response(10), 16, KafkaFetchResponse),
    ("MetadataResponse, 100 x 10", metadata_response(100, 10), 12, KafkaMetadataResponse),
]


def timed_us(timer: timeit.Timer) -> float:
    """CPU us of one call, over about `ROUND_S`."""
    count = 1
    while (spent := timer.timeit(count)) < ROUND_S:
        count = max(count * 2, int(count * ROUND_S / max(spent, 1e-6)))
    return spent / count * 1e6


def medians_us(calls: list[tuple[Callable[[Any], object], object]], rounds: int) -> list[float]:
    """The median of every (function, argument), rounds interleaved; the garbage collector runs between them only."""
    timers = [
        timeit.Timer("function(argument)", timer=time.thread_time, globals={"function": function, "argument": argument})
        for function, argument in calls
    ]
    measured: list[list[float]] = [[] for _ in timers]
    for _ in range(rounds):
        for found, timer in zip(measured, timers, strict=True):
            gc.collect()
            found.append(timed_us(timer))
    return [statistics.median(found) for found in measured]


def print_messages(rounds: int) -> None:
    header = f"{'us a message: parse / build':40} {'bytes':>6} {'interpreted':>19} {'generated':>15} {'x':>13} {'kafka-python':>17}"
    print(header)
    for name, message, version, kafka_class in CASES:
        tested = codec(type(message), version)
        data = tested.build(message)
        theirs = kafka_class.decode(data, version=version)
        theirs._header = None
        decode = partial(kafka_class.decode, version=version)
        assert tested.build_interpreted(message) == bytes(theirs.encode(version)) == data
        times = medians_us(
            [
                (tested.parse_interpreted, data),
                (tested.build_interpreted, message),
                (tested.parse, data),
                (tested.build, message),
                (decode, data),
                (theirs.encode, version),
            ],
            rounds,
        )
        interpreted, generated, other = ((f"{a:.3g}", f"{b:.3g}") for a, b in zip(times[::2], times[1::2], strict=True))
        factors = f"{times[0] / times[2]:.1f}", f"{times[1] / times[3]:.1f}"
        print(
            f"{name + ' v' + str(version):40} {len(data):>6} {' / '.join(interpreted):>19} {' / '.join(generated):>15}"
            f" {' / '.join(factors):>13} {' / '.join(other):>17}"
        )


def print_cold_costs() -> None:
    """What the first use of a codec costs: the construct tree and both functions, all APIs in all versions."""
    made = [
        Codec(cls, version)
        for api in API_TABLE.values()
        for cls in (api.request_class(), api.response_class())
        for version in range(api.min_version, api.max_version + 1)
    ]
    costs_ms = []
    for one in made:
        start = time.thread_time()
        one.compile()
        costs_ms.append((time.thread_time() - start) * 1e3)
    print(
        f"\nfirst use of a codec, both directions, {len(made)} of them: "
        f"median {statistics.median(costs_ms):.2f} ms, worst {max(costs_ms):.2f} ms, all {sum(costs_ms):.0f} ms"
    )
    for module in ("kshim_protocol.apis", "kshim_protocol.schema", "kshim_protocol.wire", "kshim_protocol.compiler"):
        print(f"import of {module}: {import_ms(module):.1f} ms; behind trio {import_ms(module, after='trio'):.1f} ms")


def import_ms(module: str, after: str = "sys") -> float:
    """CPU ms of an import in a fresh interpreter that has imported `after`, with warm bytecode."""
    program = f"import time, {after}; t = time.thread_time(); import {module}; print(time.thread_time() - t)"
    with tempfile.TemporaryDirectory() as bytecode:
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        environment["PYTHONPYCACHEPREFIX"] = bytecode
        runs = [
            subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment)
            for _ in range(10)
        ]
    return statistics.median(float(run.stdout) for run in runs[1:]) * 1e3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7, help="rounds a figure is the median of (default: 7)")
    options = parser.parse_args()
    print_messages(options.rounds)
    print_cold_costs()


if __name__ == "__main__":
    main()
