"""How often the diagnosis is right: plays incidents on kshim and on a real Kafka, diagnoses them, counts.

    python -m integration.spark.score [--incidents 1250] [--services 100] [--seeds 7001 7002] [--write FILE] [--explain]

Seeds below 1000 were used to develop the rules, those from 7000 on only to score them.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Final

from integration.incidents.play import Played, play
from integration.incidents.truth import read_truth
from integration.spark.page import page
from integration.spark.scoring import Run, Score, found_of, score
from integration.support.broker import Broker
from integration.support.kafka import RealKafka
from integration.support.kshim import KshimProcess

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


CONFIG: Final[Mapping[str, str]] = {
    "group.min.session.timeout.ms": "500",
    "group.initial.rebalance.delay.ms": "0",
    "log.cleaner.enable": "false",
    "offsets.topic.num.partitions": "4",
}
"""Sessions of 1.5 to 3.2 s make the play faster. A pipeline lands records before compaction removes them; here they stay."""

INCIDENTS: Final = 1_250
"""Enough for a thousand after some are left out."""

KSHIM_SEED: Final = 7001
KAFKA_SEED: Final = 7002

LEAST: Final[Mapping[str, float]] = {"events": 0.97, "log": 0.90}
"""Required precision and recall of cause and member. There is no requirement for records alone."""


class By(Enum):
    """Whose diagnosis is scored."""

    RULES = "rules"
    """That of the pipeline's commands."""
    EXPLAIN = "explain"
    """That of `kshim why`, which is to be the only one (docs/design/diagnosis.md)."""


def score_on_kshim(
    spark: SparkSession, directory: Path, *, seed: int, service_count: int, incident_count: int, by: By = By.RULES
) -> Run:
    """Play on `kshim serve --events-topic`, diagnose from events and records."""
    kshim = KshimProcess(directory / "kshim", config=CONFIG, options=("--events-topic",))
    kshim.start()
    try:
        played = _play(kshim, directory, seed=seed, service_count=service_count, incident_count=incident_count)
        scores = {"events": _diagnose(spark, kshim, directory, by, with_events=True)}
        return Run("kshim", seed, service_count, played, scores)
    finally:
        kshim.stop()


def score_on_kafka(
    spark: SparkSession, directory: Path, *, seed: int, service_count: int, incident_count: int, by: By = By.RULES
) -> Run:
    """Play on Kafka 4.4, diagnose from its records and log, then from its records alone. Raises Unavailable."""
    kafka = RealKafka(directory / "kafka", CONFIG)
    kafka.start()
    try:
        played = _play(kafka, directory, seed=seed, service_count=service_count, incident_count=incident_count)
        scores = {
            "log": _diagnose(spark, kafka, directory, by, log=kafka.log),
            "records": _diagnose(spark, kafka, directory, by),
        }
        return Run("Kafka 4.4", seed, service_count, played, scores)
    finally:
        kafka.stop()


def _play(broker: Broker, directory: Path, *, seed: int, service_count: int, incident_count: int) -> Played:
    host, _, port = broker.bootstrap.rpartition(":")
    return play(
        (host, int(port)),
        _truth(directory),
        seed=seed,
        service_count=service_count,
        incident_count=incident_count,
    )


def _truth(directory: Path) -> Path:
    return directory / "truth.jsonl"


def _diagnose(
    spark: SparkSession, broker: Broker, directory: Path, by: By, *, with_events: bool = False, log: Path | None = None
) -> Score:
    """Read what the broker has, and no more; the truth is opened when all is diagnosed."""
    from kshim_pipeline.decode import decode
    from kshim_pipeline.diagnosis.incidents import incidents
    from kshim_pipeline.diagnosis.of_fleet import incidents_of_fleet
    from kshim_pipeline.inputs.broker_log import read_broker_log
    from kshim_pipeline.inputs.kafka import Cluster, read_topics
    from kshim_pipeline.model.events import events
    from kshim_pipeline.topics import EVENTS_TOPIC, OFFSETS_TOPIC

    cluster = Cluster(broker.bootstrap)
    decoded = decode(read_topics(spark, cluster, [OFFSETS_TOPIC])).cache()
    of_events: DataFrame | None = None
    if with_events:
        of_events = events(read_topics(spark, cluster, [EVENTS_TOPIC])).cache()
    lines = read_broker_log(spark, [str(log)]).cache() if log is not None else None
    diagnosed = (incidents if by is By.RULES else incidents_of_fleet)(decoded, of_events, lines)
    found = [found_of(row.asDict(recursive=True)) for row in diagnosed.collect()]
    spark.catalog.clearCache()
    return score(read_truth(_truth(directory)), found)


def main() -> int:
    """Score both, print and write the page; 1 when a figure is below what it has to reach."""
    from kshim_pipeline.setup.session import Jars, make_session

    parser = argparse.ArgumentParser(prog="python -m integration.spark.score", description=__doc__)
    parser.add_argument("--incidents", type=int, default=INCIDENTS)
    parser.add_argument("--services", type=int, default=100)
    parser.add_argument("--seeds", type=int, nargs=2, default=(KSHIM_SEED, KAFKA_SEED), metavar=("KSHIM", "KAFKA"))
    parser.add_argument("--only", choices=("kshim", "kafka"))
    parser.add_argument("--write", type=Path, metavar="FILE")
    parser.add_argument("--explain", action="store_const", const=By.EXPLAIN, default=By.RULES, dest="by")
    options = parser.parse_args()
    shuffles = {"spark.sql.shuffle.partitions": "8"}
    spark = make_session("diagnosis scores", "local[2]", jars=Jars.REQUIRED, config=shuffles)
    runs: list[Run] = []
    try:
        wanted = {"kshim": (score_on_kshim, options.seeds[0]), "kafka": (score_on_kafka, options.seeds[1])}
        for name, (scored, seed) in wanted.items():
            if options.only not in (None, name):
                continue
            began = time.monotonic()
            with tempfile.TemporaryDirectory() as directory:
                runs.append(
                    scored(
                        spark,
                        Path(directory),
                        seed=seed,
                        service_count=options.services,
                        incident_count=options.incidents,
                        by=options.by,
                    )
                )
            print(f"{runs[-1].broker}: {time.monotonic() - began:.0f} s", file=sys.stderr)
    finally:
        spark.stop()
    text = page(runs, command=f"python -m integration.spark.score --incidents {options.incidents}")
    print(text)
    if options.write is not None:
        options.write.write_text(text)
    figures = [(level, figure) for run in runs for level, of in run.scores.items() for figure in of.figures]
    return 0 if all(figure >= LEAST.get(level, 0.0) for level, figure in figures) else 1


if __name__ == "__main__":
    raise SystemExit(main())
