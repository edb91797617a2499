"""What the twelve analyses cost on a synthetic fleet-month, by the number of rebalances, and how that grows.

Tables of `bench.fleet` (10,000 groups, 30 days) are written as Parquet, once a size: with `--cache` they
stay there. Each size is then read by a process of its own, with a fresh session on two cores: every analysis writes its
rows as Parquet, as `kshim pipeline analyse` does, and findings are made of those. CPU is that of all processes
together. Beside it: the table ownership built by the model from decoded records, a record a generation.

    python -m bench.pipeline_fleet --sizes 1000000,4000000,16000000 --memory 4g --cache DIR
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import resource
import tempfile
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import psutil

from bench.fleet.fleet import Fleet, groups
from bench.fleet.records import group_metadata
from bench.fleet.tables import tables
from kshim_pipeline.analyses.registry import ANALYSES, all_findings, run
from kshim_pipeline.model.ownership import ownership
from kshim_pipeline.model.snapshots import snapshots
from kshim_pipeline.setup.session import make_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TASKS = 16
PATIENT = {"spark.network.timeout": "1200s", "spark.executor.heartbeatInterval": "120s"}
"""A machine that is busy with other work must not look like an executor that is lost."""
GROWTH = 1.0
"""CPU for a rebalance may not grow: at most so many times that of the size before."""


class Cost(NamedTuple):
    """Of one step: rows that went in and came out, seconds of CPU and by the clock."""

    name: str
    rows_in: int
    rows_out: int
    cpu_s: float
    wall_s: float


def cpu_seconds() -> float:
    """What this process and those it started have used, those that have ended too."""
    total = 0.0
    this = psutil.Process()
    for process in (this, *this.children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            total += times.user + times.system + times.children_user + times.children_system
    return total


def written(frame: DataFrame, folder: Path) -> None:
    """The frame as Parquet; what is there already is kept."""
    if not (folder / "_SUCCESS").exists():
        frame.write.mode("overwrite").parquet(str(folder))


class Measured:
    """Costs of steps, in their order."""

    def __init__(self, spark: SparkSession, home: Path) -> None:
        self.spark = spark
        self.home = home
        self.costs: list[Cost] = []

    def step(self, name: str, frame: DataFrame, rows_in: int) -> DataFrame:
        """Write the frame and read it back."""
        folder = str(self.home / name)
        start, spent = time.perf_counter(), cpu_seconds()
        frame.write.mode("overwrite").parquet(folder)
        cpu, wall = cpu_seconds() - spent, time.perf_counter() - start
        made = self.spark.read.parquet(folder)
        self.costs.append(Cost(name, rows_in, made.count(), cpu, wall))
        print(f"  {name}: {cpu:.1f} s of CPU, {wall:.1f} s", flush=True)
        return made


def make_tables(cache: Path, fleet: Fleet, records: int, memory: str) -> None:
    """The tables of `fleet` and the records of a fleet of `records` rebalances, below `cache`."""
    spark = make_session("bench", "local[2]", driver_memory=memory, config=PATIENT)
    spent = cpu_seconds()
    for name, frame in tables(spark, fleet, tasks=TASKS).items():
        written(frame, cache / str(fleet.rebalances) / name)
    if records:
        small = fleet._replace(rebalances=records)
        recorded = groups(spark, small, tasks=TASKS).where("is_recorded")
        written(group_metadata(recorded, small), cache / f"records-{records}")
    print(f"{fleet.rebalances:,} rebalances drawn: {cpu_seconds() - spent:.0f} s of CPU", flush=True)
    spark.stop()


def measure(cache: Path, size: int, records: int, memory: str) -> list[Cost]:
    """Every analysis of the tables of `size` rebalances, in a session of its own."""
    spark = make_session("bench", "local[2]", driver_memory=memory, config=PATIENT)
    with tempfile.TemporaryDirectory(dir=cache) as folder:
        measured = Measured(spark, Path(folder))
        frames = {path.name: spark.read.parquet(str(path)) for path in sorted((cache / str(size)).iterdir())}
        rows = {name: frame.count() for name, frame in frames.items()}
        print(f"{size:,}: " + ", ".join(f"{count:,} {name}" for name, count in rows.items()), flush=True)
        results = {}
        for name, analysis in ANALYSES.items():
            made = run(analysis, frames)
            assert made is not None, name
            used = sum(rows[table] for table in (*analysis.needs, *analysis.may_use))
            results[name] = measured.step(name, made, used)
        found = sum(cost.rows_out for cost in measured.costs)
        measured.step("findings", all_findings(results), found)
        if records:
            measured.costs.append(model_cost(spark, cache / f"records-{records}", measured))
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            peak = max(peak, process.memory_info().rss // 1024)
    print(f"  {peak / 1024:.0f} MiB held by the JVM at the end", flush=True)
    spark.stop()
    return measured.costs


def model_cost(spark: SparkSession, records: Path, measured: Measured) -> Cost:
    """The table ownership from decoded records. Rows in: partitions of members, which it compares one by one."""
    decoded = spark.read.parquet(str(records))
    exploded = decoded.selectExpr(
        "count(*) as records",
        "sum(aggregate(members, 0L, (n, m) -> n + aggregate(m.assignment, 0L, (k, t) -> k + size(t.partitions)))) as n",
    ).collect()[0]
    measured.step("model ownership", ownership(snapshots(decoded)), exploded.n)
    cost = measured.costs.pop()
    print(f"  from {exploded.records:,} records: {cost.cpu_s / exploded.records * 1e6:.1f} us a record", flush=True)
    return cost


def table(costs: dict[int, list[Cost]]) -> Iterator[str]:
    """Lines of Markdown: CPU of each analysis by size, and microseconds for a row that goes in."""
    sizes = sorted(costs)
    heads = [f"{size / 1e6:g}M: CPU, s | wall, s | us a row" for size in sizes]
    yield "| | rows in | rows out | " + " | ".join(heads) + " |"
    yield "| --- | ---: | ---: |" + " ---: | ---: | ---: |" * len(sizes)
    for place, last in enumerate(costs[sizes[-1]]):
        cells = (costs[size][place] if place < len(costs[size]) else None for size in sizes)
        told = " | ".join(f"{cell.cpu_s:.1f} | {cell.wall_s:.1f} | {us(cell):.2f}" if cell else "| |" for cell in cells)
        yield f"| {last.name} | {last.rows_in:,} | {last.rows_out:,} | {told} |"


def us(cost: Cost) -> float:
    """Microseconds of CPU for a row that goes in."""
    return cost.cpu_s / max(cost.rows_in, 1) * 1e6


def growth(costs: dict[int, list[Cost]]) -> Iterator[str]:
    """Between sizes: how many times the CPU of all analyses, of how many times the rebalances."""
    sizes = sorted(costs)
    for small, large in pairwise(sizes):
        for name in (*ANALYSES, "findings"):
            less, more = (next(cost for cost in costs[size] if cost.name == name) for size in (small, large))
            ratio = us(more) / us(less)
            if ratio > GROWTH:
                yield f"{name}: a row costs {ratio:.2f} times as much at {large:,} as at {small:,}"
        less_cpu, more_cpu = (
            sum(cost.cpu_s for cost in costs[size] if cost.name != "model ownership") for size in (small, large)
        )
        yield (
            f"all: {large / small:.1f} times the rebalances take {more_cpu / less_cpu:.2f} times the CPU "
            f"({less_cpu:.0f} s, {more_cpu:.0f} s; {more_cpu / large * 1e6:.1f} us a rebalance)"
        )


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default="1000000,4000000,16000000", help="rebalances, comma-separated")
    parser.add_argument("--groups", type=int, default=10_000)
    parser.add_argument("--records", type=int, default=400_000, help="rebalances behind the records; 0: no such run")
    parser.add_argument("--memory", default="4g", help="of the driver, as Java writes it")
    parser.add_argument("--cache", type=Path, help="where tables are kept from run to run (default: nowhere)")
    options = parser.parse_args()
    sizes = [int(size) for size in options.sizes.split(",")]
    fresh = multiprocessing.get_context("spawn")
    with contextlib.ExitStack() as stack:
        cache = options.cache or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        costs: dict[int, list[Cost]] = {}
        for size in sizes:
            records = options.records if size == sizes[-1] else 0
            for work in (make_tables, measure):
                first = Fleet(size, options.groups) if work is make_tables else size
                with fresh.Pool(1) as pool:  # a JVM of its own
                    made = pool.apply(work, (cache, first, records, options.memory))
                if made is not None:
                    costs[size] = made
                    print("\n".join(table({size: made})), flush=True)
    print("\n".join((*table(costs), "", *growth(costs))))


if __name__ == "__main__":
    main()
