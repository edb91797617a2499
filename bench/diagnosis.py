"""What the diagnosis of the pipeline costs, by members in records: a member row is a member in a record.

First without Spark, what a Python worker does for a group of 500 members in 400 records: one of them goes, or comes back, in each.
Then CPU of all processes, and memory of the largest Python worker, for records of a part of a synthetic fleet-month
(docs/design/fleet.md): of all its recorded groups, and of the largest of them. Records lie in Parquet, in a session that has
run something before.

    python -m bench.diagnosis --groups 500 --rebalances 12000
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from bench.fleet.fleet import Fleet, groups
from bench.fleet.records import group_metadata
from bench.memory import Watch
from bench.pipeline_fleet import cpu_seconds
from kshim_pipeline.diagnosis.explained import found_of
from kshim_pipeline.diagnosis.facts import Told, entries_of
from kshim_pipeline.diagnosis.of_fleet import incidents_of_fleet, known_of_fleet
from kshim_pipeline.materialize import in_folder
from kshim_pipeline.setup.session import make_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_MEMBERS = 500
_RECORDS = 400
_START_MS = 1_790_000_000_000
_APART_MS = 700_000
_MIB = 1 << 20


def measure(spark: SparkSession, name: str, records: DataFrame, home: Path) -> str:
    """A line of Markdown."""
    sizes = records.agg(F.count("*"), F.sum(F.size("members"))).collect()[0]
    start, spent = time.perf_counter(), cpu_seconds()
    with Watch() as watch:
        known = known_of_fleet(records, materialize=in_folder(spark, str(home / name), lambda _: None))
        count = incidents_of_fleet(known).count()
    cpu_s, wall_s = cpu_seconds() - spent, time.perf_counter() - start
    return (
        f"| {name} | {sizes[0]:,} | {sizes[1]:,} | {count:,} | {cpu_s:.1f} | {wall_s:.1f} | {cpu_s / sizes[1] * 1e6:.1f} | "
        f"{watch.largest_worker_bytes / _MIB:.0f} |"
    )


def records_of_a_group() -> Iterator[dict[str, Any]]:
    """GROUP_RECORDs with their changes."""
    lives = [0] * _MEMBERS
    there = {number: _a_member(number, 0) for number in range(_MEMBERS)}
    for number in range(_RECORDS):
        came: list[dict[str, Any]] = []
        gone: list[str] = []
        turn = (number - number % 2) * 7 % _MEMBERS
        if number == 0:
            came = list(there.values())
        elif number % 2:
            lives[turn] += 1
            gone = [there.pop(turn)["member_id"]]
        else:
            turn = (number - 2) * 7 % _MEMBERS
            there[turn] = _a_member(turn, lives[turn])
            came = [there[turn]]
        ts_ms = _START_MS + number * _APART_MS
        yield {
            "number": number,
            "ts_ms": ts_ms,
            "generation_id": number,
            "leader_id": next(iter(there.values()))["member_id"],
            "protocol": "range",
            "joined_ms": ts_ms - 20,
            "evidence": {"topic": "__consumer_offsets", "partition": 0, "offset": number},
            "assigned": [{"topic": "orders", "partitions": 2 * _MEMBERS}],
            "came": came,
            "gone": gone,
        }


def _a_member(number: int, life: int) -> dict[str, Any]:
    return {
        "member_id": f"app-{number:03}-{life}-0123456789abcdef0123456789abcdef",
        "instance_id": None,
        "client_id": f"app-{number:03}",
        "host": f"10.0.{number % 4}.{number % 250}",
        "session_timeout_ms": 45_000,
        "rebalance_timeout_ms": 300_000,
        "topics": ["orders"],
    }


def of_one_group() -> str:
    """What a worker does for a group, in a sentence."""
    told = Told(None, list(records_of_a_group()))
    start = time.process_time()
    entries = list(entries_of("group", told))
    made_s = time.process_time() - start
    found = list(found_of("group", entries, _START_MS + _RECORDS * _APART_MS))
    explained_s = time.process_time() - start - made_s
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    rows = _MEMBERS * _RECORDS
    return (
        f"{rows:,} member rows to {len(entries):,} entries in {made_s:.2f} s, {made_s / rows * 1e6:.2f} us each; "
        f"{len(found):,} incidents of these in {explained_s:.2f} s; {peak:.0f} MiB at most"
    )


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(prog="python -m bench.diagnosis", description=__doc__)
    parser.add_argument("--groups", type=int, default=500)
    parser.add_argument("--rebalances", type=int, default=12_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    print(of_one_group(), flush=True)
    spark = make_session("bench", "local[2]", driver_memory="2g", config={"spark.sql.shuffle.partitions": "8"})
    fleet = Fleet(options.rebalances, groups=options.groups, seed=options.seed)
    recorded = groups(spark, fleet).where("is_recorded")
    print(
        "| Groups | Records | Member rows | Incidents | CPU, s | Wall, s | CPU, us a member row | Largest worker, MiB |"
    )
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    with tempfile.TemporaryDirectory() as folder:
        largest = recorded.orderBy(F.desc(F.col("members") * F.col("rebalances"))).limit(1)
        for name, chosen in (("all", recorded), ("the largest", largest)):
            drawn = f"{folder}/{name} drawn"
            group_metadata(chosen, fleet).write.parquet(drawn)
            print(measure(spark, name, spark.read.parquet(drawn), Path(folder)), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
