"""`kshim pipeline demo`: a minute of incidents, then land, analyse, report, and a comparison with what was done."""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from pathlib import Path

from kshim_pipeline.demo.incidents import Truth
from kshim_pipeline.demo.judge import Judged, judge
from kshim_pipeline.demo.stage import broker, play
from kshim_pipeline.errors import EXIT_FAILURE, EXIT_OK
from kshim_pipeline.inputs.kafka import Cluster
from kshim_pipeline.land.stream import land
from kshim_pipeline.materialize import in_session
from kshim_pipeline.options import source_options
from kshim_pipeline.progress import Progress
from kshim_pipeline.report.commands import write_page
from kshim_pipeline.report.gather import gather
from kshim_pipeline.report.results import compute
from kshim_pipeline.setup.session import BRIEF, Jars, make_session
from kshim_pipeline.topics import EVENTS_TOPIC, OFFSETS_TOPIC

_MIN_CORRECT = 0.8


def run(options: argparse.Namespace) -> int:
    """Exit code 1: fewer than four of five incidents were diagnosed correctly. Raises PipelineError."""
    with tempfile.TemporaryDirectory(prefix="kshim-demo-") as name:
        folder = Path(name)
        progress = Progress()
        with broker(folder, groups=options.services) as bootstrap:
            print(
                f"A broker on {bootstrap}; {options.services} simulated groups and two real consumers have incidents ..."
            )
            truths = asyncio.run(
                play(bootstrap, groups=options.services, incidents=options.incidents, seed=options.seed)
            )
            print(f"{len(truths)} incidents happened. Landing the coordinator's records with Spark ...")
            spark = make_session("kshim pipeline demo", options.master, jars=Jars.REQUIRED, config=BRIEF)
            try:
                landed = str(folder / "landed")
                counts = land(spark, Cluster(bootstrap), [OFFSETS_TOPIC, EVENTS_TOPIC], landed, progress=progress)
                print(f"Landed: {'; '.join(counts.sentences())}. Computing the diagnosis ...")
                with in_session(spark, progress.say) as materialize:
                    results = compute(spark, gather(spark, _sources(landed)), materialize)
                    judged = judge(truths, [row.asDict(recursive=True) for row in results.incidents.collect()])
                    write_page(results, options, progress.say)
            finally:
                progress.done()
                spark.stop()
    return _print_result(judged, options.out)


def _sources(landed: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    source_options(parser)
    return parser.parse_args([f"--landed={landed}"])


def _print_result(judged: list[Judged], out: str) -> int:
    for one in judged:
        print(_line(one))
    right = sum(one.is_cause_right for one in judged)
    who = sum(one.is_culprit_right for one in judged)
    print(f"{right} of {len(judged)} causes and {who} of {len(judged)} responsible clients were diagnosed correctly.")
    print(f"Report: {Path(out).resolve()}")
    return EXIT_OK if right >= _MIN_CORRECT * len(judged) else EXIT_FAILURE


def _line(one: Judged) -> str:
    truth: Truth = one.truth
    groups = ", ".join(sorted(truth.groups))
    mark = "correct" if one.is_cause_right and one.is_culprit_right else "cause  " if one.is_cause_right else "WRONG  "
    named = "" if one.is_cause_right else f", diagnosed as {one.named or 'nothing'}"
    whose = f" by {', '.join(sorted(truth.culprits))}" if truth.culprits else ""
    return f"  {mark}  {truth.cause}{whose} in {groups}{named}"
