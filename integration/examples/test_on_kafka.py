"""The worked examples on a true Kafka, with `--kafka-real`: which of them run there, and that these pass."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from integration.support.kafka import RealKafka

ROOT = Path(__file__).parents[2]
NEED_NOTHING_OF_KSHIM = {
    "test_a_late_joiner_gets_its_share_and_each_order_is_billed_once",
    "test_payments_after_a_poison_message_are_booked",
    "test_a_poison_message_is_met_only_once",
    "test_a_rolling_restart_moves_no_partition_and_misses_no_product",
    "test_a_zombie_that_comes_back_invoices_nothing",
}
USE_NO_BROKER = {"test_the_incident_replays_as_it_was", "test_with_our_settings_the_job_would_have_found_its_offset"}


@pytest.mark.kafka
@pytest.mark.timeout(600)  # Kafka may have to be started first
def test_examples_that_need_nothing_of_kshim_pass_on_kafka(real_kafka: RealKafka, tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "docs/examples"]
    command += ["--kafka-real", real_kafka.bootstrap, "--junitxml", str(report)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=280, check=False)
    assert ended.returncode == 0, ended.stdout
    cases = ElementTree.parse(report).getroot().iter("testcase")
    passed = {case.attrib["name"].partition("[")[0] for case in cases if case.find("skipped") is None}
    assert passed == NEED_NOTHING_OF_KSHIM | USE_NO_BROKER
