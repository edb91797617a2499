"""`watch` tells what happened to real consumers, on kshim and on Kafka: soon, once, and also after a restart."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import kafka
import pytest

from integration.kafka_python.client import KafkaPython
from integration.spark.fleet import KafkaPythonConsumer, wait_for_all
from integration.support.broker import Broker, Deadline
from integration.support.fixtures import KINDS, available
from integration.support.kafka import RealKafka
from integration.support.kshim import KshimProcess
from kshim_pipeline.detector.command import watch_incidents
from kshim_pipeline.inputs.kafka import Cluster
from kshim_pipeline.topics import ALERTS_TOPIC

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

pytestmark = [pytest.mark.long, pytest.mark.java, pytest.mark.timeout(600), pytest.mark.usefixtures("spark_jars")]

PARTITIONS: Final = 4
CONFIG: Final = {"group.min.session.timeout.ms": "500", "group.initial.rebalance.delay.ms": "0"}
TOLD_WITHIN_MS: Final = 30_000


@pytest.fixture(params=KINDS)
def broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Broker]:
    started: Broker
    if request.param == "kafka":
        started = available(lambda: RealKafka(tmp_path / "kafka", {**CONFIG, "offsets.topic.num.partitions": "4"}))
    else:
        started = KshimProcess(tmp_path / "kshim", config=CONFIG, options=("--events-topic",))
    started.start()
    yield started
    started.stop()


class Alerts:
    """Those in the topic, in order."""

    def __init__(self, broker: Broker) -> None:
        self._reader = kafka.KafkaConsumer(bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest")
        self._reader.assign([kafka.TopicPartition(ALERTS_TOPIC, 0)])
        self.all: list[dict[str, Any]] = []

    def wait_for(self, client: str, query: StreamingQuery, since_ms: int) -> dict[str, Any]:
        """The first about a client that happened since a time."""
        deadline = Deadline(90)
        while True:
            for alert in self.all:
                if any(name.startswith(client) for name in alert["clients"]) and alert["to_ms"] >= since_ms:
                    return alert
            if (error := query.exception()) is not None:
                raise error
            self.read()
            deadline.check(
                f"an alert about {client}; there are {[(each['cause'], each['clients']) for each in self.all]}"
            )

    def read(self) -> None:
        for records in self._reader.poll(timeout_ms=500).values():
            self.all += [json.loads(record.value) for record in records]

    def close(self) -> None:
        self._reader.close()


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def test_each_incident_is_told_once_and_soon_also_after_a_restart(
    broker: Broker, spark: SparkSession, tmp_path: Path
) -> None:
    cluster, checkpoint = Cluster(broker.bootstrap), tmp_path / "checkpoint"
    client = KafkaPython()
    client.create_topic(broker.bootstrap, "orders", PARTITIONS)
    client.create_topic(broker.bootstrap, ALERTS_TOPIC, 1)
    with ExitStack() as stack:

        def start(name: str) -> KafkaPythonConsumer:
            member = KafkaPythonConsumer(broker, "billing", "orders", name)
            stack.callback(member.kill)
            return member

        def watch() -> StreamingQuery:
            query = watch_incidents(spark, cluster, str(checkpoint), every_ms=1_000)
            stack.callback(query.stop)
            return query

        ann, ben, cleo = (start(name) for name in ("ann", "ben", "cleo"))
        wait_for_all([ann, ben, cleo], PARTITIONS)
        query = watch()
        alerts = Alerts(broker)
        stack.callback(alerts.close)
        killed_ms = now_ms()
        cleo.kill()
        wait_for_all([ann, ben], PARTITIONS)
        first = alerts.wait_for("cleo", query, killed_ms)
        assert first["at_ms"] - first["to_ms"] <= TOLD_WITHIN_MS
        assert (first["type"], first["group"], first["clients"]) == ("incident", "billing", ["cleo@127.0.0.1"])
        causes = {first["cause"], *(each["cause"] for each in first["alternatives"])}
        assert "killed" in causes
        assert first["at_ms"] >= killed_ms, "how the group started was not told"

        query.stop()
        left_ms = now_ms()
        ben.leave()
        wait_for_all([ann], PARTITIONS)
        query = watch()
        second = alerts.wait_for("ben", query, left_ms)
        assert second["clients"] == ["ben@127.0.0.1"]

        query.stop()
        shutil.rmtree(checkpoint / "incidents")  # all is read again
        query = watch()
        came_ms = now_ms()
        dan = start("dan")
        wait_for_all([ann, dan], PARTITIONS)
        assert alerts.wait_for("dan", query, came_ms)["clients"] == ["dan@127.0.0.1"]
        identities = [alert["id"] for alert in alerts.all]
        assert len(set(identities)) == len(identities)
        assert {name for alert in alerts.all for name in alert["clients"]} == {
            f"{name}@127.0.0.1" for name in ("ben", "cleo", "dan")
        }
