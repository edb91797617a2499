"""Takes partitions from where they are and writes them, or nothing at all."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TextIO

from kshim.tools.client import PLAINTEXT
from kshim.tools.client_security import Security
from kshim.tools.import_logs.identity import (
    KEPT_FOR_EVER,
    OFFSETS_CONFIGS,
    meta_properties,
    new_id,
    topic_row,
    topics_json,
)
from kshim.tools.import_logs.target import PartitionWriter, Target
from kshim.tools.logs import SourceError
from kshim.tools.logs.broker import BrokerLogs
from kshim.tools.logs.folder import FolderLogs
from kshim.tools.logs.source import opened
from kshim_protocol.records.scan import Damage

OFFSETS_TOPIC = "__consumer_offsets"


class _Copied:
    """What was copied of one topic."""

    def __init__(self) -> None:
        self.batch_count = 0
        self.record_count = 0
        self.size_bytes = 0


def run_import(
    *,
    directories: Sequence[str] = (),
    bootstrap_server: tuple[str, int] | None = None,
    security: Security = PLAINTEXT,
    data_dir: str,
    topics: Sequence[str] = (),
    messages: TextIO | None = None,
) -> None:
    """Copy the offsets topic, and `topics`, into `data_dir`, which must not hold anything.

    Whole or not at all: on any error nothing stays. A torn write at the end of a log is left out and reported.
    Raises SourceError, TargetError.
    """
    messages = messages or sys.stderr
    with opened(directories, bootstrap_server, client_id="import", security=security) as logs:
        _import(logs, data_dir, topics, messages)
        print(f"imported from {logs}; start it with: kshim serve --data-dir {data_dir}", file=messages)


def _import(logs: BrokerLogs | FolderLogs, data_dir: str, topics: Sequence[str], messages: TextIO) -> None:
    wanted = list(dict.fromkeys((OFFSETS_TOPIC, *topics)))
    partitions = {topic: _all_partitions(logs, topic) for topic in wanted}
    target = Target(data_dir)
    try:
        rows = []
        for topic in wanted:
            topic_id = logs.topic_id(topic) or new_id()
            rows.append(topic_row(topic, topic_id, partitions[topic], _configs(logs, topic, messages)))
            copied = _copy(logs, topic, partitions[topic], topic_id, target, messages)
            print(
                f"{topic}: {partitions[topic]} partitions, {copied.batch_count} batches, {copied.record_count} "
                f"records, {copied.size_bytes} bytes",
                file=messages,
            )
        target.write_file("meta.properties", meta_properties(logs.cluster_id()))
        target.write_file("topics.json", topics_json(rows))
        target.finish()
    except BaseException:
        target.abandon()
        raise


def _all_partitions(logs: BrokerLogs | FolderLogs, topic: str) -> int:
    """How many partitions a topic has; a topic with missing partitions is refused, because it could not be served."""
    found = logs.partitions(topic)
    missing = sorted(set(range(found[-1] + 1)) - set(found))
    if missing:
        listed = ", ".join(map(str, missing[:5])) + (", ..." if len(missing) > 5 else "")
        raise SourceError(f"{logs} lacks partitions {listed} of {topic}: all directories of the broker are needed")
    return len(found)


def _configs(logs: BrokerLogs | FolderLogs, topic: str, messages: TextIO) -> dict[str, str]:
    configs = logs.configs(topic)
    if topic == OFFSETS_TOPIC:
        return {**OFFSETS_CONFIGS, **(configs or {})}
    if configs is None:
        print(
            f"the folders of {topic} do not contain its configuration: its records will be retained for ever",
            file=messages,
        )
        return dict(KEPT_FOR_EVER)
    return configs


def _copy(
    logs: BrokerLogs | FolderLogs, topic: str, partition_count: int, topic_id: str, target: Target, messages: TextIO
) -> _Copied:
    copied = _Copied()
    for partition in range(partition_count):
        writer = target.partition(topic, partition, topic_id)
        try:
            _copy_partition(logs, topic, partition, writer, copied, messages)
        finally:
            writer.abandon()
    return copied


def _copy_partition(
    logs: BrokerLogs | FolderLogs,
    topic: str,
    partition: int,
    writer: PartitionWriter,
    copied: _Copied,
    messages: TextIO,
) -> None:
    for found in logs.read(topic, partition):
        if not isinstance(found, Damage):
            writer.append(found)
            copied.batch_count += 1
            copied.record_count += found.header.record_count
            copied.size_bytes += len(found.data)
        elif found.is_tail:
            print(
                f"skipped an incomplete write of {found.size_bytes} bytes, {found.place}: {found.reason}", file=messages
            )
        else:
            raise SourceError(f"{found.size_bytes} damaged bytes, {found.place}: {found.reason}")
    writer.close(logs.end_offset(topic, partition))
