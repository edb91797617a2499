"""Whether a broker kept its promises, asked over the wire; and torn writes."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from integration.durability.ledger import Promises
from integration.support.broker import Deadline
from integration.support.client import TopicPartition
from kshim.tools.client import BrokerGone, Client
from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.describe_groups import DescribeGroupsRequest
from kshim_protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kshim_protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from kshim_protocol.records.batch import iter_batches
from kshim_protocol.records.record import iter_records

_LOADING = {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR}


class Checker:
    """Reads what a broker has; every record once."""

    def __init__(self, bootstrap: str) -> None:
        self._host, _, port = bootstrap.rpartition(":")
        self._port = int(port)
        self._positions: dict[TopicPartition, int] = {}
        self._values: dict[TopicPartition, dict[int, bytes]] = {}

    def assignments(self, group_id: str) -> dict[str, bytes] | None:
        """member id -> assignment of a Stable group; None while it is not Stable."""
        deadline = Deadline(30)
        while True:
            deadline.check(f"{group_id} is described")
            with _connection(self._host, self._port) as client:
                group = client.ask(DescribeGroupsRequest(groups=(group_id,)), 5).groups[0]
            if group.error_code in _LOADING:
                time.sleep(0.005)
                continue
            assert group.error_code == ErrorCode.NONE, ErrorCode(group.error_code)
            if group.group_state != "Stable":
                return None
            return {member.member_id: member.member_assignment for member in group.members}

    def require(self, promises: Promises) -> None:
        """Everything promised is there."""
        for group_id, offsets in promises.commits.items():
            found = self._committed(group_id, offsets)
            for partition, offset in offsets.items():
                assert found.get(partition, -1) >= offset, (
                    f"{group_id}: the commit of {offset} for {partition} was acknowledged, "
                    f"the broker has {found.get(partition)}"
                )
        for partition, records in promises.records.items():
            self._read_on(partition)
            values = self._values.setdefault(partition, {})
            for offset, value in records.items():
                assert values.pop(offset, None) == value, f"{value!r} was acknowledged at {partition}, offset {offset}"

    def end_of(self, partition: TopicPartition) -> int:
        """Where the partition ends, reading it to there."""
        self._read_on(partition)
        return self._positions.get(partition, 0)

    def _committed(self, group_id: str, offsets: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
        topics: dict[str, list[int]] = {}
        for partition in offsets:
            topics.setdefault(partition.topic, []).append(partition.partition)
        request = OffsetFetchRequest(
            groups=(
                OffsetFetchRequestGroup(
                    group_id=group_id,
                    topics=tuple(
                        OffsetFetchRequestTopics(name=name, partition_indexes=tuple(indexes))
                        for name, indexes in topics.items()
                    ),
                ),
            )
        )
        deadline = Deadline(30)
        while True:
            deadline.check(f"the offsets of {group_id} are answered")
            with _connection(self._host, self._port) as client:
                group = client.ask(request, 8).groups[0]
            if group.error_code in _LOADING:
                time.sleep(0.005)
                continue
            assert group.error_code == ErrorCode.NONE, ErrorCode(group.error_code)
            return {
                TopicPartition(topic.name, row.partition_index): row.committed_offset
                for topic in group.topics
                for row in topic.partitions
            }

    def _read_on(self, partition: TopicPartition) -> None:
        values = self._values.setdefault(partition, {})
        with _connection(self._host, self._port) as client:
            while True:
                position = self._positions.get(partition, 0)
                wanted = FetchPartition(
                    partition=partition.partition, fetch_offset=position, partition_max_bytes=1 << 20
                )
                request = FetchRequest(
                    max_wait_ms=0,
                    min_bytes=0,
                    max_bytes=1 << 24,
                    session_epoch=-1,
                    topics=(FetchTopic(topic=partition.topic, partitions=(wanted,)),),
                    forgotten_topics_data=(),
                )
                answer = client.ask(request, 12).responses[0].partitions[0]
                assert answer.error_code == ErrorCode.NONE, f"{partition}: {ErrorCode(answer.error_code).name}"
                for batch in iter_batches(answer.records or b""):
                    for record in iter_records(batch):
                        if record.offset >= position:
                            values[record.offset] = record.value or b""
                            self._positions[partition] = record.offset + 1
                if self._positions.get(partition, 0) >= answer.high_watermark:
                    return


@contextmanager
def _connection(host: str, port: int) -> Iterator[Client]:
    """A connection, waited for until the broker takes it."""
    deadline = Deadline(30)
    while True:
        try:
            client = Client(host, port, client_id="checker")
            break
        except BrokerGone:
            deadline.check("the broker accepts connections")
            time.sleep(0.005)
    try:
        yield client
    finally:
        client.close()


def tear(data_directory: Path, chance: random.Random) -> str | None:
    """Behind the last batch of some log, leave the beginning of another, as a write that was cut short does.

    Returns what was done, or None when no log holds anything.
    """
    newest = [max(paths) for folder in data_directory.glob("*-*") if (paths := list(folder.glob("*.log")))]
    logs = [path for path in newest if path.stat().st_size]  # nobody writes to any other segment
    if not logs:
        return None
    path = chance.choice(sorted(logs))
    last = list(iter_batches(path.read_bytes()))[-1]
    size = chance.randrange(1, len(last))
    with path.open("ab") as file:
        file.write(last[:size])
    return f"{size} of {len(last)} bytes at the end of {path.name} of {path.parent.name}"
