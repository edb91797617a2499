"""`kshim pipeline analyse`, `report`, `explain` and `budget`. Each returns an exit code and raises PipelineError."""

from __future__ import annotations

import argparse
import fnmatch
import json
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from kshim_pipeline.errors import EXIT_FAILURE, EXIT_OK, EXIT_UNAVAILABLE, EXIT_USAGE, PipelineError
from kshim_pipeline.folder import Folder, LocalFolder, folder_at, is_path
from kshim_pipeline.inputs.window import Window
from kshim_pipeline.land.reading import landed_in, newest_record_ms
from kshim_pipeline.materialize import in_session
from kshim_pipeline.progress import Progress
from kshim_pipeline.report.budget import Budget, verdict
from kshim_pipeline.report.explain import explain_at
from kshim_pipeline.report.gather import check, gather, session_for
from kshim_pipeline.report.made_of import made_of, made_of_day, whole_days, window_of
from kshim_pipeline.report.published import Publication, Publications, require_all_or_days
from kshim_pipeline.report.results import Results, compute, read_results, write_results
from kshim_pipeline.report.stored import require_all
from kshim_pipeline.report.summaries import span_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kshim_pipeline.report.page import Page


def analyse(options: argparse.Namespace) -> int:
    """Publish every table as Parquet, unless nothing is new."""
    check(options)
    if options.each_day:
        return _analyse_days(options)
    if is_path(options.landed or "") and is_path(options.out):  # then Spark need not start to see that
        newest = _unchanged(options, lambda address: LocalFolder(Path(address).absolute()))
        if newest is not None:
            return _say_unchanged(options, newest)
    with _session("analyse", options) as (spark, progress):
        progress.say("reading")
        require_all_or_days(folder_at(spark, options.out), is_of_days=False)
        if (newest := _unchanged(options, partial(folder_at, spark))) is not None:
            progress.done()
            return _say_unchanged(options, newest)
        gathered = gather(spark, options)
        _say_left_out(gathered.left_out, progress)
        newest = write_results(spark, gathered, options.out, progress.say)
        results = read_results(spark, options.out)
        rebalances, findings = results.tables["rebalances"].count(), results.findings.count()
    print(f"{rebalances} rebalances, {findings} findings; tables in {options.out}/{newest.run}.")
    return EXIT_OK


def _analyse_days(options: argparse.Namespace) -> int:
    """Publish the results of each day that is landed whole, in a directory of its own below `--out`, unless they are there."""
    computed, unchanged = 0, 0
    with _session("analyse", options) as (spark, progress):
        progress.say("reading")
        place, out = folder_at(spark, options.landed), folder_at(spark, options.out)
        require_all_or_days(out, is_of_days=True)
        landed = landed_in(spark, options.landed)
        newest_ms = newest_record_ms(spark, options.landed, landed)
        for day in whole_days(landed, newest_ms, Window(options.since, options.until)):
            made = made_of_day(place, landed, day)
            newest = Publications(folder_at(spark, f"{out.address}/{day}")).newest()
            if newest is not None and made is not None and newest.made_of == made and not options.again:
                unchanged += 1
                continue
            rebalances, findings = _analyse_day(spark, options, day, made, progress)
            progress.done()
            print(f"{day}: {rebalances} rebalances, {findings} findings; tables in {options.out}/{day}.", flush=True)
            computed += 1
    if not computed and unchanged:
        print(f"No day more was landed whole since the results of {unchanged} days in {options.out} were computed.")
    elif not computed:
        print("No day is landed whole yet: one is when an hour of the day after it is.")
    return EXIT_OK


def _analyse_day(
    spark: SparkSession, options: argparse.Namespace, day: str, made: str | None, progress: Progress
) -> tuple[int, int]:
    """Its rebalances and its findings."""
    own = spark.newSession()  # it is fitted to the records of the day
    window = window_of(day)
    chosen = argparse.Namespace(**{**vars(options), "since": window.since_ms, "until": window.until_ms})
    out = f"{options.out}/{day}"
    gathered = gather(own, chosen)._replace(made_of=made)
    _say_left_out(gathered.left_out, progress)
    write_results(own, gathered, out, lambda what: progress.say(f"{day}: {what}"))
    results = read_results(own, out)
    found = results.tables["rebalances"].count(), results.findings.count()
    own.catalog.clearCache()
    return found


def _unchanged(options: argparse.Namespace, at: Callable[[str], Folder]) -> Publication | None:
    """The newest results, if they are made of what would be read now; `at` is the folder of an address."""
    newest = None if options.again else Publications(at(options.out)).newest()
    if newest is None or newest.made_of is None or newest.made_of != made_of(options, at):
        return None
    return newest


def _say_unchanged(options: argparse.Namespace, newest: Publication) -> int:
    for sentence in newest.left_out:
        print(sentence, file=sys.stderr)
    print(f"Nothing was landed since these results were computed; tables in {options.out}/{newest.run}.")
    return EXIT_OK


def report(options: argparse.Namespace) -> int:
    """Write the page."""
    require_all(options)
    for name in ("out", "picture"):
        if (address := getattr(options, name)) is not None and not is_path(address):
            raise PipelineError(f"--{name} {address}: a report is written to a file of this machine", EXIT_USAGE)
    if not Path(options.out).parent.is_dir():
        raise PipelineError(f"There is no directory {Path(options.out).parent}", EXIT_USAGE)
    with _results("report", options) as (results, progress):
        if len(results.days) > 1:
            raise PipelineError(
                f"{options.results} has the results of {len(results.days)} days, and a report is about one: "
                f"--results {options.results}/{results.days[-1]}",
                EXIT_USAGE,
            )
        page = write_page(results, options, progress.say)
    print(f"{len(page.findings) + page.findings_omitted} findings; the report is {options.out}.")
    return EXIT_OK


def write_page(results: Results, options: argparse.Namespace, say: Callable[[str], None]) -> Page:
    """Write the page to `options.out`, and its main charts to `options.picture` if that is given."""
    from kshim_pipeline.report.make import make_page
    from kshim_pipeline.report.page import render
    from kshim_pipeline.report.picture import picture

    page = make_page(results, say)._replace(why_source=_why_source(options))
    Path(options.out).write_text(render(page), encoding="utf-8")
    if options.picture is not None:
        Path(options.picture).write_bytes(picture(page))
    return page


def _why_source(options: argparse.Namespace) -> str:
    """Options of `kshim why` for what was read; of landed tables nobody knows which broker they are from."""
    source = "--bootstrap-server HOST:PORT"
    for name in ("bootstrap_server", "data_dir"):
        if (value := getattr(options, name, None)) is not None:
            source = f"--{name.replace('_', '-')} {shlex.quote(value)}"
            break
    return source


def explain(options: argparse.Namespace) -> int:
    """Print what is known of one rebalance. Exit code 1: the group has none."""
    with _results("explain", options) as (results, progress):
        progress.say(f"looking for {options.group}")
        is_group = F.col("group_id") == options.group
        lines = explain_at(
            _rows(results.tables["rebalances"].where(is_group)),
            _rows(results.incidents.where(F.array_contains("groups", options.group))),
            _rows(results.tables["migrations"].where(is_group)),
            options.at,
        )
    print("\n".join(lines) or f"No rebalance of {options.group} is known.")
    return EXIT_OK if lines else EXIT_FAILURE


def budget(options: argparse.Namespace) -> int:
    """Print the verdict as JSON. Exit code 1: a limit is exceeded."""
    limits = {name: getattr(options, name) for name in Budget._fields}
    if all(limit is None for limit in limits.values()):
        raise PipelineError("Give at least one limit, e.g. --max-per-hour 6", EXIT_USAGE)
    with _results("budget", options) as (results, progress):
        progress.say("checking limits")
        rebalances, findings = results.tables["rebalances"], results.findings
        window = Window(options.since, options.until)
        rebalances, findings = window.touched(rebalances, "ts_ms"), window.touched(findings, "from_ts_ms", "to_ts_ms")
        first_ms, last_ms = span_of(rebalances)
        critical = findings.where("severity = 'critical'").groupBy("group_id").agg(F.count("*").alias("critical"))
        groups = rebalances.groupBy("group_id").agg(
            F.count("*").alias("rebalances"),
            F.sum("total_ms").alias("stopped_ms"),
            F.max("total_ms").alias("longest_ms"),
        )
        rows = _rows(groups.join(critical, "group_id", "left"))
    patterns = options.groups or ["*"]
    wanted = [row for row in rows if any(fnmatch.fnmatchcase(row["group_id"], pattern) for pattern in patterns)]
    hours = ((options.until or last_ms) - (options.since or first_ms)) / 3_600_000
    found = verdict(Budget(**limits), wanted, hours=hours)
    print(json.dumps(found, indent=1))
    return EXIT_FAILURE if found["broken"] else EXIT_OK


def _rows(frame: DataFrame) -> list[dict[str, Any]]:
    return [row.asDict(recursive=True) for row in frame.collect()]


@contextmanager
def _session(command: str, options: argparse.Namespace) -> Iterator[tuple[SparkSession, Progress]]:
    progress = Progress()
    progress.say("starting Spark")
    spark = session_for(f"kshim pipeline {command}", options)
    try:
        yield spark, progress
    except OSError as error:
        raise PipelineError(str(error), EXIT_UNAVAILABLE) from error
    finally:
        progress.done()
        spark.stop()


@contextmanager
def _results(command: str, options: argparse.Namespace) -> Iterator[tuple[Results, Progress]]:
    """Results of an earlier `analyse`, or computed now from the sources."""
    with _session(command, options) as (spark, progress):
        if options.results is not None:
            results = read_results(spark, options.results)
            _say_left_out(results.left_out, progress)
            yield results, progress
            return
        progress.say("reading")
        with in_session(spark, progress.say) as materialize:
            gathered = gather(spark, options)
            _say_left_out(gathered.left_out, progress)
            yield compute(spark, gathered, materialize), progress


def _say_left_out(sentences: Sequence[str], progress: Progress) -> None:
    if sentences:
        progress.done()
    for sentence in sentences:
        print(sentence, file=sys.stderr)
