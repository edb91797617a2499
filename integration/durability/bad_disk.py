"""A real server in this process over a disk that fails as it is told, and clients that commit and produce meanwhile."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Queue
from typing import Any

import trio

from kshim.broker.cluster import Cluster, RandomIds
from kshim.broker.node import Node
from kshim.broker.router import Router
from kshim.config.broker_config import BrokerConfig
from kshim.partitions.durability import FsyncPolicy
from kshim.server.clock import RealClock
from kshim.server.random_ids import new_member_suffix, new_topic_id
from kshim.server.server import Server, serve
from kshim.storage.directory import DataDirectory
from kshim.storage.os_calls import OsCalls
from kshim.storage.stores import DirectoryStorage
from kshim.tools.client import Client
from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.broker.data_plane import a_batch, produce_of

TOPIC = "orders"


@contextmanager
def running_broker(folder: Path, fsync: FsyncPolicy, calls: OsCalls, defects: list[BaseException]) -> Iterator[int]:
    """Serves until the block ends, then ends cleanly; yields the port."""
    directory = DataDirectory.open(str(folder), cluster_id="dGVzdC1jbHVzdGVyLWlkMA", node_id=1, calls=calls)
    cluster = Cluster(
        BrokerConfig({"offsets.topic.num.partitions": "10"}),
        DirectoryStorage(directory),
        RandomIds(new_member_suffix, new_topic_id),
        cluster_id=directory.cluster_id,
        fsync=fsync,
        fsync_interval_ms=5,
        on_defect=lambda error, _request: defects.append(error),
        on_corrupt=defects.append,
    )
    if TOPIC not in cluster.topics:
        cluster.create_topic(TOPIC, 2)
    router = Router(Node(cluster, 1, "127.0.0.1", 0))
    cluster.start(RealClock().now)
    started: Queue[tuple[Server, trio.lowlevel.TrioToken]] = Queue()

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            server: Server = await nursery.start(_serve, router)
            started.put((server, trio.lowlevel.current_trio_token()))

    thread = threading.Thread(target=trio.run, args=(main,))
    thread.start()
    server, token = started.get(timeout=10)
    try:
        yield server.port
    finally:
        token.run_sync_soon(server.stop)
        thread.join(timeout=20)
        assert not thread.is_alive(), "the server does not end"
        cluster.close()


async def _serve(router: Router, *, task_status: trio.TaskStatus[Server] = trio.TASK_STATUS_IGNORED) -> None:
    await serve(router, host="127.0.0.1", port=0, task_status=task_status)


class _Load(ABC, threading.Thread):
    """Sends one request after the other until told to stop; counts what is `answered`, and what of it is `refused`."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self.stopping = threading.Event()
        self.answered = 0
        self.refused = 0
        self.errors: set[ErrorCode] = set()
        self.failure: BaseException | None = None
        self._client = Client("127.0.0.1", port, client_id="load")

    def run(self) -> None:
        try:
            while not self.stopping.is_set():
                error = ErrorCode(self._one(self._client))
                self.errors.add(error)
                self.refused += error != ErrorCode.NONE
                self.answered += 1
        except BaseException as failure:
            self.failure = failure
        self._client.close()

    def stop(self) -> None:
        """Wait for its end. Raises what it ended with."""
        self.stopping.set()
        self.join(timeout=20)
        assert not self.is_alive(), "a request that is never answered"
        if self.failure is not None:
            raise self.failure

    @abstractmethod
    def _one(self, client: Client) -> int:
        """Ask once, and note what was acknowledged; the error code."""


class Committer(_Load):
    """Commits rising offsets for a group; `acknowledged` is the last one that the broker took."""

    def __init__(self, port: int, group_id: str) -> None:
        super().__init__(port)
        self.group_id = group_id
        self.acknowledged = -1
        self._next = 0

    def _one(self, client: Client) -> int:
        offset, self._next = self._next, self._next + 1
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="")
        topics = (OffsetCommitRequestTopic(name=TOPIC, partitions=(partition,)),)
        answer: Any = client.ask(OffsetCommitRequest(group_id=self.group_id, member_id="", topics=topics), 2)
        error: int = answer.topics[0].partitions[0].error_code
        if not error:
            self.acknowledged = offset
        return error


class Producer(_Load):
    """Produces numbered records to a partition; `acknowledged` holds value by offset."""

    def __init__(self, port: int, index: int) -> None:
        super().__init__(port)
        self.index = index
        self.acknowledged: dict[int, bytes] = {}
        self._next = 0

    def _one(self, client: Client) -> int:
        value = b"%d" % self._next
        self._next += 1
        answer: Any = client.ask(produce_of(TOPIC, a_batch(value), first_partition=self.index), 12)
        (produced,) = answer.responses[0].partition_responses
        if not produced.error_code:
            self.acknowledged[produced.base_offset] = value
        error: int = produced.error_code
        return error
