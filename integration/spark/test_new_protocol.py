"""Real consumers of the new protocol (KIP-848): one joins, is slow, is killed; and a classic group that goes over to it.

The same is done on kshim, which writes events, and on Kafka 4.4, whose records are read.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import pytest

from integration.kafka_python.client import KafkaPython
from integration.spark.commands import run_pipeline, tables_in
from integration.spark.fleet import LibrdkafkaConsumer, Member, wait_for_all
from integration.spark.test_real_consumers import PARTITIONS, TOPIC, table, traffic
from integration.spark.timeouts import SLOW_S
from integration.support.broker import Broker
from integration.support.fixtures import KINDS, available
from integration.support.kafka import RealKafka
from integration.support.kshim import KshimProcess

pytestmark = [pytest.mark.long, pytest.mark.java, pytest.mark.timeout(1800), pytest.mark.usefixtures("spark_jars")]

CONFIG: Final = {
    "group.min.session.timeout.ms": "500",
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.session.timeout.ms": "6000",
    "group.consumer.heartbeat.interval.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "1000",
    "log.cleaner.enable": "false",
}


@pytest.fixture(params=KINDS)
def broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Broker]:
    running: Broker
    if request.param == "kafka":
        running = kafka = available(
            lambda: RealKafka(tmp_path / "kafka", {**CONFIG, "offsets.topic.num.partitions": "4"})
        )
        kafka.start()
        yield running
        kafka.stop()
        return
    running = kshim = KshimProcess(tmp_path / "kshim", config=CONFIG, options=("--events-topic",))
    kshim.start()
    yield running
    kshim.stop()


def play(broker: Broker) -> None:
    """Group epochs: ben joins ann, who does not poll; ben is killed. Group moved: a rolling change of the protocol, and back."""
    client = KafkaPython()
    client.create_topic(broker.bootstrap, TOPIC, PARTITIONS)
    client.wait_for_leaders(broker.bootstrap, TOPIC, PARTITIONS)
    with ExitStack() as stack:
        stack.enter_context(traffic(broker))

        def start(group_id: str, client_id: str, protocol: str) -> Member:
            member = LibrdkafkaConsumer(broker, group_id, TOPIC, client_id, protocol)
            stack.callback(member.kill)
            return member

        ann = start("epochs", "ann", "consumer")
        wait_for_all([ann], PARTITIONS)
        ann.slow()
        ben = start("epochs", "ben", "consumer")
        time.sleep(SLOW_S)
        wait_for_all([ann, ben], PARTITIONS)
        ben.kill()
        wait_for_all([ann], PARTITIONS)

        kim = start("moved", "kim", "classic")
        wait_for_all([kim], PARTITIONS)
        leo = start("moved", "leo", "consumer")
        wait_for_all([kim, leo], PARTITIONS)
        leo.leave()
        wait_for_all([kim], PARTITIONS)
        kim.leave()
        ann.leave()


def test_epochs_and_migrations_are_in_the_tables_and_explained(broker: Broker, tmp_path: Path) -> None:
    play(broker)
    landed, results, page = tmp_path / "landed", tmp_path / "results", tmp_path / "report.html"
    run_pipeline("land", "--bootstrap-server", broker.bootstrap, "--out", str(landed))
    run_pipeline("analyse", "--landed", str(landed), "--out", str(results))

    epochs = [row for row in table(tables_in(results) / "tables/rebalances") if row["group_id"] == "epochs"]
    assert {row["group_type"] for row in epochs} == {"consumer"}
    joined = _only(epochs, lambda row: row["reason"] == "member_joined" and row["trigger"]["client_id"] == "ben")
    assert joined["last_to_revoke"]["client_id"] == "ann"
    assert joined["revoke_ms"] > 200, joined
    assert joined["total_ms"] == joined["compute_ms"] + joined["revoke_ms"] + joined["assign_ms"]
    gone = _only(
        epochs, lambda row: row["trigger"] is not None and row["went"] == 1 and row["trigger"]["client_id"] == "ben"
    )
    assert gone["reason"] in ("session_timeout", "member_gone")
    assert gone["outcome"] == "completed"

    owners = [row for row in table(tables_in(results) / "tables/ownership") if row["group_id"] == "epochs"]
    assert {row["topic"] for row in owners} == {TOPIC}
    assert any(row["client_id"] == "ben" and row["previous_owner"] is not None for row in owners)

    moved = [row for row in table(tables_in(results) / "tables/migrations") if row["group_id"] == "moved"]
    assert [(row["from_type"], row["to_type"]) for row in sorted(moved, key=lambda row: row["ts_ms"])] == [
        ("classic", "consumer"),
        ("consumer", "classic"),
    ]
    assert moved[0]["trigger"]["client_id"] == "leo"
    assert not [row for row in table(tables_in(results) / "analyses/storms") if row["is_flapping"]]

    at = str(joined["ts_ms"] + 1)
    lines = run_pipeline("explain", "epochs", "--at", at, "--results", str(results)).splitlines()
    assert lines[0].startswith("Group epochs, the new protocol, epoch "), lines
    assert any(line.startswith("Last to give up partitions was ann") for line in lines), lines
    run_pipeline("report", "--results", str(results), "--out", str(page))
    html = page.read_text()
    assert "went over to the new protocol" in html
    assert "epochs" in html


def _only(rows: list[dict[str, Any]], fits: Any) -> dict[str, Any]:
    found = [row for row in rows if fits(row)]
    assert len(found) == 1, rows
    return found[0]
