"""The harness itself, with drivers of a few lines that behave in all the ways in which a driver can."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from integration.clients import matrix, page
from integration.clients.application import Application
from integration.clients.catalogue import CONSUMER, Client, client_named, clients, consumer_protocol_clients
from integration.clients.driver import ROOT, Driver, DriverError, Unsupported
from integration.clients.running import CANNOT, FAIL, MISSING, OK, Outcome
from integration.clients.situation import EITHER, Setting, Situation
from integration.clients.situations import SITUATIONS
from integration.clients.spark import SparkRow

Drivers = Callable[[str], Driver]

ECHO = """
import json, sys
for line in sys.stdin:
    command = json.loads(line)
    print(json.dumps(command.get("answer", {"ok": command})), flush=True)
"""
REFERENCE = page.Reference("Apache Kafka 4.4.0", "2026-11-21")


@pytest.fixture
def drivers(tmp_path: Path, request: pytest.FixtureRequest) -> Drivers:
    """Start a program as a driver."""

    def start(program: str) -> Driver:
        driver = Driver([sys.executable, "-c", program], tmp_path / "driver.log")
        request.addfinalizer(driver.close)
        return driver

    return start


def test_a_command_is_sent_without_the_fields_that_are_none(drivers: Drivers) -> None:
    assert drivers(ECHO).call("produce", topic="t", compression=None) == {"do": "produce", "topic": "t"}


def test_an_error_carries_its_name(drivers: Drivers) -> None:
    answer = {"error": "TOPIC_ALREADY_EXISTS", "message": "there is one"}
    with pytest.raises(DriverError, match=r"TOPIC_ALREADY_EXISTS: x: there is one") as raised:
        drivers(ECHO).call("x", answer=answer)
    assert raised.value.name == "TOPIC_ALREADY_EXISTS"


def test_what_the_client_cannot_express_is_no_failure(drivers: Drivers) -> None:
    with pytest.raises(Unsupported, match="no such assignor"):
        drivers(ECHO).call("x", answer={"unsupported": "no such assignor"})


def test_an_answer_of_another_shape_fails(drivers: Drivers) -> None:
    with pytest.raises(AssertionError, match="was answered"):
        drivers(ECHO).call("x", answer={"fine": True})


def test_a_driver_that_ends_is_told_with_its_last_words(drivers: Drivers) -> None:
    driver = drivers("import sys; sys.stdin.readline(); sys.exit('last words')")
    with pytest.raises(AssertionError, match="last words"):
        driver.call("x")


def test_a_driver_that_does_not_answer_is_waited_for_only_so_long(drivers: Drivers) -> None:
    driver = drivers("import time; time.sleep(60)")
    with pytest.raises(AssertionError, match=r"no answer to 'x' within 0\.1 s"):
        driver.call("x", timeout_s=0.1)
    driver.kill()
    assert driver.process.returncode == -9


def test_an_error_in_the_table_of_names_is_raised(drivers: Drivers) -> None:
    program = ECHO.replace(
        '{"ok": command}', '{"ok": {"topics": {"t": "INVALID_PARTITIONS"}, "client": "", "version": ""}}'
    )
    application = Application(drivers(program), "127.0.0.1:1")
    with pytest.raises(DriverError, match="INVALID_PARTITIONS"):
        application.create_topic("t", -5)


def test_every_folder_with_a_launch_is_a_client() -> None:
    found = clients()
    assert {"kafka-python", "confluent-kafka", "aiokafka"} <= {client.name for client in found}
    assert len({client.name for client in found}) == len(found)


def test_what_a_client_claims_is_for_it_alone() -> None:
    streams, other = (next(each for each in clients() if each.name == name) for name in ("Kafka Streams", "aiokafka"))
    assert (streams.plays("word_count"), other.plays("word_count")) == (True, False)
    assert (streams.plays("admin_topics"), other.plays("admin_topics")) == (False, True)


def test_a_client_that_has_the_consumer_protocol_is_played_with_it_as_well() -> None:
    assert {"confluent_kafka-consumer", "java-consumer"} <= {client.key for client in consumer_protocol_clients()}
    with_it = client_named("java-consumer")
    assert (with_it.library, with_it.group_protocol) == (client_named("java").name, CONSUMER)
    played = {situation.name for situation in SITUATIONS if situation.is_for(with_it)}
    assert {"group_of_three", "protocols_rolled"} <= played
    assert not {"records_round_trip", "cooperative_sticky", "word_count"} & played


def test_the_consumer_protocol_has_a_table_of_its_own() -> None:
    found = report(("a", "kshim", OK), ("a", "kafka", OK))
    with_it = Client("kafka_python", "kafka-python with it", CONSUMER)
    outcomes = [*found.outcomes, *(each._replace(client=with_it.name, verdict=CANNOT) for each in found.outcomes)]
    text = page.markdown(found._replace(clients=[*found.clients, with_it], outcomes=outcomes))
    first, _, second = text.partition("## With the consumer group protocol")
    assert "| the a | ok |" in first
    assert "| the a | - |" in second


def report(*outcomes: tuple[str, str, str], spark: Any = None) -> page.Report:
    """Of one client: situation, broker, verdict each."""
    names = sorted({situation for situation, _, _ in outcomes})
    chosen = [Situation(name, f"the {name}", lambda scene: None, Setting.SHARED, EITHER) for name in names]
    found = [
        Outcome("kafka-python", situation, broker, verdict, "because", 0.1, "3.0.12")
        for situation, broker, verdict in outcomes
    ]
    return page.Report([Client("kafka_python", "kafka-python")], chosen, found, REFERENCE, spark)


@pytest.mark.parametrize(
    ("kshim", "kafka", "shown"),
    [
        (OK, OK, "ok"),
        (FAIL, OK, "kshim FAIL, kafka ok"),
        (FAIL, FAIL, "fails on both"),
        (CANNOT, CANNOT, "-"),
        (MISSING, MISSING, "n/a"),
    ],
)
def test_a_cell_names_the_brokers_where_they_differ(kshim: str, kafka: str, shown: str) -> None:
    found = report(("a", "kshim", kshim), ("a", "kafka", kafka))
    assert page.cell(found, found.clients[0], found.situations[0]) == shown
    assert f"| the a | {shown} |" in page.markdown(found)


def test_a_cell_of_one_broker_names_it() -> None:
    found = report(("a", "kshim", OK))
    assert page.cell(found, found.clients[0], found.situations[0]) == "kshim ok"


def test_only_what_fails_on_kshim_alone_counts() -> None:
    cells = [("a", "kshim", FAIL), ("a", "kafka", OK), ("b", "kshim", FAIL), ("b", "kafka", FAIL), ("c", "kafka", FAIL)]
    assert [each.situation for each in page.failures_of_kshim_alone(report(*cells))] == ["a"]


@pytest.mark.parametrize(("kshim", "kafka", "counts"), [(0, 0, False), (1, 0, True), (4, 0, True), (4, 1, False)])
def test_what_fails_again_counts_unless_kafka_fails_too(kshim: int, kafka: int, counts: bool) -> None:
    assert matrix.is_of_kshim_alone({"kshim": kshim, "kafka": kafka}) is counts


def test_a_failure_that_kafka_was_not_asked_about_counts() -> None:
    assert len(page.failures_of_kshim_alone(report(("a", "kshim", FAIL)))) == 1


def test_a_failing_test_of_sparks_suite_counts() -> None:
    rows = [SparkRow("a stream", FAIL, "one row less"), SparkRow("a batch", OK, "")]
    found = report(("a", "kshim", OK), spark=("4.0.4", rows))
    assert [each.situation for each in page.failures_of_kshim_alone(found)] == ["a stream"]


def test_what_kafka_did_can_be_kept_and_taken_again(tmp_path: Path) -> None:
    found = report(("a", "kshim", OK), ("a", "kafka", CANNOT))
    page.save_reference(tmp_path / "kept.json", REFERENCE, found.outcomes)
    reference, kept = page.load_reference(tmp_path / "kept.json")
    assert reference == REFERENCE
    assert kept == [each for each in found.outcomes if each.broker == "kafka"]


def test_the_page_has_a_row_for_each_situation() -> None:
    text = (ROOT / "docs" / "clients.md").read_text()
    assert [situation.title for situation in SITUATIONS if f"| {situation.title} |" not in text] == []


def test_every_client_has_its_findings() -> None:
    folders = [ROOT / "integration" / "clients" / client.folder for client in clients()]
    assert [folder.name for folder in folders if not (folder / "FINDINGS.md").exists()] == []
