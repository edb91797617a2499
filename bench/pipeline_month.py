"""What a synthetic fleet-month costs the whole way, by the number of rebalances, and what one of its days costs.

The records of a fleet (`bench.fleet`) lie in a directory as `land` leaves them, decoded, a batch a day. From there they go through all
that `kshim pipeline analyse` and `report` do: model, diagnosis, what-if strategies, analyses, findings, page. Then the same for
one day, as `analyse --each-day` does when it is landed. CPU is that of all processes together; memory is sampled. Each run is a
process of its own.

    python -m bench.pipeline_month --sizes 50000,200000,800000
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, NamedTuple

from bench.fleet.fleet import Fleet
from bench.fleet.landed import draw, land_day
from bench.memory import Watch
from bench.pipeline_fleet import PATIENT, cpu_seconds
from kshim_pipeline.analyses.registry import ANALYSES
from kshim_pipeline.options import analyse_options
from kshim_pipeline.report.gather import gather, is_small
from kshim_pipeline.report.made_of import window_of
from kshim_pipeline.report.make import make_page
from kshim_pipeline.report.page import render
from kshim_pipeline.report.results import read_results, write_results
from kshim_pipeline.setup.session import BRIEF, make_session

REBALANCES_OF_A_GROUP: Final = 100
DAY: Final = 20
"""Which day of the month is analysed by itself."""
_MIB: Final = 1 << 20
_STAGES: Final[Mapping[str, Sequence[str]]] = {
    "Spark starts, records are found": ("start", "reading"),
    "diagnosis": ("group records", "entries", "asked hosts", "incidents", "known"),
    "what-if": ("strategy costs",),
    "analyses": tuple(name.replace("_", " ") for name in ANALYSES if name != "migrations"),
    "findings": ("findings",),
    "page": ("page",),
}
"""What is none of these is the model."""


class Spent(NamedTuple):
    """What a run cost, in its steps, and what came out. `jvm_mib`, `workers_mib`: the most that was held, all workers together."""

    cpu_s: Mapping[str, float]
    wall_s: float
    rebalances: int
    incidents: int
    jvm_mib: int
    workers_mib: int

    @property
    def total_s(self) -> float:
        """Seconds of CPU."""
        return sum(self.cpu_s.values())


def analysed(landed: str, day: str | None, memory: str) -> Spent:
    """All of it, or a day, in a session of its own."""
    steps: dict[str, float] = {}
    state: list[Any] = ["start", cpu_seconds()]

    def say(what: str) -> None:
        now = cpu_seconds()
        steps[state[0]] = steps.get(state[0], 0.0) + now - state[1]
        print(f"    {state[0]}: {now - state[1]:.1f} s of CPU", flush=True)
        state[:] = [what.removeprefix("computing ").replace("_", " "), now]

    began_s = time.perf_counter()
    with Watch() as watch, tempfile.TemporaryDirectory() as out:
        parser = argparse.ArgumentParser()
        analyse_options(parser)
        options = parser.parse_args(["--landed", landed, "--out", out])
        if day is not None:
            options.since, options.until = window_of(day)
        config = {**PATIENT, **BRIEF} if is_small(options) else PATIENT  # as the command does
        spark = make_session("bench", "local[2]", driver_memory=memory, config=config)
        say("reading")
        write_results(spark, gather(spark, options), out, say)
        say("page")
        results = read_results(spark, out)
        Path(out, "report.html").write_text(render(make_page(results, lambda _: None)), encoding="utf-8")
        say("end")
        wall_s = time.perf_counter() - began_s
        counts = results.tables["rebalances"].count(), results.incidents.count()
        spark.stop()
    return Spent(steps, wall_s, *counts, watch.jvm_bytes // _MIB, watch.workers_bytes // _MIB)


def drawn(fleet: Fleet, folder: str, memory: str) -> None:
    """Land all days of a fleet in `folder`."""
    spark = make_session("bench", "local[2]", driver_memory=memory, config=PATIENT)
    draw(spark, fleet, Path(folder))
    for number in range(fleet.days):
        land_day(spark, Path(folder), number)
    spark.stop()


def by_stage(spent: Spent) -> dict[str, float]:
    """Seconds of CPU of each stage."""
    found = dict.fromkeys((*_STAGES, "model"), 0.0)
    stage_of = {step: stage for stage, steps in _STAGES.items() for step in steps}
    for step, cpu_s in spent.cpu_s.items():
        found[stage_of.get(step, "model")] += cpu_s
    return found


def table(month: Mapping[int, Spent], day: Mapping[int, Spent]) -> Iterator[str]:
    """Lines of Markdown."""
    sizes = sorted(month)
    yield "| | " + " | ".join(f"{size:,}" for size in sizes) + " |"
    yield "| --- |" + " ---: |" * len(sizes)

    def line(name: str, cell: Callable[[int], str]) -> str:
        return f"| {name} | " + " | ".join(map(cell, sizes)) + " |"

    for stage in by_stage(month[sizes[0]]):
        yield line(f"{stage}: CPU, s", lambda size, stage=stage: f"{by_stage(month[size])[stage]:.1f}")  # type: ignore[misc]
    yield line("the month: CPU, s", lambda size: f"{month[size].total_s:.0f}")
    yield line("wall, s", lambda size: f"{month[size].wall_s:.0f}")
    yield line("CPU of a rebalance, ms", lambda size: f"{month[size].total_s / month[size].rebalances * 1e3:.2f}")
    yield line("incidents", lambda size: f"{month[size].incidents:,}")
    yield line("JVM, MiB", lambda size: f"{month[size].jvm_mib:,}")
    yield line("Python workers together, MiB", lambda size: f"{month[size].workers_mib:,}")
    yield line("a day: CPU, s", lambda size: f"{day[size].total_s:.0f}")
    yield line("wall, s", lambda size: f"{day[size].wall_s:.0f}")
    yield line("its rebalances", lambda size: f"{day[size].rebalances:,}")
    yield line("its share of the month's CPU", lambda size: f"{day[size].total_s / month[size].total_s:.1%}")
    for small, large in pairwise(sizes):
        times = month[large].total_s / month[small].total_s
        more_s = month[large].total_s - month[small].total_s
        more = month[large].rebalances - month[small].rebalances
        yield ""
        yield (
            f"{large / small:.1f} times the rebalances took {times:.2f} times the CPU: {more_s / more * 1e3:.2f} ms for each that is more."
        )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default="50000,200000,800000", help="rebalances of a month, comma-separated")
    parser.add_argument("--memory", default="3g", help="of the driver, as Java writes it")
    parser.add_argument("--cache", type=Path, help="where landed records are kept from run to run (default: nowhere)")
    options = parser.parse_args()
    fresh = multiprocessing.get_context("spawn")

    def apart(work: Callable[..., Any], *arguments: Any) -> Any:
        with fresh.Pool(1) as pool:  # a JVM of its own
            return pool.apply(work, arguments)

    month: dict[int, Spent] = {}
    day: dict[int, Spent] = {}
    with contextlib.ExitStack() as stack:
        cache = options.cache or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        for size in map(int, options.sizes.split(",")):
            fleet = Fleet(size, max(size // REBALANCES_OF_A_GROUP, 1))
            folder = str(cache / str(size))
            if not Path(folder, "drawn").exists():
                apart(drawn, fleet, folder, options.memory)
            number = time.strftime("%Y-%m-%d", time.gmtime(fleet.start_ms / 1000 + DAY * 86_400))
            print(f"  {size:,}: the month", flush=True)
            month[size] = apart(analysed, folder, None, options.memory)
            print(f"  {size:,}: the day {number}", flush=True)
            day[size] = apart(analysed, folder, number, options.memory)
            print("\n".join(table(month, day)), flush=True)


if __name__ == "__main__":
    main()
