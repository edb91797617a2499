"""What requests cost without sockets, in machine instructions: the same on a busy machine as on a quiet one.

    python -m bench.instructions [--measures heartbeat commit-10 ...] [--profile]

A node with a data directory handles requests in one process: from the bytes that came to the bytes that are to be
sent, its log (standard verbosity) written nowhere. valgrind's cachegrind (it has to be installed) counts what a warm
process spends on requests. Not in it is the kernel's part, nor that of trio. Printed: thousand instructions a request.
`--profile` prints instead where Python's time goes, by cProfile.
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import os
import pstats
import re
import shutil
import subprocess
import sys
import tempfile
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count, cycle
from typing import Any, Final, NamedTuple

from bench.consumer_groups import VERSION as CONSUMER_VERSION
from bench.consumer_groups import Member as ConsumerMember
from bench.data_plane import WALL_MS, fail
from kshim.broker.cluster import Cluster, RandomIds
from kshim.broker.node import Node
from kshim.broker.request import API_VERSIONS, errors_in
from kshim.broker.router import Router
from kshim.cli.log import Log
from kshim.config.broker_config import BrokerConfig
from kshim.coordinator.step import Now
from kshim.server.connection import ServerConnection
from kshim.server.limits import ServerLimits
from kshim.server.request_memory import RequestMemory
from kshim.storage.directory import DataDirectory
from kshim.storage.stores import DirectoryStorage
from kshim_protocol.apis import API_TABLE
from kshim_protocol.codec import codec
from kshim_protocol.errors import ErrorCode
from kshim_protocol.frame import build_request_frame
from kshim_protocol.messages.api_versions import ApiVersionsRequest
from kshim_protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kshim_protocol.messages.heartbeat import HeartbeatRequest
from kshim_protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from kshim_protocol.messages.list_groups import ListGroupsRequest
from kshim_protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kshim_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kshim_protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from kshim_protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kshim_protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kshim_protocol.records.batch import build_batch
from kshim_protocol.records.record import Record
from kshim_protocol.schema import Request

PARTITIONS: Final = 100
WARM: Final = 20
TOPIC: Final = "bench"
_LEAVING: Final = 300
_STATIC: Final = 100

Sent = bytes | memoryview | list[bytes | memoryview]


class AnyPeer(ABC):
    """A connection to a broker."""

    @abstractmethod
    def put(self, frame: bytes) -> None:
        """Have a request handled, and do not wait for its answer."""

    @abstractmethod
    def sent(self) -> list[Sent]:
        """What answers there are, as they are sent, piece by piece."""

    def send(self, frame: bytes) -> list[Sent]:
        """Have a request handled; its answer: none while it waits."""
        self.put(frame)
        return self.sent()

    def ask(self, request: Request[Any], version: int) -> Any:
        """The same with messages; None for what waits."""
        answer = joined(self.send(frame_of(request, version)))
        return None if not answer else answer_in(answer, request, version)

    def awaited(self, request: Request[Any], version: int) -> Any:
        """The answer of a request that waited."""
        return answer_in(joined(self.sent()), request, version)


class AnyBroker(ABC):
    """What measures need of a broker."""

    @abstractmethod
    def peer(self) -> AnyPeer:
        """A new connection."""

    @abstractmethod
    def create_topic(self, name: str, partition_count: int) -> None:
        """Make a topic."""

    @abstractmethod
    def pass_time(self) -> None:
        """Fire the timers that are due, as joins that wait for others are answered by one."""


class Peer(AnyPeer):
    """Without a socket."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._connection = ServerConnection(
            broker.router,
            "/127.0.0.1",
            40_000,
            limits=ServerLimits(),
            request_memory=RequestMemory(-1),
            log=broker.log,
            wake=lambda: None,
        )

    def put(self, frame: bytes) -> None:
        self._connection.receive(frame)
        self._connection.handle(self._broker.now, 0)

    def sent(self) -> list[Sent]:
        sent = []
        while data := self._connection.next_to_send():
            sent.append(data)
        return sent


def joined(sent: list[Sent]) -> bytes:
    return b"".join(b"".join(data) if isinstance(data, list) else data for data in sent)


class Broker(AnyBroker):
    """A node in this process, whose clock stands still."""

    def __init__(self, folder: str) -> None:
        numbers = count(1)
        self.now = Now(0, WALL_MS)
        random_ids = RandomIds(
            lambda: f"00000000-0000-4000-8000-{next(numbers):012x}", lambda: next(numbers).to_bytes(16, "big")
        )
        self.log = Log(open(os.devnull, "w"), "text")  # noqa: SIM115
        self.cluster = Cluster(
            BrokerConfig({"group.initial.rebalance.delay.ms": "0"}),
            DirectoryStorage(DataDirectory.open(folder, cluster_id="bench", node_id=1)),
            random_ids,
            cluster_id="bench",
            on_event=self.log.coordinator_event,
            on_defect=fail,
        )
        self.router = Router(Node(self.cluster, 1, "127.0.0.1", 9092))
        self.cluster.start(lambda: self.now)
        self.create_topic(TOPIC, PARTITIONS)

    def peer(self) -> Peer:
        return Peer(self)

    def create_topic(self, name: str, partition_count: int) -> None:
        self.cluster.create_topic(name, partition_count)

    def pass_time(self) -> None:
        while (deadline_ms := self.router.next_deadline()) is not None and deadline_ms <= self.now.mono_ms:
            self.router.advance(self.now)


def frame_of(request: Request[Any], version: int) -> bytes:
    key = type(request).info.api_key
    assert key is not None
    body = codec(type(request), version).build(request)
    return build_request_frame(key, version, 7, "bench", body, flexible=API_TABLE[key].is_flexible(version))


def answer_in(frame: bytes, request: Request[Any], version: int) -> Any:
    """The answer, which has to be one without an error, but for that of a first JoinGroup."""
    key = type(request).info.api_key
    assert key is not None
    body_at = 9 if API_TABLE[key].is_flexible(version) and key != API_VERSIONS else 8
    answer = codec(API_TABLE[key].response_class(), version).parse(frame, body_at)[0]
    assert set(errors_in(answer)) <= {ErrorCode.MEMBER_ID_REQUIRED}, answer
    return answer


class Member(NamedTuple):
    group_id: str
    member_id: str
    generation_id: int


def join_request(group_id: str, member_id: str = "", instance_id: str | None = None) -> JoinGroupRequest:
    subscription = b"\0\1\0\0\0\1\0\5bench\xff\xff\xff\xff\0\0\0\0"
    return JoinGroupRequest(
        group_id=group_id,
        session_timeout_ms=30_000,
        rebalance_timeout_ms=60_000,
        member_id=member_id,
        group_instance_id=instance_id,
        protocol_type="consumer",
        protocols=(JoinGroupRequestProtocol(name="range", metadata=subscription),),
    )


def _assignments(leader: JoinGroupResponse) -> tuple[SyncGroupRequestAssignment, ...]:
    assignment = b"\0\1\0\0\0\1\0\5bench\0\0\0\1\0\0\0\1"
    members = leader.members
    return tuple(SyncGroupRequestAssignment(member_id=each.member_id, assignment=assignment) for each in members)


def group_of(broker: AnyBroker, group_id: str, size: int) -> list[Member]:
    """A stable group of new members, each on a connection of its own."""
    peers = [broker.peer() for _ in range(size)]
    requests = []
    for peer in peers:
        first = peer.ask(join_request(group_id), 9)
        requests.append(join_request(group_id, first.member_id))
    joined = [peer.ask(request, 9) for peer, request in zip(peers, requests, strict=True)]
    if size > 1:  # the first has joined alone, and the others wait for it to join again
        joined[0] = peers[0].ask(requests[0], 9)
        broker.pass_time()
        joined = [
            answer or peer.awaited(request, 9) for peer, request, answer in zip(peers, requests, joined, strict=True)
        ]
    leader = next(answer for answer in joined if answer.leader == answer.member_id)
    for peer, answer in sorted(zip(peers, joined, strict=True), key=lambda pair: pair[1] is leader):
        request = SyncGroupRequest(
            group_id=group_id,
            generation_id=answer.generation_id,
            member_id=answer.member_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=_assignments(leader) if answer is leader else (),
        )
        peer.ask(request, 5)
    return [Member(group_id, answer.member_id, answer.generation_id) for answer in joined]


# What is measured: from a broker to what is done once a request


def _repeated(broker: AnyBroker, requests: list[Request[Any]], version: int) -> Callable[[], object]:
    peer = broker.peer()
    for request in requests:
        peer.ask(request, version)
    following = cycle([frame_of(request, version) for request in requests])
    return lambda: peer.send(next(following))


def heartbeat(broker: AnyBroker) -> Callable[[], object]:
    member = group_of(broker, "one", 1)[0]
    request = HeartbeatRequest(group_id="one", generation_id=member.generation_id, member_id=member.member_id)
    return _repeated(broker, [request], 4)


def consumer_heartbeat(broker: AnyBroker) -> Callable[[], object]:
    """A member of a group of the new protocol, which has what it is to have."""
    peer, member = broker.peer(), ConsumerMember("consumers", TOPIC)
    while member.take(peer.ask(member.request(), CONSUMER_VERSION)):
        pass
    return _repeated(broker, [member.request()], CONSUMER_VERSION)


def commit_requests(
    member: Member, partition_count: int, metadata: str = "", *, topic: str = TOPIC, first: int = 0
) -> list[Request[Any]]:
    """OffsetCommits that follow each other, of partitions from `first` on."""
    return [
        OffsetCommitRequest(
            group_id=member.group_id,
            generation_id_or_member_epoch=member.generation_id,
            member_id=member.member_id,
            topics=(
                OffsetCommitRequestTopic(
                    name=topic,
                    partitions=tuple(
                        OffsetCommitRequestPartition(
                            partition_index=index, committed_offset=1000 + number, committed_metadata=metadata
                        )
                        for index in range(first, first + partition_count)
                    ),
                ),
            ),
        )
        for number in range(16)
    ]


def commit(partition_count: int, metadata: str = "") -> Callable[[AnyBroker], Callable[[], object]]:
    return lambda broker: _repeated(
        broker, commit_requests(group_of(broker, "one", 1)[0], partition_count, metadata), 8
    )


def fetch_offsets(partition_count: int) -> Callable[[AnyBroker], Callable[[], object]]:
    def measure(broker: AnyBroker) -> Callable[[], object]:
        broker.peer().ask(commit_requests(group_of(broker, "one", 1)[0], partition_count)[0], 8)
        topics = (OffsetFetchRequestTopic(name=TOPIC, partition_indexes=tuple(range(partition_count))),)
        return _repeated(broker, [OffsetFetchRequest(group_id="one", topics=topics)], 7)

    return measure


def records_alike(record_count: int) -> bytes:
    """A batch of records of one length."""
    return build_batch([Record(None, b"x" * 100, timestamp_ms=WALL_MS) for _ in range(record_count)])


def _varied_records(record_count: int) -> bytes:
    """With keys of one length, values of many, and 40 ms from the first to the last."""
    return build_batch(
        [
            Record(
                b"key-%06d" % number, b"x" * (70 + number * 37 % 61), timestamp_ms=WALL_MS + number * 40 // record_count
            )
            for number in range(record_count)
        ]
    )


def produce_request(batch: bytes, topic: str = TOPIC, index: int = 0) -> Request[Any]:
    """A Produce of one batch."""
    data = TopicProduceData(name=topic, partition_data=(PartitionProduceData(index=index, records=batch),))
    return ProduceRequest(acks=-1, timeout_ms=1000, topic_data=(data,))


def produce(batch: bytes) -> Callable[[AnyBroker], Callable[[], object]]:
    return lambda broker: _repeated(broker, [produce_request(batch)], 9)


def fetch(broker: AnyBroker) -> Callable[[], object]:
    peer = broker.peer()
    for _ in range(64):
        peer.ask(produce_request(records_alike(150)), 9)
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    request = FetchRequest(
        max_wait_ms=0, min_bytes=1, topics=(FetchTopic(topic=TOPIC, partitions=(partition,)),), session_epoch=-1
    )
    return _repeated(broker, [request], 12)


def small_fetch(broker: AnyBroker) -> Callable[[], object]:
    """A record that is there already, without a session."""
    broker.peer().ask(produce_request(records_alike(1)), 9)
    return _repeated(broker, [_fetch_request(0)], 12)


def end_to_end(broker: AnyBroker) -> Callable[[], object]:
    """A record from its producer to a consumer that waits for it: a Produce, and a Fetch."""
    producer, consumer = broker.peer(), broker.peer()
    produced = frame_of(produce_request(records_alike(1)), 9)
    offsets = count()

    def go() -> None:
        consumer.put(frame_of(_fetch_request(next(offsets)), 12))
        producer.send(produced)
        assert consumer.sent()

    return go


def end_to_end_in_session(broker: AnyBroker) -> Callable[[], object]:
    """The same, for a consumer with a session."""
    producer, consumer = broker.peer(), broker.peer()
    produced = frame_of(produce_request(records_alike(1)), 9)
    session_id = consumer.ask(_fetch_request(0, max_wait_ms=0, session_epoch=0), 12).session_id
    offsets = count()

    def go() -> None:
        offset = next(offsets)
        consumer.put(frame_of(_fetch_request(offset, session_id=session_id, session_epoch=offset + 1), 12))
        producer.send(produced)
        assert consumer.sent()

    return go


def _fetch_request(offset: int, max_wait_ms: int = 500, session_id: int = 0, session_epoch: int = -1) -> FetchRequest:
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        topics=(FetchTopic(topic=TOPIC, partitions=(partition,)),),
        session_id=session_id,
        session_epoch=session_epoch,
    )


def api_versions(broker: AnyBroker) -> Callable[[], object]:
    request = ApiVersionsRequest(client_software_name="bench", client_software_version="1")
    return _repeated(broker, [request], 3)


def small_metadata(broker: AnyBroker) -> Callable[[], object]:
    broker.create_topic("small", 1)
    return _repeated(broker, [MetadataRequest(topics=(MetadataRequestTopic(name="small"),))], 12)


def metadata(broker: AnyBroker) -> Callable[[], object]:
    return _repeated(broker, [MetadataRequest(topics=(MetadataRequestTopic(name=TOPIC),))], 12)


def join(size: int) -> Callable[[AnyBroker], Callable[[], object]]:
    def measure(broker: AnyBroker) -> Callable[[], object]:
        numbers = count()
        return lambda: group_of(broker, f"group-{next(numbers)}", size)

    return measure


def new_group(broker: AnyBroker) -> Callable[[], object]:
    """As `join(1)`, but every log is open and other members have come before."""
    for number in range(300):
        group_of(broker, f"earlier-{number}", 1)
    return join(1)(broker)


def static_back(broker: AnyBroker) -> Callable[[], object]:
    """One of 100 static members of a stable group comes back without its member id."""
    peers = [broker.peer() for _ in range(_STATIC)]
    requests = [join_request("static", instance_id=f"instance-{number}") for number in range(_STATIC)]
    first = peers[0].ask(requests[0], 9)
    joined = [first, *(peer.ask(request, 9) for peer, request in zip(peers[1:], requests[1:], strict=True))]
    joined[0] = peers[0].ask(join_request("static", first.member_id, "instance-0"), 9)
    broker.pass_time()
    joined = [answer or peer.awaited(requests[0], 9) for peer, answer in zip(peers, joined, strict=True)]
    leader = next(answer for answer in joined if answer.leader == answer.member_id)
    sync = SyncGroupRequest(
        group_id="static",
        generation_id=leader.generation_id,
        member_id=leader.member_id,
        group_instance_id="instance-0",
        protocol_type="consumer",
        protocol_name="range",
        assignments=_assignments(leader),
    )
    peers[joined.index(leader)].ask(sync, 5)
    following = cycle([frame_of(request, 9) for request in requests])
    peer = broker.peer()
    return lambda: peer.send(next(following))


def leave(broker: AnyBroker) -> Callable[[], object]:
    """One of many members of a group of the new protocol goes; each has what it is to have."""
    broker.create_topic("wide", 2 * _LEAVING)
    peer = broker.peer()
    members = [ConsumerMember("consumers", "wide") for _ in range(_LEAVING)]
    has_news = True
    while has_news:
        has_news = sum(member.take(peer.ask(member.request(), CONSUMER_VERSION)) for member in members) > 0
    assert sum(len(member.owned) for member in members) == 2 * _LEAVING
    following = iter(members)

    def go() -> None:
        member = next(following)
        member.leave()
        member.take(peer.ask(member.request(), CONSUMER_VERSION))

    return go


def list_groups(broker: AnyBroker) -> Callable[[], object]:
    for number in range(1000):
        group_of(broker, f"group-{number}", 1)
    return _repeated(broker, [ListGroupsRequest()], 4)


class Measure(NamedTuple):
    """`prepare(broker)` gives what is done once a request, `repeats` times."""

    prepare: Callable[[AnyBroker], Callable[[], object]]
    repeats: int


MEASURES: Final = {
    "heartbeat": Measure(heartbeat, 1000),
    "consumer-heartbeat": Measure(consumer_heartbeat, 600),
    "commit-1": Measure(commit(1), 400),
    "commit-10": Measure(commit(10), 200),
    "commit-100": Measure(commit(100), 60),
    "commit-10-metadata": Measure(commit(10, "of some use"), 200),
    "offset-fetch-1": Measure(fetch_offsets(1), 400),
    "offset-fetch-10": Measure(fetch_offsets(10), 200),
    "offset-fetch-100": Measure(fetch_offsets(100), 60),
    "produce-1": Measure(produce(records_alike(1)), 300),
    "produce-150": Measure(produce(records_alike(150)), 100),
    "produce-150-varied": Measure(produce(_varied_records(150)), 100),
    "fetch-1": Measure(small_fetch, 300),
    "fetch-1-mib": Measure(fetch, 100),
    "end-to-end": Measure(end_to_end, 200),
    "end-to-end-session": Measure(end_to_end_in_session, 200),
    "api-versions": Measure(api_versions, 300),
    "metadata-1": Measure(small_metadata, 300),
    "metadata": Measure(metadata, 100),
    "join-1": Measure(join(1), 60),
    "join-100": Measure(join(100), 3),
    "join-1000": Measure(join(1000), 1),
    "new-group": Measure(new_group, 200),
    "static-back": Measure(static_back, 100),
    "leave": Measure(leave, 280),
    "list-1000-groups": Measure(list_groups, 10),
}


def prepared(name: str, folder: str) -> Callable[[], object]:
    """What is done once a request, after a warm-up."""
    measure = MEASURES[name]
    act = measure.prepare(Broker(f"{folder}/data"))
    for _ in range(min(WARM, measure.repeats)):
        act()
    gc.collect()
    gc.freeze()  # as `kshim serve` does: else a look for garbage more or less in what there is shows as 3 %
    gc.set_threshold(5_000, 10, 10)
    return act


def play(names: Sequence[str]) -> None:
    """Do each measure in a process of its own, which forks twice when it is warm: to do nothing, and the requests.

    Printed of each: its name and the ids of these two.
    """
    for name in names:
        _forked(partial(_play, name))


def _play(name: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        act = prepared(name, folder)
        idle, busy = (_forked(partial(_repeat, act, repeats)) for repeats in (0, MEASURES[name].repeats))
        print(name, idle, busy, flush=True)


def _repeat(act: Callable[[], object], repeats: int) -> None:
    for _ in range(repeats):
        act()


def _forked(act: Callable[[], None]) -> int:
    """The id of a process that did that, and no more."""
    process_id = os.fork()
    if process_id == 0:
        status = 1
        try:
            act()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    if os.waitpid(process_id, 0)[1]:
        raise SystemExit(1)
    return process_id


def count_instructions(names: Sequence[str]) -> None:
    """Print those of each measure as soon as they are known."""
    if shutil.which("valgrind") is None:
        raise SystemExit("Counting instructions needs valgrind, which is not installed.")
    command = ["valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null", sys.executable]
    arguments = ["-m", "bench.instructions", "--play", "--measures", *names]
    spent: dict[str, int] = {}  # by process id
    others = []
    with subprocess.Popen(
        [*command, *arguments],
        env={**os.environ, "PYTHONHASHSEED": "0"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as playing:
        assert playing.stdout is not None
        for line in playing.stdout:
            if found := re.match(r"==(\d+)== I +refs: +([\d,]+)", line):
                spent[found[1]] = int(found[2].replace(",", ""))
            elif found := re.match(r"(\S+) (\d+) (\d+)\n", line):
                thousands = (spent[found[3]] - spent[found[2]]) / MEASURES[found[1]].repeats / 1000
                print(f"{found[1]:20} {thousands:9.1f} thousand instructions", flush=True)
            else:
                others.append(line)
    if playing.returncode:
        raise SystemExit("".join(others))


def print_profile(name: str) -> None:
    profile = cProfile.Profile()
    with tempfile.TemporaryDirectory() as folder:
        act = prepared(name, folder)
        profile.runcall(_repeat, act, MEASURES[name].repeats)
    print(name)
    pstats.Stats(profile).sort_stats("tottime").print_stats(25)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--measures", nargs="+", choices=MEASURES, default=list(MEASURES))
    parser.add_argument("--profile", action="store_true", help="cProfile instead, of the slowest functions")
    parser.add_argument("--play", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.play:
        play(options.measures)
    elif options.profile:
        for name in options.measures:
            print_profile(name)
    else:
        count_instructions(options.measures)


if __name__ == "__main__":
    main()
