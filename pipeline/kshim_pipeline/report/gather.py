"""What every reporting command reads: options for the sources, and the sources as the model's inputs."""

from __future__ import annotations

import argparse
import glob
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial, reduce
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from pyspark.sql import functions as F

from kshim_pipeline.decode import decode
from kshim_pipeline.decode.share_state import decode_share_state
from kshim_pipeline.errors import EXIT_UNAVAILABLE, EXIT_USAGE, PipelineError
from kshim_pipeline.folder import folder_at, is_path
from kshim_pipeline.inputs.broker_log import read_broker_log, zone_of
from kshim_pipeline.inputs.client_options import client_options
from kshim_pipeline.inputs.files import expanded
from kshim_pipeline.inputs.kafka import Cluster, read_topics
from kshim_pipeline.inputs.reachable import require_reachable
from kshim_pipeline.inputs.segments import cluster_of_data, partition_folders, read_segments
from kshim_pipeline.inputs.window import Window
from kshim_pipeline.land.log_ends import log_ends, read_log_ends
from kshim_pipeline.land.reading import decode_landed, is_decoded, landed_in, read_landed
from kshim_pipeline.model.events import events, unreadable_events
from kshim_pipeline.records import DECODED, KIND_UNKNOWN, KIND_UNREADABLE, RECORDS
from kshim_pipeline.report.made_of import is_landed_alone, made_of, window_of
from kshim_pipeline.report.stored import results_in
from kshim_pipeline.schemas import LOG_ENDS
from kshim_pipeline.setup.session import BRIEF, Jars, fit, make_session
from kshim_pipeline.topics import EVENTS_TOPIC, OFFSETS_TOPIC, SHARE_STATE_TOPIC

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_IF_PRESENT: Final = (EVENTS_TOPIC, SHARE_STATE_TOPIC)
"""Topics that are read where there are any."""
_FEW_BYTES: Final = 2 << 20
"""Of landed records, of which some 40,000 take as much. With more, what compiles least takes longer than it saves."""
_TIMES_LARGER: Final = 16
"""So much more segments and logs take for the same; and of results, little more is read than a page shows."""


class Gathered(NamedTuple):
    """`decoded` (DECODED), `events` (EVENTS) and `log_lines` (LOG_LINES), cached; None: no such source. `sources`: names.

    `log_ends` (LOG_ENDS): samples that were landed, and one of now of a cluster that is read; None: neither. `left_out`:
    what could not be read, in sentences. `share_state` (SHARE_STATE); None: the topic was not read. `made_of`: as `made_of`
    says. `window`: the time that was asked about; the others have what was read for it.
    """

    decoded: DataFrame
    events: DataFrame | None
    log_lines: DataFrame | None
    sources: tuple[str, ...]
    log_ends: DataFrame | None = None
    left_out: tuple[str, ...] = ()
    share_state: DataFrame | None = None
    made_of: str | None = None
    window: Window = Window()


def needs_kafka(options: argparse.Namespace) -> bool:
    """Whether Spark's Kafka source is needed."""
    return options.bootstrap_server is not None


def is_small(options: argparse.Namespace) -> bool:
    """Whether all that the options name lies on this machine, and what is asked of it, or each day of it, is little."""
    named = [getattr(options, name, None) for name in ("data_dir", "results")]
    if needs_kafka(options):
        return False
    left = float(_FEW_BYTES)
    if options.landed is not None:
        left -= _landed_bytes(options)
    for path in (*filter(None, named), *(options.broker_log or ())):
        found = [Path(name) for name in glob.glob(path)]
        files = [file for top in found for file in (top.rglob("*") if top.is_dir() else [top]) if file.is_file()]
        left -= sum(file.stat().st_size for file in files) / _TIMES_LARGER if found else _FEW_BYTES + 1
    return left >= 0


def _landed_bytes(options: argparse.Namespace) -> int:
    """Of what is asked of landed records; of the largest day, if each is."""
    asked = Window(options.since, options.until)
    of_days: Counter[str] = Counter()
    for file in Path(options.landed).rglob("*.parquet"):
        day = file.parent.name.partition("day=")[2]
        if not day or asked.has(window_of(day)):
            of_days[day] += file.stat().st_size
    if not of_days and not Path(options.landed).is_dir():
        return _FEW_BYTES + 1  # it cannot be seen from here
    return max(of_days.values(), default=0) if getattr(options, "each_day", False) else of_days.total()


def check(options: argparse.Namespace) -> None:
    """What can be said before Spark starts. Raises PipelineError: nothing is named, or something is not there."""
    results = getattr(options, "results", None)
    if results is not None:
        if is_path(results):
            results_in(results)
        return
    if getattr(options, "each_day", False) and not is_landed_alone(options):
        raise PipelineError("--each-day needs --landed, and no other source: only landed days are whole", EXIT_USAGE)
    if all(getattr(options, name) is None for name in ("bootstrap_server", "landed", "data_dir", "broker_log")):
        raise PipelineError(
            "Name at least one source: --bootstrap-server, --landed, --data-dir or --broker-log", EXIT_USAGE
        )
    if options.since is not None and options.until is not None and options.since >= options.until:
        raise PipelineError("--since has to lie before --until", EXIT_USAGE)
    if options.landed is not None and is_path(options.landed) and not Path(options.landed).is_dir():
        raise PipelineError(f"There is no directory {options.landed}", EXIT_UNAVAILABLE)
    if options.data_dir is not None:
        partition_folders(Path(options.data_dir), [OFFSETS_TOPIC])
    if options.broker_log:
        expanded(options.broker_log)
        zone_of(options.log_time_zone)
    if options.bootstrap_server is not None:
        require_reachable(options.bootstrap_server, client_options(options.command_config))


def session_for(app: str, options: argparse.Namespace) -> SparkSession:
    """A session that fits what the options name. Raises PipelineError, before Spark starts where that can be."""
    check(options)
    return make_session(
        app,
        options.master,
        jars=Jars.REQUIRED if needs_kafka(options) else Jars.IF_PRESENT,
        driver_memory=options.memory,
        config=BRIEF if is_small(options) else None,
    )


def gather(spark: SparkSession, options: argparse.Namespace) -> Gathered:
    """Read what the options name. Raises PipelineError: nothing is named, or something is not there."""
    records: list[DataFrame] = []
    decoded: list[DataFrame] = []
    sources: list[str] = []
    ends: list[DataFrame] = []
    is_stored = True
    clusters: dict[str, str | None] = {}
    # Before anything is read: what is landed meanwhile makes the next one another.
    made = made_of(options, partial(folder_at, spark))
    window = Window(options.since, options.until)
    if options.bootstrap_server is not None:
        cluster = Cluster(options.bootstrap_server, options=client_options(options.command_config))
        clusters[options.bootstrap_server] = cluster.identity(spark, []).cluster_id
        there = cluster.spans(spark, [OFFSETS_TOPIC, *_IF_PRESENT])
        topics = [OFFSETS_TOPIC, *(topic for topic in _IF_PRESENT if there.get(topic))]
        is_stored = False
        read = read_topics(spark, cluster, topics).cache()
        records.append(read)
        decoded.append(decode(read))
        ends.append(log_ends(spark, cluster))
        sources.append(f"{options.bootstrap_server} ({', '.join(topics)})")
    if options.landed is not None:
        landed = landed_in(spark, options.landed)
        is_stored &= is_decoded(landed)
        clusters[options.landed] = landed.cluster_id
        records.append(read_landed(spark, options.landed, landed))
        decoded.append(decode_landed(spark, options.landed, landed))
        ends.extend(filter(None, [read_log_ends(spark, options.landed)]))
        sources.append(options.landed)
    if options.data_dir is not None:
        is_stored = False
        folder = Path(options.data_dir)
        clusters[options.data_dir] = cluster_of_data(folder)
        topics = [OFFSETS_TOPIC, *(topic for topic in _IF_PRESENT if any(folder.glob(f"{topic}-*")))]
        partition_folders(folder, topics)
        segments = read_segments(spark, options.data_dir, topics).cache()
        records.append(segments)
        decoded.append(decode(segments))
        sources.append(options.data_dir)
    require_one_cluster(clusters)
    log_lines = None
    if options.broker_log:
        lines = read_broker_log(spark, options.broker_log, time_zone=options.log_time_zone)
        log_lines = window.read(lines, "ts_ms").cache()
        sources.extend(options.broker_log)
    known = _together(spark, decoded, DECODED)
    if not is_stored:
        known = known.cache()  # else its columns are read where they are used
    known = window.records(known)
    all_records = window.read(_together(spark, records, RECORDS), "timestamp_ms")
    read_events = events(all_records).cache() if records else None
    events_count = read_events.count() if read_events is not None else 0
    fit(spark, known.count() + events_count + (log_lines.count() if log_lines is not None else 0))
    sampled = window.read(_together(spark, ends, LOG_ENDS), "ts_ms") if ends else None
    shared = share_state(all_records) if records else None
    return Gathered(
        known,
        read_events if events_count else None,
        log_lines,
        tuple(sources),
        sampled,
        (*left_out_sentences(known, all_records), *left_out_of_share_state(shared)),
        shared,
        made,
        window,
    )


def share_state(records: DataFrame) -> DataFrame | None:
    """The table share_state, each record once; None: its topic is not among `records` (RECORDS)."""
    if records.where(F.col("topic") == SHARE_STATE_TOPIC).isEmpty():
        return None
    return decode_share_state(records).dropDuplicates(["partition", "offset"]).cache()


def require_one_cluster(clusters: Mapping[str, str | None]) -> None:
    """Raises PipelineError: groups of two clusters would be taken for one. A source without an id may be any."""
    known = {cluster_id: source for source, cluster_id in clusters.items() if cluster_id}
    if len(known) > 1:
        named = " and ".join(f"{source} of the cluster {cluster_id}" for cluster_id, source in known.items())
        raise PipelineError(
            f"{named}: their groups and topics would be mixed up. Analyse one cluster at a time", EXIT_USAGE
        )


def left_out_sentences(decoded: DataFrame, records: DataFrame) -> Iterator[str]:
    """What of `decoded` (DECODED) and of the events in `records` (RECORDS) nothing could be made of."""
    yield from _unread(decoded, OFFSETS_TOPIC)
    for row in sorted(unreadable_events(records).collect()):
        yield f"Left out: {row['count']} events of {EVENTS_TOPIC} are not readable here: {row['problem']}."


def left_out_of_share_state(shared: DataFrame | None) -> Iterator[str]:
    """The same of the table share_state; None: there is none."""
    return iter(()) if shared is None else _unread(shared, SHARE_STATE_TOPIC)


def _unread(decoded: DataFrame, topic: str) -> Iterator[str]:
    first = F.min(F.struct("partition", "offset", "key_type", "problem")).alias("first")
    unread = decoded.where(F.col("kind").isin(KIND_UNKNOWN, KIND_UNREADABLE))
    for row in sorted(unread.groupBy("kind").agg(F.count("*").alias("records"), first).collect()):
        what = "cannot be read" if row["kind"] == KIND_UNREADABLE else "have an unknown type"
        why = row["first"]["problem"] or f"key type {row['first']['key_type']}"
        place = f"{topic}-{row['first']['partition']}, offset {row['first']['offset']}"
        yield f"Left out: {row['records']} records of {topic} {what}; the first ({place}): {why}."


def _together(spark: SparkSession, frames: list[DataFrame], schema: StructType) -> DataFrame:
    if not frames:
        return spark.createDataFrame([], schema)
    return reduce(lambda one, other: one.unionByName(other), frames)
