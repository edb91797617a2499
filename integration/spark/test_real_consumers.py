"""Real consumers that are slowed, stopped, killed and rolled; and whether the commands say so afterwards.

The same is done on kshim, which writes events, and on Kafka 4.4, whose records and log file are read.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import kafka
import pyarrow.parquet as pq
import pytest

from integration.kafka_python.client import KafkaPython
from integration.spark.commands import run_pipeline, tables_in
from integration.spark.fleet import JavaConsumer, KafkaPythonConsumer, Member, wait_for_all
from integration.spark.timeouts import QUIET_S, SLOW_S, STOPPED_S
from integration.support.broker import Broker
from integration.support.fixtures import KINDS, available
from integration.support.jvm import Jvm
from integration.support.kafka import RealKafka
from integration.support.kshim import KshimProcess
from kshim_pipeline.demo.incidents import Truth
from kshim_pipeline.demo.judge import judge

pytestmark = [
    pytest.mark.long,
    pytest.mark.java,
    pytest.mark.timeout(1800),
    pytest.mark.usefixtures("spark_jars"),
]

TOPIC: Final = "orders"
PARTITIONS: Final = 6
CONFIG: Final = {
    "group.min.session.timeout.ms": "500",
    "group.initial.rebalance.delay.ms": "0",
    "log.cleaner.enable": "false",
}
"""Landed is at the end, once; a pipeline that lands all the time is ahead of the cleaner."""
GROUPS: Final = ("slow-python", "slow-java", "stopped-python", "killed-python", "killed-java", "rolled-python")


class Case(NamedTuple):
    """A broker that runs, and options for `analyse` beyond what was landed."""

    broker: Broker
    more: list[str]


@pytest.fixture(params=KINDS)
def case(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Case]:
    """Each broker in turn, of its own: its log and its history hold nothing else."""
    if request.param == "kafka":
        kafka = available(lambda: RealKafka(tmp_path / "kafka", {**CONFIG, "offsets.topic.num.partitions": "4"}))
        kafka.start()
        yield Case(kafka, ["--broker-log", str(kafka.log)])
        kafka.stop()
        return
    kshim = KshimProcess(tmp_path / "kshim", config=CONFIG, options=("--events-topic",))
    kshim.start()
    yield Case(kshim, [])
    kshim.stop()


class Fleet:
    """Six groups on one topic, two or three members each; what is done to them is written down in `truths`."""

    def __init__(self, broker: Broker, jvm: Jvm, stack: ExitStack) -> None:
        self._broker = broker
        self._stack = stack
        self.truths: list[Truth] = []
        doomed = available(lambda: Jvm("-Xmx128m", "-XX:TieredStopAtLevel=1"))
        self.slow_python = [self.python("slow-python", name) for name in ("ann", "ben")]
        self.stopped = [self.python("stopped-python", name) for name in ("cleo", "dan")]
        self.killed_python = [self.python("killed-python", name) for name in ("eve", "finn")]
        self.rolled = [self.python("rolled-python", name) for name in ("gus", "hal", "ina")]
        self.slow_java = [self.java(jvm, "slow-java", name) for name in ("jo", "kim")]
        self.killed_java = [self.java(jvm, "killed-java", "lea"), self.java(doomed, "killed-java", "max")]

    def python(self, group_id: str, client_id: str) -> KafkaPythonConsumer:
        member = KafkaPythonConsumer(self._broker, group_id, TOPIC, client_id)
        self._stack.callback(member.kill)
        return member

    def java(self, jvm: Jvm, group_id: str, client_id: str) -> JavaConsumer:
        member = JavaConsumer(jvm, self._broker, group_id, TOPIC, client_id)
        self._stack.callback(member.kill if client_id == "max" else member.leave)
        return member

    def play(self) -> None:
        for group in (
            self.slow_python, self.stopped, self.killed_python, self.rolled, self.slow_java, self.killed_java
        ):  # fmt: skip
            settled(*group)
        time.sleep(QUIET_S)  # that it is quiet is part of the play
        self.be_slow()
        self.roll()
        self.stop()
        self.kill()
        time.sleep(QUIET_S)
        self.end()

    def be_slow(self) -> None:
        start_ms = now_ms()
        self.slow_python[1].slow()
        self.slow_java[1].slow()
        time.sleep(SLOW_S)
        settled(*self.slow_python)
        settled(*self.slow_java)
        self.was("slow_poll", "slow-python", "ben", start_ms)
        self.was("slow_poll", "slow-java", "kim", start_ms)

    def roll(self) -> None:
        start_ms = now_ms()
        for at, name in enumerate(("gus", "hal", "ina")):
            self.rolled[at].leave()
            self.rolled[at] = self.python("rolled-python", name)
            settled(*self.rolled)
        self.was("deploy", "rolled-python", "", start_ms)

    def stop(self) -> None:
        start_ms = now_ms()
        self.stopped[1].stop()
        time.sleep(STOPPED_S)
        settled(self.stopped[0])
        self.stopped[1].resume()
        settled(*self.stopped)
        self.was("paused", "stopped-python", "dan", start_ms)

    def kill(self) -> None:
        for group_id, members, name in (
            ("killed-python", self.killed_python, "finn"), ("killed-java", self.killed_java, "max")
        ):  # fmt: skip
            start_ms = now_ms()
            members[1].kill()
            settled(members[0])
            self.was("killed", group_id, name, start_ms)

    def end(self) -> None:
        """All that are left leave: ended at once, they would look as if their host had stalled."""
        left: list[Member] = [*self.slow_python, *self.stopped, *self.rolled, *self.slow_java]
        for member in (*left, self.killed_python[0], self.killed_java[0]):
            member.leave()

    def was(self, cause: str, group_id: str, client_id: str, start_ms: int) -> None:
        culprits = frozenset([client_id] if client_id else [])
        self.truths.append(Truth(cause, frozenset([group_id]), culprits, start_ms, now_ms()))


def settled(*members: Member) -> None:
    wait_for_all(list(members), PARTITIONS)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def played(broker: Broker, jvm: Jvm) -> list[Truth]:
    client = KafkaPython()
    client.create_topic(broker.bootstrap, TOPIC, PARTITIONS)
    client.wait_for_leaders(broker.bootstrap, TOPIC, PARTITIONS)
    with ExitStack() as stack:
        stack.enter_context(traffic(broker))
        fleet = Fleet(broker, jvm, stack)
        fleet.play()
        return fleet.truths


@contextmanager
def traffic(broker: Broker) -> Iterator[None]:
    """A record to every partition five times a second: who has nothing to commit cannot be missed."""
    producer = kafka.KafkaProducer(bootstrap_servers=broker.bootstrap)
    is_over = threading.Event()

    def run() -> None:
        while not is_over.wait(0.2):
            for partition in range(PARTITIONS):
                producer.send(TOPIC, b"an order", partition=partition)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
        producer.close()


def table(folder: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(folder).to_pylist()
    return rows


def test_the_commands_name_cause_and_client(case: Case, jvm: Jvm, tmp_path: Path) -> None:
    truths = played(case.broker, jvm)
    landed, results, report = tmp_path / "landed", tmp_path / "results", tmp_path / "report.html"
    run_pipeline("land", "--bootstrap-server", case.broker.bootstrap, "--out", str(landed))
    run_pipeline("analyse", "--landed", str(landed), "--out", str(results), *case.more)

    incidents = table(tables_in(results) / "incidents")
    judged = {next(iter(one.truth.groups)): one for one in judge(truths, incidents).judged}
    diagnosed = {group_id: (one.found and one.found["cause"], one.is_culprit_right) for group_id, one in judged.items()}
    assert diagnosed == {group_id: (one.truth.cause, True) for group_id, one in judged.items()}, incidents
    assert set(diagnosed) == set(GROUPS)

    rebalances = table(tables_in(results) / "tables/rebalances")
    assert {row["basis"] for row in rebalances} == {"observed"}
    for group_id, reason, client_id in (
        ("slow-python", "member_left", "ben"),
        ("slow-java", "member_left", "kim"),
        ("stopped-python", "session_timeout", "dan"),
        ("killed-python", "session_timeout", "finn"),
        ("killed-java", "session_timeout", "max"),
        ("rolled-python", "member_left", "gus"),
    ):
        begun = {
            (row["reason"], row["trigger"]["client_id"])
            for row in rebalances
            if row["group_id"] == group_id and row["trigger"] is not None
        }
        assert (reason, client_id) in begun, (group_id, begun)

    said = run_pipeline("report", "--results", str(results), "--out", str(report))
    page = report.read_text()
    assert "the report is" in said
    assert [group_id for group_id in GROUPS if group_id not in page] == []
    for truth in truths[:1] + truths[-1:]:
        (group_id,), (client_id,) = truth.groups, truth.culprits
        lines = run_pipeline("explain", group_id, "--at", str(truth.end_ms), "--results", str(results)).splitlines()
        assert lines[0].startswith(f"Group {group_id}, generation "), lines
        assert any(line.startswith("Cause, ") and client_id in line for line in lines), lines
