"""`kshim page` in front of a real Kafka with real clients: it only asks what any client may ask, and names who it was."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from kafka import KafkaAdminClient, KafkaProducer
from kafka.admin import NewTopic
from playwright.sync_api import Page, expect

from integration.support.fixtures import available
from integration.support.kafka import RealKafka
from tests.cli.process import COMMAND

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600)]
_ALLOWED_S = 500
_PATIENCE_MS = 120_000
"""Kafka has to expire a session, and the page looks once in a second."""


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealKafka]:
    """One of its own, as it goes away; `orders` has three partitions with a record each."""
    kafka = available(lambda: RealKafka(tmp_path_factory.mktemp("kafka")))
    kafka.start()
    admin = KafkaAdminClient(bootstrap_servers=kafka.bootstrap)
    admin.create_topics([NewTopic("orders", 3, 1)])
    admin.close()
    producer = KafkaProducer(bootstrap_servers=kafka.bootstrap)
    for partition in range(3):
        producer.send("orders", b"an order", partition=partition)
    producer.close()
    yield kafka
    kafka.kill()


@pytest.fixture(scope="module")
def address(kafka: RealKafka) -> Iterator[str]:
    """Where the page is."""
    command = [COMMAND, "page", f"--bootstrap-server={kafka.bootstrap}", "--listen=127.0.0.1:0", "--interval=1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        killer = threading.Timer(_ALLOWED_S, process.kill)
        killer.start()
        assert process.stdout is not None
        found = re.search(r"http://[^/]+/page", process.stdout.readline())
        assert found is not None
        yield found[0]
        killer.cancel()
        process.kill()


@contextmanager
def consumers(kafka: RealKafka, group: str, *names: str) -> Iterator[dict[str, subprocess.Popen[bytes]]]:
    """Processes that consume, by their client ids."""
    with ExitStack() as stack:
        running: dict[str, subprocess.Popen[bytes]] = {}
        for name in names:
            command = [sys.executable, "-m", "integration.page.consumer", kafka.bootstrap, group, name, "orders"]
            process = subprocess.Popen(command, cwd=Path(__file__).parents[2], stdout=subprocess.PIPE)
            running[name] = stack.enter_context(process)
            stack.callback(running[name].kill)
        yield running


def test_groups_members_and_lag_of_a_kafka_are_listed(page: Page, kafka: RealKafka, address: str) -> None:
    with consumers(kafka, "listed", "left", "right"):
        page.goto(f"{address}?q=listed")
        row = page.locator("#groups tbody tr", has_text="listed")
        expect(row.locator(".chip")).to_have_text("Stable", timeout=_PATIENCE_MS)
        expect(row.locator("td.n").nth(0)).to_have_text("2", timeout=_PATIENCE_MS)
        expect(row.locator("td.n").nth(2)).to_have_text("0", timeout=_PATIENCE_MS)
        row.locator("a").click()
        for lane in ("left@127.0.0.1", "right@127.0.0.1", "orders-0", "orders-1", "orders-2"):
            expect(page.locator("svg.lanes text.name", has_text=lane)).to_have_count(1)
        expect(page.locator("svg.lanes text.owner")).to_have_text([re.compile("(left|right)@127.0.0.1")] * 3)
        expect(page.get_by_role("button", name="Expel")).to_have_count(0)


def test_a_member_that_lets_the_others_wait_is_named_by_the_first_screen(
    page: Page, kafka: RealKafka, address: str
) -> None:
    with consumers(kafka, "waiting", "slow", "quick") as running:
        page.goto(f"{address}?group=waiting")
        expect(page.locator("#members tbody tr")).to_have_count(2, timeout=_PATIENCE_MS)
        expect(page.locator("p.state .chip")).to_have_text("Stable", timeout=_PATIENCE_MS)
        assert running["slow"].stdout is not None
        assert running["slow"].stdout.readline() == b"has worked\n"
        running["slow"].send_signal(signal.SIGUSR1)
        with consumers(kafka, "waiting", "third"):
            expect(page.locator("p.state .chip")).to_have_text("PreparingRebalance", timeout=_PATIENCE_MS)
            expect(page.locator("#members tbody tr")).to_have_count(3, timeout=_PATIENCE_MS)
            expect(page.locator("#why .culprit")).to_have_text("\u2691 slow@127.0.0.1", timeout=_PATIENCE_MS)
            expect(page.locator("#why .cause")).to_have_text("slow_poll")
            expect(page.locator("#why .advice")).to_contain_text("max.poll.interval.ms")
            expect(page.locator("svg.lanes .culprit text.name").first).to_have_text(re.compile("^\u2691 slow"))


def test_a_member_that_was_killed_is_named_by_the_first_screen(page: Page, kafka: RealKafka, address: str) -> None:
    with consumers(kafka, "bereft", "victim", "other") as running:
        page.goto(f"{address}?group=bereft")
        expect(page.locator("#members tbody tr")).to_have_count(2, timeout=_PATIENCE_MS)
        expect(page.locator("p.state .chip")).to_have_text("Stable", timeout=_PATIENCE_MS)
        running["victim"].kill()
        expect(page.locator("#members tbody tr")).to_have_count(1, timeout=_PATIENCE_MS)
        expect(page.locator("#why")).to_contain_text("killed", timeout=_PATIENCE_MS)
        expect(page.locator("#why")).to_contain_text("victim@127.0.0.1")
        expect(page.locator("svg.lanes text.name", has_text="victim")).to_have_count(1)
        expect(page.locator("svg.lanes .bar.unowned").first).to_be_attached()


def test_a_kafka_that_goes_away_is_named_and_found_again(page: Page, kafka: RealKafka, address: str) -> None:
    with consumers(kafka, "before", "old"):
        page.goto(address)
        shown = page.locator("#groups tbody tr")
        expect(page.locator("#groups tbody tr", has_text="before")).to_have_count(1, timeout=_PATIENCE_MS)
    before = shown.count()
    kafka.kill()
    expect(page.locator(".problem")).to_contain_text("trying again", timeout=_PATIENCE_MS)
    expect(shown).to_have_count(before)  # what was read before can still be looked at
    kafka.start()
    expect(page.locator(".problem")).to_have_count(0, timeout=_PATIENCE_MS)
    with consumers(kafka, "afterwards", "new"):
        expect(page.locator("#groups tbody tr", has_text="afterwards")).to_have_count(1, timeout=_PATIENCE_MS)
