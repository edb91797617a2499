"""`watch` against a real kshim: a consumer that stops polling holds its group open, and a topic says so meanwhile."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import kafka
import pytest

from integration.support.kshim import KshimProcess
from kshim_pipeline.detector.command import watch
from kshim_pipeline.inputs.kafka import Cluster
from kshim_pipeline.topics import ALERTS_TOPIC

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

TIMEOUT_S = 120


@pytest.fixture
def kshim(tmp_path: Path) -> Iterator[KshimProcess]:
    process = KshimProcess(tmp_path / "kshim", topics={"orders": 2, ALERTS_TOPIC: 1}, options=("--events-topic",))
    process.start()
    yield process
    process.stop()


def consumer(kshim: KshimProcess, client_id: str, **options: Any) -> Any:
    return kafka.KafkaConsumer(
        "orders", bootstrap_servers=kshim.bootstrap, client_id=client_id, group_id="billing",
        heartbeat_interval_ms=500, **options,
    )  # fmt: skip


def next_alert(reader: Any, query: StreamingQuery) -> dict[str, Any]:
    deadline_s = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline_s:
        if (error := query.exception()) is not None:
            raise error
        for records in reader.poll(timeout_ms=200, max_records=1).values():
            for record in records:
                assert record.key == b"billing"
                alert: dict[str, Any] = json.loads(record.value)
                return alert
    raise AssertionError("no alert came")


@pytest.mark.timeout(240)
def test_a_group_that_waits_for_one_member_has_alerts_while_it_waits(
    kshim: KshimProcess, spark: SparkSession, tmp_path: Path
) -> None:
    ann = consumer(kshim, "ann")
    while not ann.assignment():
        ann.poll(timeout_ms=2_000)  # kafka-python loses a join that ends between two polls
    # Ann's heartbeats go on, but she does not poll: the rebalance that Ben begins waits for her.
    ben = consumer(kshim, "ben")
    is_over = threading.Event()

    def poll_ben() -> None:
        while not is_over.is_set():
            ben.poll(timeout_ms=100)

    thread = threading.Thread(target=poll_ben)
    thread.start()
    reader = kafka.KafkaConsumer(bootstrap_servers=kshim.bootstrap, auto_offset_reset="earliest")
    reader.assign([kafka.TopicPartition(ALERTS_TOPIC, 0)])
    query = watch(spark, Cluster(kshim.bootstrap), str(tmp_path / "checkpoint"), open_after_ms=1_000, every_ms=200)
    try:
        alert = next_alert(reader, query)
        assert (alert["type"], alert["group"], alert["phase"]) == ("rebalance_open", "billing", "JOIN")
        assert (alert["reason"], alert["trigger_client_id"]) == ("member_joined", "ben")
        assert alert["open_ms"] >= 1_000
        while alert["type"] != "rebalance_ended":
            ann.poll(timeout_ms=2_000)  # kafka-python loses a join that ends between two polls
            alert = next_alert(reader, query)
        assert alert["outcome"] == "completed"
    finally:
        query.stop()
        is_over.set()
        thread.join()
        for each in (ann, ben, reader):
            each.close()
