"""A landing that is killed in the middle of batches, several times, loses nothing and doubles nothing."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import kafka
import pytest

from integration.spark.commands import Pipeline, run_pipeline
from integration.support.broker import Deadline
from integration.support.kshim import KshimProcess
from kshim_pipeline.decode import decode
from kshim_pipeline.inputs.kafka import Cluster
from kshim_pipeline.land.reading import decode_landed, read_landed
from kshim_pipeline.topics import OFFSETS_TOPIC

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(1800),
    pytest.mark.usefixtures("spark_jars"),
]

TOPIC = "orders"
PARTITIONS = 4
RECORDS_A_ROUND = 80_000
START_TIMEOUT_S = 300
KILL_AFTER_S = (0.0, 0.4, 0.1, 0.9)
"""How long after a batch was begun; the batches take seconds."""


@pytest.fixture
def kshim(tmp_path: Path) -> Iterator[KshimProcess]:
    process = KshimProcess(tmp_path / "kshim", topics={TOPIC: PARTITIONS}, durable=True)
    process.start()
    yield process
    process.stop()


def produce(spark: SparkSession, kshim: KshimProcess, number: int) -> None:
    """A round of records whose values are unique over all rounds; and some commits."""
    value = f"concat('{number}-', id, repeat('x', 100))"
    frame = spark.range(RECORDS_A_ROUND).selectExpr("cast(id as string) as key", f"{value} as value")
    options = {"kafka.bootstrap.servers": kshim.bootstrap, "topic": TOPIC}
    frame.write.format("kafka").options(**options).save()
    consumer = kafka.KafkaConsumer(bootstrap_servers=kshim.bootstrap, group_id="billing", enable_auto_commit=False)
    places = [kafka.TopicPartition(TOPIC, partition) for partition in range(PARTITIONS)]
    consumer.assign(places)
    for step in range(20):
        offset = number * 1_000 + step
        consumer.commit({place: kafka.OffsetAndMetadata(offset, "", -1) for place in places})
    consumer.close(autocommit=False)


def attempts(landed: Path) -> dict[str, int]:
    """The directories of batches that were begun, and their numbers."""
    return {path.name: int(path.name.partition("=")[2].partition("-")[0]) for path in landed.glob("records/batch=*")}


def finished(landed: Path) -> set[int]:
    """The numbers of finished batches."""
    return {int(path.stem) for path in landed.glob("batches/*.json")}


def wait_for(job: Pipeline, condition: Callable[[], object], what: str) -> None:
    deadline = Deadline(START_TIMEOUT_S)
    while not condition():
        job.require_running()
        deadline.check(what)
        time.sleep(0.002)


def land_and_be_killed(kshim: KshimProcess, landed: Path, log: Path, after_s: float) -> bool:
    """Whether a batch was open when it died."""
    before = attempts(landed).keys()
    job = Pipeline(log, *arguments(kshim, landed), "--continuous", "0.1")
    try:
        wait_for(job, lambda: attempts(landed).keys() - before, "a batch is begun")
        time.sleep(after_s)  # into the batch: not a wait for anything
    finally:
        job.kill()
    begun = {number for name, number in attempts(landed).items() if name not in before}
    return bool(begun - finished(landed))


def arguments(kshim: KshimProcess, landed: Path) -> list[str]:
    named = ["--topic", TOPIC, "--topic", OFFSETS_TOPIC]
    return ["land", "--bootstrap-server", kshim.bootstrap, "--out", str(landed), "--source", "shop", *named]


def places(frame: DataFrame) -> Counter[tuple[str, int, int]]:
    table = frame.select("topic", "partition", "offset").toArrow()
    return Counter(zip(*(column.to_pylist() for column in table.columns), strict=True))


def test_a_landing_killed_four_times_has_every_record_once(
    kshim: KshimProcess, spark: SparkSession, tmp_path: Path
) -> None:
    landed, log = tmp_path / "landed", tmp_path / "land.log"
    was_open = []
    for number, after_s in enumerate(KILL_AFTER_S):
        produce(spark, kshim, number)
        was_open.append(land_and_be_killed(kshim, landed, log, after_s))
    assert sum(was_open) >= 2, "it was to be killed in the middle of batches"
    produce(spark, kshim, len(KILL_AFTER_S))
    said = run_pipeline(*arguments(kshim, landed))
    assert said.startswith("Landed into ")

    found = places(read_landed(spark, str(landed)))
    spans = Cluster(kshim.bootstrap).spans(spark, [TOPIC, OFFSETS_TOPIC])
    assert found == Counter(
        (topic, partition, offset)
        for topic, partitions in spans.items()
        for partition, span in partitions.items()
        for offset in range(span.start, span.end)
    )
    values = read_landed(spark, str(landed)).where(f"topic = '{TOPIC}'").select("value")
    rounds = len(KILL_AFTER_S) + 1
    assert values.count() == values.distinct().count() == RECORDS_A_ROUND * rounds
    # A killed batch leaves files behind that belong to none; who reads files by name must not read those either.
    for decoded in (decode_landed(spark, str(landed)), decode(read_landed(spark, str(landed)))):
        commits = decoded.where("kind = 'offset_commit'")
        assert commits.count() == commits.select("partition", "offset").distinct().count() == 20 * PARTITIONS * rounds

    assert "Landed into" in run_pipeline(*arguments(kshim, landed)), "nothing is left to land"
    assert read_landed(spark, str(landed)).count() == sum(found.values())
