"""What the diagnosis of the pipeline costs: CPU, and memory of the largest Python worker, by members in records.

Records of a part of a synthetic fleet-month (docs/design/fleet.md): of all its recorded groups, and of the largest of them. A member
row is a member in a record. Records lie in Parquet, in a session that has run something before; CPU is that of all processes.

    python -m bench.diagnosis --groups 500 --rebalances 12000
"""

from __future__ import annotations

import argparse
import contextlib
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
from pyspark.sql import functions as F

from bench.fleet.fleet import Fleet, groups
from bench.fleet.records import group_metadata
from bench.pipeline_fleet import cpu_seconds
from kshim_pipeline.diagnosis.of_fleet import incidents_of_fleet
from kshim_pipeline.materialize import in_folder
from kshim_pipeline.setup.session import make_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_LOOK_S = 0.1
_MIB = 1 << 20


class Watch:
    """The memory of the largest Python worker below this process, looked at all the time."""

    def __init__(self) -> None:
        self.most_bytes = 0
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._is_over.wait(_LOOK_S):
            for process in psutil.Process().children(recursive=True):
                with contextlib.suppress(psutil.NoSuchProcess):
                    if "python" in process.name():
                        self.most_bytes = max(self.most_bytes, process.memory_info().rss)


def measure(spark: SparkSession, name: str, records: DataFrame, home: Path) -> str:
    """A line of Markdown."""
    sizes = records.agg(F.count("*"), F.sum(F.size("members"))).collect()[0]
    start, spent = time.perf_counter(), cpu_seconds()
    with Watch() as watch:
        found = incidents_of_fleet(records, materialize=in_folder(spark, str(home / name), lambda _: None))
        count = found.count()
    cpu_s, wall_s = cpu_seconds() - spent, time.perf_counter() - start
    return (
        f"| {name} | {sizes[0]:,} | {sizes[1]:,} | {count:,} | {cpu_s:.1f} | {wall_s:.1f} | {cpu_s / sizes[1] * 1e6:.1f} | "
        f"{watch.most_bytes / _MIB:.0f} |"
    )


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(prog="python -m bench.diagnosis", description=__doc__)
    parser.add_argument("--groups", type=int, default=500)
    parser.add_argument("--rebalances", type=int, default=12_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
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
