"""Landing after a loss: of its files, of the cluster, or of the run itself. Each test ends with an exact count."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition

from integration.kafka_python.client import KafkaPython
from integration.support.kshim import KshimProcess
from kshim_pipeline.errors import PipelineError
from kshim_pipeline.folder import LocalFolder
from kshim_pipeline.inputs.kafka import Cluster
from kshim_pipeline.land.batches import Batches
from kshim_pipeline.land.landing import land
from kshim_pipeline.land.log_ends import LogEnds
from kshim_pipeline.land.reading import decode_landed, read_landed
from kshim_pipeline.land.recovery import recover
from kshim_pipeline.topics import OFFSETS_TOPIC
from tests.pipeline.test_land import kafka_spark  # noqa: F401

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CONFIG = {"offsets.topic.num.partitions": "2"}
KEPT = {**CONFIG, "log.cleaner.enable": "false"}
COMMITS = 300

Place = tuple[str, int, int]


@pytest.fixture(scope="module")
def kshim(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KshimProcess]:
    """A broker that keeps every record."""
    process = KshimProcess(
        tmp_path_factory.mktemp("kshim"), config=KEPT, topics={"orders": 3, "returns": 1, "shipments": 1}
    )
    process.start()
    yield process
    process.stop()


@pytest.fixture
def other_kshim(tmp_path: Path) -> Iterator[KshimProcess]:
    """Another cluster."""
    process = KshimProcess(tmp_path / "other", config=KEPT, topics={"orders": 3})
    process.start()
    yield process
    process.stop()


@pytest.fixture
def cluster(kshim: KshimProcess) -> Cluster:
    return Cluster(kshim.bootstrap)


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    return tmp_path / "lake"


@pytest.fixture(scope="module")
def two_batches(
    kafka_spark: SparkSession,  # noqa: F811
    kshim: KshimProcess,
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    """A directory that records were landed into twice."""
    made = tmp_path_factory.mktemp("landed") / "lake"
    for _ in range(2):
        commit(kshim, 5)
        land(kafka_spark, Cluster(kshim.bootstrap), [OFFSETS_TOPIC], str(made))
    return made


@pytest.fixture
def twice_landed(two_batches: Path, lake: Path) -> Path:
    """A copy of it; the cluster may have records since."""
    shutil.copytree(two_batches, lake)
    return lake


def commit(kshim: KshimProcess, count: int, group: str = "billing") -> None:
    """So many records."""
    consumer = KafkaConsumer(bootstrap_servers=kshim.bootstrap, group_id=group, enable_auto_commit=False)
    try:
        for offset in range(count):
            consumer.commit({TopicPartition("orders", 0): OffsetAndMetadata(offset, "", -1)})
    finally:
        consumer.close()


def places(frame: DataFrame) -> Counter[Place]:
    return Counter(
        (row.topic, row.partition, row.offset) for row in frame.select("topic", "partition", "offset").collect()
    )


def on_the_broker(spark: SparkSession, cluster: Cluster, *topics: str) -> Counter[Place]:
    """Every offset of topics from which nothing was removed."""
    spans = cluster.spans(spark, topics or [OFFSETS_TOPIC])
    return Counter(
        (topic, partition, offset)
        for topic, partitions in spans.items()
        for partition, span in partitions.items()
        for offset in range(span.start, span.end)
    )


def not_landed(spark: SparkSession, cluster: Cluster, lake: Path) -> int:
    """How many records the cluster has more than a directory."""
    files = Batches(LocalFolder(lake)).landed().files.values()
    return on_the_broker(spark, cluster).total() - sum(file.records for file in files)


@pytest.mark.parametrize(
    "lost",
    [
        ["batches"],
        ["batches/00000000000000000000.json"],
        ["batches/00000000000000000001.json"],
        ["records/*/_batch.json"],
        ["records/*/_plan.json"],
        ["records/*/_SUCCESS"],
        ["records/*/.*"],
    ],
    ids=str,
)
def test_300_commits_are_landed_after_its_own_notes_were_moved_away(
    kafka_spark: SparkSession,  # noqa: F811
    kshim: KshimProcess,
    cluster: Cluster,
    twice_landed: Path,
    lost: list[str],
) -> None:
    """An earlier version said "Landed: 0 records" here, when its checkpoint was moved away, and never landed them."""
    others = not_landed(kafka_spark, cluster, twice_landed)
    remove(twice_landed, *lost)
    commit(kshim, COMMITS)
    assert land(kafka_spark, cluster, [OFFSETS_TOPIC], str(twice_landed)).records == others + COMMITS
    assert places(read_landed(kafka_spark, str(twice_landed))) == on_the_broker(kafka_spark, cluster)


@pytest.mark.parametrize(
    ("lost", "said"),
    [
        (["records/batch=0-*/topic=*"], r"part-.*parquet is gone \(\d+ files with \d+ records\)"),
        (["records/batch=*"], r"part-.*parquet is gone"),
        (["records/batch=0-*", "batches/*0.json"], "batch 0 is gone, although batch 1 is there"),
        (["batches", "records/batch=0-*/_batch.json"], "batch 0 is gone, although batch 1 is there"),
    ],
    ids=str,
)
def test_what_cannot_be_known_is_refused_until_it_is_recovered(
    kafka_spark: SparkSession,  # noqa: F811
    kshim: KshimProcess,
    cluster: Cluster,
    twice_landed: Path,
    lost: list[str],
    said: str,
) -> None:
    remove(twice_landed, *lost)
    commit(kshim, COMMITS)
    with pytest.raises(PipelineError, match=f"{said}.*--recover"):
        land(kafka_spark, cluster, [OFFSETS_TOPIC], str(twice_landed))
    with pytest.raises(PipelineError, match=f"{said}.*--recover"):
        read_landed(kafka_spark, str(twice_landed))
    on_broker = on_the_broker(kafka_spark, cluster)
    recovered = recover(kafka_spark, cluster, [OFFSETS_TOPIC], str(twice_landed))
    assert recovered.there + recovered.taken + recovered.read == recovered.compared == on_broker.total()
    assert places(read_landed(kafka_spark, str(twice_landed))) == on_broker
    commit(kshim, 1)
    assert land(kafka_spark, cluster, [OFFSETS_TOPIC], str(twice_landed)).records == 1
    assert decode_landed(kafka_spark, str(twice_landed)).count() == on_broker.total() + 1


def test_a_directory_of_an_earlier_version_is_taken_over(
    kafka_spark: SparkSession,  # noqa: F811
    kshim: KshimProcess,
    cluster: Cluster,
    lake: Path,
) -> None:
    """As Spark's file sink left it, after its checkpoint was lost; one file is half written."""
    commit(kshim, 5)
    land(kafka_spark, cluster, [OFFSETS_TOPIC], str(lake / "first"))
    (old,) = (lake / "first").glob("records/batch=0-*/topic=*")
    shutil.copytree(old, lake / "records" / old.name)
    whole = next((lake / "records").rglob("*.parquet"))
    (whole.parent / "part-of-a-killed-task.parquet").write_bytes(whole.read_bytes()[:100])
    shutil.rmtree(lake / "first")
    commit(kshim, COMMITS)
    with pytest.raises(PipelineError, match=r"an earlier version of kshim wrote them.*--recover"):
        land(kafka_spark, cluster, [OFFSETS_TOPIC], str(lake))
    recovered = recover(kafka_spark, cluster, [OFFSETS_TOPIC], str(lake))
    assert recovered.taken > 0
    assert recovered.read == COMMITS
    assert places(read_landed(kafka_spark, str(lake))) == on_the_broker(kafka_spark, cluster)


def test_recovery_of_a_whole_directory_changes_nothing(
    kafka_spark: SparkSession,  # noqa: F811
    kshim: KshimProcess,
    cluster: Cluster,
    twice_landed: Path,
) -> None:
    land(kafka_spark, cluster, [OFFSETS_TOPIC], str(twice_landed))
    before = sorted((twice_landed / "batches").iterdir())
    recovered = recover(kafka_spark, cluster, [OFFSETS_TOPIC], str(twice_landed))
    assert (recovered.taken, recovered.read) == (0, 0)
    assert sorted((twice_landed / "batches").iterdir()) == before
    assert land(kafka_spark, cluster, [OFFSETS_TOPIC], str(twice_landed)).records == 0


def test_a_run_may_be_killed_after_any_file_that_it_wrote_or_half_of_it(
    kafka_spark: SparkSession,  # noqa: F811
    kshim: KshimProcess,
    cluster: Cluster,
    lake: Path,
    tmp_path: Path,
) -> None:
    """The files of a batch in the order in which they were written: each beginning of that order, the last file whole or half."""
    commit(kshim, 5)
    land(kafka_spark, cluster, [OFFSETS_TOPIC], str(lake))
    before = tmp_path / "before"
    shutil.copytree(lake, before)
    commit(kshim, COMMITS)
    land(kafka_spark, cluster, [OFFSETS_TOPIC], str(lake))
    on_broker = on_the_broker(kafka_spark, cluster)
    written = sorted(
        (path for path in lake.rglob("*") if path.is_file() and not (before / path.relative_to(lake)).exists()),
        key=lambda path: path.stat().st_mtime_ns,
    )
    assert written[-1].parent.name == "batches", "nothing is written after a batch is named"
    for count in range(1, len(written) + 1):
        for is_whole in (True, False):
            if not is_whole and written[count - 1].name in ("_plan.json", "_batch.json", written[-1].name):
                continue  # these appear at once, by a rename
            killed = tmp_path / f"killed-{count}-{is_whole}"
            shutil.copytree(before, killed)
            for path in written[:count]:
                to = killed / path.relative_to(lake)
                to.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(path, to)
            if not is_whole:
                last = killed / written[count - 1].relative_to(lake)
                last.write_bytes(last.read_bytes()[: last.stat().st_size // 2])
            land(kafka_spark, cluster, [OFFSETS_TOPIC], str(killed))
            found = places(read_landed(kafka_spark, str(killed)))
            assert found == on_broker, (
                f"killed after {written[count - 1].name}, written {'whole' if is_whole else 'half'}"
            )


def test_another_cluster_is_refused_and_two_are_kept_apart(
    kafka_spark: SparkSession,  # noqa: F811
    kshim: KshimProcess,
    other_kshim: KshimProcess,
    cluster: Cluster,
    lake: Path,
) -> None:
    commit(kshim, 5)
    commit(other_kshim, 40)
    other = Cluster(other_kshim.bootstrap)
    land(kafka_spark, cluster, [OFFSETS_TOPIC], str(lake / "one"))
    with pytest.raises(PipelineError, match=r"has records of the cluster .* Land it in another directory"):
        land(kafka_spark, other, [OFFSETS_TOPIC], str(lake / "one"))
    with pytest.raises(PipelineError, match=r"has records of the cluster .* Land it in another directory"):
        recover(kafka_spark, other, [OFFSETS_TOPIC], str(lake / "one"))
    land(kafka_spark, other, [OFFSETS_TOPIC], str(lake / "other"))
    for folder, of in (("one", cluster), ("other", other)):
        assert places(read_landed(kafka_spark, str(lake / folder))) == on_the_broker(kafka_spark, of)


def test_another_cluster_is_recognised_by_its_records_where_no_notes_are_left(
    kafka_spark: SparkSession,  # noqa: F811
    kshim: KshimProcess,
    other_kshim: KshimProcess,
    cluster: Cluster,
    lake: Path,
) -> None:
    commit(kshim, 5)
    commit(other_kshim, 5)
    land(kafka_spark, cluster, [OFFSETS_TOPIC], str(lake))
    remove(lake, "batches", "records/*/_*.json")
    with pytest.raises(PipelineError, match=r"nothing says of which offsets .*--recover"):
        land(kafka_spark, cluster, [OFFSETS_TOPIC], str(lake))
    with pytest.raises(PipelineError, match=r"is of another cluster|ends at offset"):
        recover(kafka_spark, Cluster(other_kshim.bootstrap), [OFFSETS_TOPIC], str(lake))
    recover(kafka_spark, cluster, [OFFSETS_TOPIC], str(lake))
    assert places(read_landed(kafka_spark, str(lake))) == on_the_broker(kafka_spark, cluster)


def test_a_directory_of_an_earlier_version_that_has_two_clusters_is_refused(
    kafka_spark: SparkSession,  # noqa: F811
    kshim: KshimProcess,
    other_kshim: KshimProcess,
    cluster: Cluster,
    lake: Path,
) -> None:
    """Whichever of two records of one place came first would be taken for the only one."""
    for number, broker in enumerate((kshim, other_kshim)):
        commit(broker, 5, group="billing")
        land(kafka_spark, Cluster(broker.bootstrap), [OFFSETS_TOPIC], str(lake / str(number)))
        (old,) = (lake / str(number)).glob("records/batch=0-*/topic=*")
        shutil.copytree(old, lake / "records" / old.name, dirs_exist_ok=True)
        shutil.rmtree(lake / str(number))
    with pytest.raises(PipelineError, match=r"is of another cluster|ends at offset"):
        recover(kafka_spark, cluster, [OFFSETS_TOPIC], str(lake))


def test_a_file_that_was_damaged_is_landed_again(
    kafka_spark: SparkSession,  # noqa: F811
    kshim: KshimProcess,
    cluster: Cluster,
    twice_landed: Path,
) -> None:
    damaged = next(twice_landed.glob("records/batch=0-*/topic=*/day=*/*.parquet"))
    damaged.write_bytes(damaged.read_bytes()[:100])
    on_broker = on_the_broker(kafka_spark, cluster)
    recovered = recover(kafka_spark, cluster, [OFFSETS_TOPIC], str(twice_landed))
    assert recovered.unread == (str(damaged.relative_to(twice_landed)),)
    assert (recovered.gone, recovered.lost, recovered.there + recovered.read) == (0, (), on_broker.total())
    assert places(read_landed(kafka_spark, str(twice_landed))) == on_broker


def test_a_recovery_keeps_topics_that_it_was_not_asked_for(
    kafka_spark: SparkSession,  # noqa: F811
    kshim: KshimProcess,
    cluster: Cluster,
    lake: Path,
) -> None:
    """A run of two topics lost its notes; neither is lost, and neither is landed twice by the next run."""
    commit(kshim, 5)
    produce(kshim, "orders", 5)
    land(kafka_spark, cluster, [OFFSETS_TOPIC, "orders"], str(lake))
    remove(lake, "batches", "records/*/_*.json")
    recovered = recover(kafka_spark, cluster, [OFFSETS_TOPIC], str(lake))
    assert recovered.read == 0
    produce(kshim, "orders", 2)
    assert land(kafka_spark, cluster, [OFFSETS_TOPIC, "orders"], str(lake)).records == 2
    assert places(read_landed(kafka_spark, str(lake))) == on_the_broker(kafka_spark, cluster, OFFSETS_TOPIC, "orders")


def test_log_ends_of_another_cluster_are_not_mixed_in(
    kafka_spark: SparkSession,  # noqa: F811
    kshim: KshimProcess,
    other_kshim: KshimProcess,
    cluster: Cluster,
    lake: Path,
) -> None:
    commit(kshim, 5)
    commit(other_kshim, 5)
    land(kafka_spark, cluster, [OFFSETS_TOPIC], str(lake), ends=LogEnds(kafka_spark, cluster, str(lake)))
    before = sorted((lake / "log_ends").iterdir())
    assert before
    other = Cluster(other_kshim.bootstrap)
    with pytest.raises(PipelineError, match="has records of the cluster"):
        land(kafka_spark, other, [OFFSETS_TOPIC], str(lake), ends=LogEnds(kafka_spark, other, str(lake)))
    assert sorted((lake / "log_ends").iterdir()) == before


def test_what_was_deleted_before_it_was_recovered_is_said(
    kafka_spark: SparkSession,  # noqa: F811
    kshim: KshimProcess,
    cluster: Cluster,
    lake: Path,
) -> None:
    """Two records were landed in a file that is lost, and deleted; three were deleted before they were landed."""
    produce(kshim, "shipments", 4)
    land(kafka_spark, cluster, ["shipments"], str(lake))
    produce(kshim, "shipments", 4)
    remove(lake, "records/batch=0-*/topic=*")
    admin = KafkaAdminClient(bootstrap_servers=kshim.bootstrap)
    admin.delete_records({TopicPartition("shipments", 0): 2})
    recovered = recover(kafka_spark, cluster, ["shipments"], str(lake))
    assert (recovered.read, recovered.gone, recovered.lost) == (6, 2, ())
    remove(lake, "records/batch=1-*/_batch.json", "batches/*1.json")
    produce(kshim, "shipments", 3)
    admin.delete_records({TopicPartition("shipments", 0): 11})
    admin.close()
    recovered = recover(kafka_spark, cluster, ["shipments"], str(lake))
    assert [str(loss) for loss in recovered.lost] == ["shipments-0: offsets 4 to 10"]
    assert places(read_landed(kafka_spark, str(lake))) == Counter(("shipments", 0, offset) for offset in range(2, 8))


def test_a_recreated_topic_is_refused(
    kafka_spark: SparkSession,  # noqa: F811
    kshim: KshimProcess,
    cluster: Cluster,
    lake: Path,
) -> None:
    """The new one has more records than the old one had, so that offsets alone would not tell."""
    client = KafkaPython()
    produce(kshim, "returns", 5)
    land(kafka_spark, cluster, ["returns"], str(lake))
    admin = KafkaAdminClient(bootstrap_servers=kshim.bootstrap)
    admin.delete_topics(["returns"])
    admin.close()
    client.create_topic(kshim.bootstrap, "returns", 1)
    client.wait_for_leaders(kshim.bootstrap, "returns", 1)
    produce(kshim, "returns", 9)
    with pytest.raises(PipelineError, match=r"The topic returns was recreated: .* Land it in another directory"):
        land(kafka_spark, cluster, ["returns"], str(lake))
    assert read_landed(kafka_spark, str(lake)).count() == 5
    assert land(kafka_spark, cluster, ["returns"], str(lake / "anew")).records == 9


def test_the_name_of_a_directory_stays(
    kafka_spark: SparkSession,  # noqa: F811
    kshim: KshimProcess,
    lake: Path,
) -> None:
    commit(kshim, 1)
    land(kafka_spark, Cluster(kshim.bootstrap, name="shop"), [OFFSETS_TOPIC], str(lake))
    commit(kshim, 1)
    land(kafka_spark, Cluster(kshim.bootstrap), [OFFSETS_TOPIC], str(lake))
    assert {row.source for row in read_landed(kafka_spark, str(lake)).collect()} == {"shop"}
    assert {row.source for row in decode_landed(kafka_spark, str(lake)).collect()} == {"shop"}
    with pytest.raises(PipelineError, match="has records of the source shop, so --source cannot be store"):
        land(kafka_spark, Cluster(kshim.bootstrap, name="store"), [OFFSETS_TOPIC], str(lake))


def produce(kshim: KshimProcess, topic: str, count: int) -> None:
    producer = KafkaProducer(bootstrap_servers=kshim.bootstrap)
    for number in range(count):
        producer.send(topic, b"%d" % number, partition=0)
    producer.flush()
    producer.close()


def remove(lake: Path, *patterns: str) -> None:
    for pattern in patterns:
        found = list(lake.glob(pattern))
        assert found, pattern
        for path in found:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
