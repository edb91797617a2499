"""How many records of `__consumer_offsets` Spark decodes in a second on two cores.

80 % are OffsetCommit v4, 20 % GroupMetadata v3 with one to six members, each with a subscription of two topics and an
assignment of six partitions. Records lie in Parquet; what is decoded is read to the last column and thrown away. Beside
it: reading the same Parquet without decoding, which is the floor, and the decoder alone on one core without Spark. And what landed
records cost, whose columns lie beside their bytes: writing them, once, with and without the columns, and reading all of them, or
those that the tables commits and generations are made of.

    python -m bench.pipeline_decode --records 2000000
"""

from __future__ import annotations

import argparse
import contextlib
import random
import resource
import statistics
import struct
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import functions as F

from kshim_pipeline.decode import decode, decode_batches, decode_files
from kshim_pipeline.decode.rows import decode_row
from kshim_pipeline.land.writing import write
from kshim_pipeline.records import DECODED, STORED
from kshim_pipeline.setup.session import make_session
from kshim_protocol.codec import codec
from kshim_protocol.internal.consumer import ConsumerProtocolAssignment, ConsumerProtocolSubscription, TopicPartition
from kshim_protocol.internal.group_metadata import GroupMetadataValue, MemberMetadata
from kshim_protocol.internal.records import (
    build_group_metadata_key,
    build_group_metadata_value,
    build_offset_commit_key,
    build_offset_commit_value,
)
from kshim_protocol.schema import Struct

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

GROUPS = 2_000
PER_FILE = 100_000


def behind_version(version: int, found: Struct) -> bytes:
    """An object of the consumer protocol as it travels."""
    return struct.pack(">h", version) + codec(type(found), version).build(found)


def a_commit(draw: random.Random) -> tuple[bytes, bytes]:
    """Key and value of one commit."""
    group = f"group-{draw.randrange(GROUPS):05}"
    value = build_offset_commit_value(
        offset=draw.randrange(1 << 40), leader_epoch=3, metadata="", commit_timestamp_ms=1_790_000_000_000
    )
    return build_offset_commit_key(group, f"orders-{draw.randrange(20)}", draw.randrange(48)), value


def a_member(draw: random.Random) -> MemberMetadata:
    """One consumer, its ids as long as those of real clients."""
    client = f"consumer-group-{draw.randrange(GROUPS)}-1"
    topics = ("orders-1", "payments-2")
    pairs = tuple(TopicPartition(topic=topic, partitions=tuple(draw.sample(range(48), 3))) for topic in topics)
    return MemberMetadata(
        member_id=f"{client}-{draw.getrandbits(128):032x}",
        client_id=client,
        client_host="/10.17.3.201",
        rebalance_timeout=300_000,
        session_timeout=45_000,
        subscription=behind_version(1, ConsumerProtocolSubscription(topics=topics)),
        assignment=behind_version(1, ConsumerProtocolAssignment(assigned_partitions=pairs)),
    )


def a_group(draw: random.Random) -> tuple[bytes, bytes]:
    """Key and value of one generation."""
    members = tuple(a_member(draw) for _ in range(draw.randint(1, 6)))
    value = GroupMetadataValue(
        protocol_type="consumer",
        generation=draw.randrange(10_000),
        protocol="range",
        leader=members[0].member_id,
        current_state_timestamp=1_790_000_000_000,
        members=members,
    )
    return build_group_metadata_key(f"group-{draw.randrange(GROUPS):05}"), build_group_metadata_value(value)


def write_records(home: Path, count: int) -> None:
    """Parquet files with `count` records, mixed."""
    draw = random.Random(1)
    commits = [a_commit(draw) for _ in range(20_000)]
    groups = [a_group(draw) for _ in range(5_000)]
    for first in range(0, count, PER_FILE):
        size = min(PER_FILE, count - first)
        records = [draw.choice(groups) if draw.random() < 0.2 else draw.choice(commits) for _ in range(size)]
        table = pa.table(
            {
                "topic": pa.array(["__consumer_offsets"] * size),
                "partition": pa.array([first // PER_FILE % 50] * size, pa.int32()),
                "offset": pa.array(range(first, first + size), pa.int64()),
                "timestamp_ms": pa.array([1_790_000_000_000] * size, pa.int64()),
                "key": pa.array([key for key, _ in records], pa.binary()),
                "value": pa.array([value for _, value in records], pa.binary()),
                "source": pa.array(["bench"] * size),
            }
        )
        pq.write_table(table, home / f"{first:09}.parquet")


def seconds(frame: DataFrame) -> tuple[float, float]:
    """How long it takes to make every column of every row: by the clock, and of CPU, in all processes."""
    start, spent = time.perf_counter(), cpu_seconds()
    frame.write.format("noop").mode("overwrite").save()
    return time.perf_counter() - start, cpu_seconds() - spent


COMMIT_COLUMNS = (
    *("kind", "partition", "offset", "group_id", "committed_topic", "committed_partition", "committed_offset"),
    *("leader_epoch", "commit_timestamp_ms", "timestamp_ms"),
)
GROUP_COLUMNS = (
    *("kind", "partition", "offset", "group_id", "protocol_type", "generation_id", "protocol_name", "leader_id"),
    *("state_timestamp_ms", "timestamp_ms", "members"),
)


def land(spark: SparkSession, records: DataFrame, home: Path, *, with_columns: bool) -> str:
    """Write them as `land` does, or without columns as it did; what that costs, in a sentence."""
    count, start, spent = records.count(), time.perf_counter(), cpu_seconds()
    if with_columns:
        write(spark, records, str(home))
    else:
        few = records.withColumn("day", F.to_date(F.timestamp_millis("timestamp_ms"))).coalesce(2)
        few.write.partitionBy("topic", "day").parquet(str(home))
    clock_s, cpu_s = time.perf_counter() - start, cpu_seconds() - spent
    size = sum(file.stat().st_size for file in home.rglob("*.parquet"))
    return f"{count / clock_s:,.0f} records/s by the clock; {cpu_s / count * 1e6:.2f} us of CPU, {size / count:.0f} bytes a record"


def cpu_seconds() -> float:
    """What this process, the JVM and the workers have used."""
    total = 0.0
    this = psutil.Process()
    for process in (this, *this.children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            total += times.user + times.system
    return total


def alone(home: Path) -> Iterator[tuple[str, float]]:
    """Microseconds of CPU a record of the decoder without Spark: by columns, and one by one."""
    table = pq.read_table(next(iter(sorted(home.glob("*.parquet")))))
    batches = table.drop_columns(["topic"]).to_batches(max_chunksize=8192)
    for _ in range(2):
        start = time.process_time()
        rows = sum(made.num_rows for made in decode_batches(batches))
        spent = time.process_time() - start
    yield "by columns", spent / rows * 1e6
    some: list[dict[str, Any]] = table.slice(0, 20_000).to_pylist()
    start = time.process_time()
    for row in some:
        decode_row(row["key"], row["value"])
    yield "one by one, kshim_protocol", (time.process_time() - start) / len(some) * 1e6


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        write_records(home, options.records)
        for name, spent in alone(home):
            print(f"alone, {name}: {spent:.2f} us of CPU a record")
        spark = make_session("bench", "local[2]")
        records = spark.read.parquet(str(home))
        files = sorted(map(str, home.glob("*.parquet")))
        raw, landed = Path(folder, "raw"), Path(folder, "landed")
        land(spark, records.limit(20_000), Path(folder, "warm"), with_columns=True)
        print(f"landing, bytes only: {land(spark, records, raw, with_columns=False)}")
        print(f"landing, with columns: {land(spark, records, landed, with_columns=True)}")
        stored = spark.read.schema(STORED).parquet(str(landed))
        frames = {
            "scan": records,
            "decode, records from Spark": decode(records),
            "decode, files read by the workers": decode_files(spark, files),
            "landed, all columns": stored.select(*DECODED.names),
            "landed, those of commits": stored.where("kind = 'offset_commit'").select(*COMMIT_COLUMNS),
            "landed, those of generations": stored.where("kind = 'group_metadata'").select(*GROUP_COLUMNS),
            "landed, counted by kind": stored.groupBy("kind").count(),
        }
        for name, frame in frames.items():
            seconds(frame)  # starts the workers, warms the JVM
            rounds = [seconds(frame) for _ in range(options.rounds)]
            rate = options.records / statistics.median(clock for clock, _ in rounds)
            spent = min(cpu for _, cpu in rounds) / options.records
            print(
                f"{name}: {rate:,.0f} records/s by the clock (median of {options.rounds}); {spent * 1e6:.2f} us of CPU a "
                f"record (least), which is {2 / spent:,.0f} records/s where two cores have nothing else to do"
            )
        spark.stop()
    print(f"peak of this process: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB")


if __name__ == "__main__":
    main()
