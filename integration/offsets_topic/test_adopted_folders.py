"""kshim started on the partition folders of a stopped Kafka, copied and nothing else done to them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from integration.offsets_topic.commands import batches
from integration.offsets_topic.scene import Scene
from integration.support.fixtures import available
from integration.support.kafka import RealKafka
from integration.support.kshim import KshimProcess

pytestmark = [pytest.mark.kafka, pytest.mark.long]


@pytest.fixture
def kafka(tmp_path: Path) -> Iterator[RealKafka]:
    """A Kafka of its own, which is stopped by the test."""
    broker = available(lambda: RealKafka(tmp_path / "kafka"))
    broker.start()
    yield broker
    broker.kill()


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_kshim_answers_for_the_groups_in_the_folders_of_a_kafka(kafka: RealKafka, tmp_path: Path, end: str) -> None:
    with Scene(kafka.bootstrap, "adopted", "orders") as scene:
        scene.play()
        in_kafka = scene.answers()
        groups, topic = scene.groups, scene.topic
    getattr(kafka, end)()
    adopting = KshimProcess(tmp_path / "kshim", durable=True)
    for folder in kafka.data.glob("*-[0-9]*"):
        shutil.copytree(folder, adopting.data / folder.name)
    before = batches(kafka.data)
    for _ in range(2):
        adopting.start()
        try:
            with Scene(adopting.bootstrap, "adopted", topic) as there:
                assert there.answers(groups) == in_kafka
        finally:
            adopting.stop()
    kept = batches(adopting.data)
    assert {partition: found[: len(before[partition])] for partition, found in kept.items()} == before
    assert (adopting.data / "__consumer_offsets-0" / "partition.metadata").exists()
    log = adopting.log.read_text()
    assert "Adopted topic __consumer_offsets with 50 partitions" in log
    assert "Rebuilt the index" not in log
