"""`kshim pipeline demo`: a minute of incidents, then land, analyse, report, and a comparison with what was done."""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kshim.explain.words import time_text
from kshim.wording import counted
from kshim_pipeline.demo.incidents import Truth
from kshim_pipeline.demo.judge import Judged, Verdict, judge
from kshim_pipeline.demo.stage import broker, play
from kshim_pipeline.errors import EXIT_FAILURE, EXIT_OK
from kshim_pipeline.inputs.kafka import Cluster
from kshim_pipeline.land.landing import land
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
                f"A broker on {bootstrap}; {options.services} simulated groups, one of the new protocol, and two real "
                "consumers have incidents ..."
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
                    verdict = judge(truths, [row.asDict(recursive=True) for row in results.incidents.collect()])
                    write_page(results, options, progress.say)
            finally:
                progress.done()
                spark.stop()
    return _print_result(verdict, options.out)


def _sources(landed: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    source_options(parser)
    return parser.parse_args([f"--landed={landed}"])


def _print_result(verdict: Verdict, out: str) -> int:
    judged = verdict.judged
    print("Played, and what was found for it:")
    for one in judged:
        print(_line(one))
    print("Found, and not played:" if verdict.false_alarms else "Nothing was found that was not played.")
    for row in verdict.false_alarms:
        print(f"  false alarm  {time_text(row['from_ms'])}  {_found(row)}")
    right = sum(one.is_cause_right for one in judged)
    who = sum(one.is_culprit_right for one in judged)
    print(
        f"{right} of {len(judged)} causes and {who} of {len(judged)} responsible clients were diagnosed correctly; "
        f"{counted(len(verdict.false_alarms), 'false alarm')}."
    )
    print(f"Report: {Path(out).resolve()}")
    return EXIT_OK if right >= _MIN_CORRECT * len(judged) else EXIT_FAILURE


def _line(one: Judged) -> str:
    truth: Truth = one.truth
    mark = "correct" if one.is_cause_right and one.is_culprit_right else "cause  " if one.is_cause_right else "WRONG  "
    whose = f" by {', '.join(sorted(truth.culprits))}" if truth.culprits else ""
    found = "" if mark == "correct" else f"; found: {'nothing' if one.found is None else _found(one.found)}"
    played = f"{truth.cause}{whose} in {', '.join(sorted(truth.groups))}"
    return f"  {mark}  {time_text(truth.start_ms)}  {played}{found}"


def _found(row: Mapping[str, Any]) -> str:
    """An incident in a few words."""
    who = row["host"] if row["subject"] == "host" else ", ".join(row["clients"])
    return f"{row['cause']}{f' by {who}' if who else ''} in {', '.join(row['groups'])} ({row['confidence']:.0%} sure, {row['basis']})"
