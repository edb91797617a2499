"""Landing, results and checkpoints at s3a:// addresses of a real S3-compatible server, with the commands that users run."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import run
from sys import executable
from typing import TYPE_CHECKING, NamedTuple

import kafka
import pyarrow.parquet as pq
import pytest
from pyarrow.fs import LocalFileSystem, copy_files

from bench.fleet.fleet import Fleet
from bench.fleet.landed import draw, land_day
from integration.spark.commands import Pipeline, refused, run_pipeline, tables
from integration.spark.s3a.server import S3Server
from integration.spark.s3a.settings import JARS, environment
from integration.support.broker import Deadline
from integration.support.fixtures import available
from integration.support.kshim import KshimProcess
from kshim_pipeline.errors import EXIT_FAILURE, EXIT_UNAVAILABLE
from kshim_pipeline.folder import LocalFolder
from kshim_pipeline.land.batches import Batches
from kshim_pipeline.topics import EVENTS_TOPIC, OFFSETS_TOPIC

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800), pytest.mark.usefixtures("spark_jars")]

TOPIC = "orders"
PLACES = [kafka.TopicPartition(TOPIC, partition) for partition in range(4)]
GROUPS = ("billing", "search", "stock")
BUCKET = "lake"
TIMEOUT_S = 300
DAYS = Fleet(rebalances=60, groups=4, seed=3, days=3)


class Storage(NamedTuple):
    """A server with a bucket: where it is, Spark's settings for it, and the directory where its objects are files."""

    server: S3Server
    settings: dict[str, str]
    bucket: Path

    def address(self, name: str) -> str:
        """Of a directory in the bucket."""
        return f"s3a://{BUCKET}/{name}"

    def pipeline(self, *arguments: str, code: int = 0) -> str:
        """As `run_pipeline`, with these settings."""
        return run_pipeline(*arguments, code=code, environment=self.settings)


@pytest.fixture(scope="module")
def storage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Storage]:
    home = tmp_path_factory.mktemp("s3")
    available(lambda: JARS.jars)
    with available(lambda: S3Server(home)) as server:
        yield Storage(server, environment(home / "conf", server.url), server.new_bucket(BUCKET))


@pytest.fixture
def kshim(tmp_path: Path) -> Iterator[KshimProcess]:
    # What is compacted before it is landed is lost to landing, as on any disk.
    config = {"log.cleaner.enable": "false"}
    process = KshimProcess(tmp_path / "kshim", config=config, topics={TOPIC: len(PLACES)}, options=("--events-topic",))
    process.start()
    yield process
    process.stop()


def rebalance(kshim: KshimProcess, number: int) -> None:
    """A member of each group comes, commits and goes."""
    for group in GROUPS:
        member = kafka.KafkaConsumer(
            TOPIC, bootstrap_servers=kshim.bootstrap, group_id=group, client_id=f"{group}-{number}"
        )
        deadline = Deadline(TIMEOUT_S)
        while not member.assignment():
            deadline.check(f"{group} is formed")
            member.poll(timeout_ms=1_000)
        member.commit({place: kafka.OffsetAndMetadata(number, "", -1) for place in PLACES})
        member.close(autocommit=False)


def commit(kshim: KshimProcess, number: int) -> None:
    """One that is no member commits."""
    consumer = kafka.KafkaConsumer(bootstrap_servers=kshim.bootstrap, group_id="audit", enable_auto_commit=False)
    consumer.assign(PLACES)
    consumer.commit({place: kafka.OffsetAndMetadata(number, "", -1) for place in PLACES})
    consumer.close(autocommit=False)


def of_broker(kshim: KshimProcess) -> Counter[tuple[str, int, int]]:
    """The place of every record that is landed by default."""
    consumer = kafka.KafkaConsumer(bootstrap_servers=kshim.bootstrap)
    places = [
        kafka.TopicPartition(topic, partition)
        for topic in (OFFSETS_TOPIC, EVENTS_TOPIC)
        for partition in consumer.partitions_for_topic(topic)
    ]
    ends = consumer.end_offsets(places)
    consumer.close()
    return Counter((place.topic, place.partition, offset) for place, end in ends.items() for offset in range(end))


def of_files(history: Path) -> Counter[tuple[str, int, int]]:
    """The place of every record that is landed in a directory, as often as it is there."""
    found: Counter[tuple[str, int, int]] = Counter()
    for path, file in Batches(LocalFolder(history)).landed().files.items():
        table = pq.ParquetFile(history / path).read(["partition", "offset"])
        columns = (column.to_pylist() for column in table.columns)
        found.update((file.topic, *place) for place in zip(*columns, strict=True))
    return found


def wait_for(job: Pipeline, condition: Callable[[], object], what: str) -> None:
    deadline = Deadline(TIMEOUT_S)
    while not condition():
        job.require_running()
        deadline.check(what)
        time.sleep(0.01)


def test_a_name_is_taken_once(storage: Storage) -> None:
    bucket = storage.server.new_bucket("written")
    command = [executable, "-m", "integration.spark.s3a.written_once"]
    for name in ("", "/a lake"):
        arguments = [f"s3a://written{name}", f"{bucket}{name}"]
        run([*command, *arguments], env={**os.environ, **storage.settings}, check=True, timeout=TIMEOUT_S)


def test_a_history_is_landed_and_diagnosed_as_on_the_disk(
    storage: Storage, kshim: KshimProcess, tmp_path: Path
) -> None:
    history, results = storage.address("history"), storage.address("results")
    land = ("land", "--bootstrap-server", kshim.bootstrap, "--out", history)
    for number in (0, 1):
        rebalance(kshim, number)
        assert f"Landed into {history}: " in storage.pipeline(*land)
        assert of_files(storage.bucket / "history") == of_broker(kshim)
    assert "0 records" in storage.pipeline(*land), "nothing is new"
    assert of_files(storage.bucket / "history") == of_broker(kshim)

    shutil.copytree(storage.bucket / "history", tmp_path / "history")
    run_pipeline("analyse", "--landed", str(tmp_path / "history"), "--out", str(tmp_path / "results"))
    analyse = ("analyse", "--landed", history, "--out", results)
    assert int(storage.pipeline(*analyse).split()[0]) >= 2 * len(GROUPS), (
        "rebalances; one or more for each member that came"
    )
    assert storage.pipeline(*analyse).startswith("Nothing was landed since these results were computed")
    assert tables(storage.bucket / "results") == tables(tmp_path / "results")

    for question in (("explain", "billing"), ("budget", "--max-rebalances", "9")):
        asked_on_disk = run_pipeline(*question, "--results", str(tmp_path / "results"))
        assert storage.pipeline(*question, "--results", results) == asked_on_disk
    storage.pipeline("report", "--results", results, "--out", str(tmp_path / "report.html"))
    assert "billing" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_a_landing_that_is_killed_or_lost_a_file_has_every_record_once(
    storage: Storage, kshim: KshimProcess, tmp_path: Path
) -> None:
    """Batches are put together meanwhile, so that files are replaced, too."""
    history, files = storage.address("killed"), storage.bucket / "killed"
    land = ("land", "--bootstrap-server", kshim.bootstrap, "--out", history)
    job = Pipeline(tmp_path / "land.log", *land, "--continuous", "0.1", environment=storage.settings)
    number = 0

    def compacted() -> bool:
        nonlocal number
        commit(kshim, number := number + 1)
        return any(files.glob("records/*/_compaction.json")) and any(Batches(LocalFolder(files)).landed().replaced)

    try:
        wait_for(job, compacted, "files are put together")
        before = set(files.glob("records/batch=*"))
        commit(kshim, number := number + 1)
        wait_for(job, lambda: set(files.glob("records/batch=*")) - before, "a batch is begun")
        time.sleep(0.3)  # into the batch: not a wait for anything
    finally:
        job.kill()
    storage.pipeline(*land)
    assert of_files(files) == of_broker(kshim)

    largest = max(files.glob("records/*/*/*/*.parquet"), key=lambda path: path.stat().st_size)
    storage.server.client().delete_file(str(largest.relative_to(storage.bucket.parent)))
    assert "--recover" in refused(*land, code=EXIT_UNAVAILABLE, environment=storage.settings)
    assert storage.pipeline(*land, "--recover").startswith("Recovered ")
    assert of_files(files) == of_broker(kshim)


def test_days_are_analysed_as_on_the_disk(storage: Storage, spark: SparkSession, tmp_path: Path) -> None:
    history, days = storage.address("fleet"), storage.address("days")
    draw(spark, DAYS, tmp_path / "history")
    for number in range(DAYS.days):
        land_day(spark, tmp_path / "history", number)
    copy_files(
        str(tmp_path / "history"), f"{BUCKET}/fleet", LocalFileSystem(), storage.server.client(), use_threads=False
    )
    command = ("analyse", "--each-day", "--landed", history, "--out", days)
    said = storage.pipeline(*command)
    assert [line.partition(":")[0] for line in said.splitlines()] == ["2026-09-01", "2026-09-02"]
    assert storage.pipeline(*command).startswith("No day more was landed whole since the results of 2 days")
    run_pipeline("analyse", "--each-day", "--landed", str(tmp_path / "history"), "--out", str(tmp_path / "days"))
    for day in ("2026-09-01", "2026-09-02"):
        assert tables(storage.bucket / "days" / day) == tables(tmp_path / "days" / day)
    budget = ("budget", "--max-rebalances", "0")
    of_disk = run_pipeline(*budget, "--results", str(tmp_path / "days"), code=1)
    assert storage.pipeline(*budget, "--results", days, code=1) == of_disk


def test_a_killed_watch_goes_on_from_its_checkpoint(storage: Storage, kshim: KshimProcess, tmp_path: Path) -> None:
    checkpoint = storage.bucket / "watch"
    watch = ("watch", "--bootstrap-server", kshim.bootstrap, "--every", "0.2", "--checkpoint", storage.address("watch"))

    def done() -> list[int]:
        return sorted(int(path.name) for path in checkpoint.glob("commits/*") if path.name.isdecimal())

    def seen(batch: int) -> int:
        """The offset up to which events were read."""
        ends = json.loads((checkpoint / f"offsets/{batch}").read_text().splitlines()[-1])
        return int(ends[EVENTS_TOPIC]["0"])

    for round_number in (0, 1):
        before = done()
        rebalance(kshim, round_number)
        job = Pipeline(tmp_path / "watch.log", *watch, environment=storage.settings)
        try:
            wait_for(job, lambda: done()[len(before) :], "a batch is watched")  # noqa: B023
        finally:
            job.kill()
        assert done() == list(range(len(done()))), "batches go on where they ended"
    assert seen(done()[-1]) > seen(0)


def test_what_the_storage_refuses_is_one_sentence(storage: Storage, kshim: KshimProcess, tmp_path: Path) -> None:
    rebalance(kshim, 0)
    land = ("land", "--bootstrap-server", kshim.bootstrap, "--out")
    nowhere = "s3a://nowhere/history: The specified bucket does not exist."
    said = refused(*land, "s3a://nowhere/history", code=EXIT_FAILURE, environment=storage.settings)
    assert said == f"kshim pipeline: Landing failed: {nowhere}"
    analyse = ("analyse", "--landed", "s3a://nowhere/history", "--out", storage.address("other"))
    said = refused(*analyse, code=EXIT_UNAVAILABLE, environment=storage.settings)
    assert said == f"kshim pipeline: {nowhere}"
    watch = ("watch", "--bootstrap-server", kshim.bootstrap, "--checkpoint", "s3a://nowhere/watch")
    said = refused(*watch, code=EXIT_FAILURE, environment=storage.settings)
    assert said.endswith("The checkpoint cannot be used: s3a://nowhere/watch: The specified bucket does not exist.")

    wrong_key = environment(tmp_path / "wrong-key", storage.server.url, secret_key="wrong")
    said = refused(*land, storage.address("other"), code=EXIT_FAILURE, environment=wrong_key)
    assert said.startswith("kshim pipeline: Landing failed: s3a://lake/other: The request signature")
    explain = ("explain", "billing", "--results", storage.address("results"))
    said = refused(*explain, code=EXIT_UNAVAILABLE, environment=wrong_key)
    assert said.startswith("kshim pipeline: s3a://lake/results: The request signature")

    with S3Server(storage.bucket.parents[1], "--readonly") as read_only:
        may_read = environment(tmp_path / "may-read", read_only.url)
        said = refused(*land, storage.address("other"), code=EXIT_FAILURE, environment=may_read)
        assert said == "kshim pipeline: Landing into s3a://lake/other failed: Access Denied."

    no_jars = environment(tmp_path / "no-jars", storage.server.url, classpath="")
    said = refused(*land, storage.address("other"), code=EXIT_FAILURE, environment=no_jars)
    assert said.endswith("S3AFileSystem not found; its jars have to be named in spark-defaults.conf")
