"""Reads the topic from where it was said to be, and writes its documents."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Literal, TextIO

from kshim.tools.client import PLAINTEXT
from kshim.tools.client_security import Security
from kshim.tools.dump_offsets.records import PartitionDump, Tally
from kshim.tools.dump_offsets.text import lines_of
from kshim.tools.logs import SourceError
from kshim.tools.logs.broker import BrokerLogs
from kshim.tools.logs.folder import FolderLogs
from kshim.tools.logs.source import opened
from kshim.wording import counted
from kshim_protocol.internal.record_types import RECORD_TYPES, SHARE_STATE_TYPES

OFFSETS_TOPIC = "__consumer_offsets"
TYPES_BY_TOPIC = {OFFSETS_TOPIC: RECORD_TYPES, "__share_group_state": SHARE_STATE_TYPES}
"""The topics that can be read."""
OutputFormat = Literal["text", "json"]


def run_dump_offsets(
    *,
    directories: Sequence[str] = (),
    bootstrap_server: tuple[str, int] | None = None,
    security: Security = PLAINTEXT,
    topic: str = OFFSETS_TOPIC,
    group: str | None = None,
    partition: int | None = None,
    start: int = 0,
    end: int | None = None,
    output: OutputFormat = "text",
    stream: TextIO | None = None,
    messages: TextIO | None = None,
) -> int:
    """Write every record of `topic`, one of TYPES_BY_TOPIC, to `stream` (stdout) and what was counted to `messages` (stderr).

    Returns 0 when everything could be decoded, else 1. Raises SourceError when there is no such topic or partition.
    """
    stream, messages = stream or sys.stdout, messages or sys.stderr
    tally = Tally()
    with opened(directories, bootstrap_server, client_id="dump-offsets", security=security) as logs:
        _dump(logs, tally, stream, topic=topic, group=group, partition=partition, start=start, end=end, output=output)
    _tell(tally, messages, max(TYPES_BY_TOPIC[topic]))
    return 1 if tally.problem_count else 0


def _dump(
    logs: BrokerLogs | FolderLogs,
    tally: Tally,
    stream: TextIO,
    *,
    topic: str,
    group: str | None,
    partition: int | None,
    start: int,
    end: int | None,
    output: OutputFormat,
) -> None:
    wanted = logs.partitions(topic)
    if partition is not None:
        if partition not in wanted:
            raise SourceError(f"{logs} has no partition {partition} of {topic}")
        wanted = [partition]
    for index in wanted:
        part = PartitionDump(index, tally, types=TYPES_BY_TOPIC[topic], group=group, start=start, end=end)
        for document in part.documents(logs.read(topic, index, start)):
            if output == "json":
                stream.write(json.dumps(document, ensure_ascii=False, separators=(",", ":")) + "\n")
            else:
                for line in lines_of(document):
                    stream.write(line + "\n")
    stream.flush()


def _tell(tally: Tally, messages: TextIO, last_type: int) -> None:
    print(
        f"{counted(tally.partition_count, 'partition')}, {counted(tally.batch_count, 'batch', 'batches')}, {counted(tally.record_count, 'record')}, including "
        f"{counted(tally.tombstone_count, 'tombstone')} and {counted(tally.marker_count, 'transaction marker')}",
        file=messages,
    )
    for number, count in sorted(tally.unknown_types.items()):
        print(f"WARNING: {counted(count, 'record')} of key type {number}, which is unknown", file=messages)
    if tally.unknown_version_count:
        known = f"key types 0 to {last_type} in the versions of Kafka 4.4"
        print(
            f"{counted(tally.unknown_version_count, 'value')} of an unknown version; known are {known}", file=messages
        )
    if tally.malformed_count:
        print(f"{tally.malformed_count} records or batches that are malformed", file=messages)
    if tally.damage_count:
        print(f"{tally.damage_count} places with damaged bytes", file=messages)
