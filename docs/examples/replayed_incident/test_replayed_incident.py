import json
import subprocess
import sys
from pathlib import Path

import pytest
from weekly_billing import bill_new_orders

HERE = Path(__file__).parent
INCIDENT = HERE / "incident.rec"  # written by record_incident.py
SETTINGS = [line for line in (HERE / "broker.properties").read_text().splitlines() if not line.startswith("#")]


def replay(*options):
    command = [sys.executable, "-m", "kshim", "replay", INCIDENT, "--json", *options]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return ended.returncode, json.loads(ended.stdout)


def test_the_incident_replays_as_it_was():
    assert replay()[1]["differences"] == []


def test_with_our_settings_the_job_would_have_found_its_offset():
    options = [option for setting in SETTINGS for option in ("--set", setting)]
    _, report = replay(*options)
    (difference,) = (found for found in report["differences"] if found["api"] == "OffsetFetch")
    offset = next(field for field in difference["fields"] if field["path"].endswith("committed_offset"))
    assert (offset["recorded"], offset["replayed"]) == ("-1", "2")


@pytest.mark.kshim(topics={"orders": 1}, config=dict(setting.split("=") for setting in SETTINGS))
def test_after_the_holidays_the_job_bills_new_orders_only(kshim):
    billed = []
    config = kshim.client_config("confluent-kafka")
    kshim.produce("orders", "coffee", "tea")
    bill_new_orders(config, billed.append)
    kshim.clock.advance(9 * 24 * 3600)
    kshim.produce("orders", "cake")
    bill_new_orders(config, billed.append)
    assert billed == ["coffee", "tea", "cake"]
