"""Spark's Kafka source and sink: rows of their own, from the suite that compares both brokers."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import NamedTuple

from integration.clients.driver import ROOT
from integration.clients.running import FAIL, MISSING, OK

SUITE = "integration/spark/test_source_and_sink.py"
_TIMEOUT_S = 1_800


class SparkRow(NamedTuple):
    """A test of the suite. Each asks both brokers and compares."""

    title: str
    verdict: str
    detail: str


def spark_rows(folder: Path) -> tuple[str, list[SparkRow]]:
    """Spark's version, and the suite run; its output goes to `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    report = folder / "spark.xml"
    command = [sys.executable, "-m", "pytest", SUITE, "-q", "-m", "long or not long", f"--junitxml={report}"]
    with (folder / "spark.log").open("w") as log:
        subprocess.run(command, cwd=ROOT, stdout=log, stderr=log, timeout=_TIMEOUT_S, check=False)
    assert report.exists(), f"pytest wrote no report:\n{(folder / 'spark.log').read_text()[-2_000:]}"
    rows = [_row(case) for case in ElementTree.parse(report).iter("testcase")]
    return importlib.metadata.version("pyspark"), rows


def _row(case: ElementTree.Element) -> SparkRow:
    title = case.attrib["name"].removeprefix("test_").replace("_", " ")
    for tag, verdict in (("failure", FAIL), ("error", FAIL), ("skipped", MISSING)):
        if (found := case.find(tag)) is not None:
            return SparkRow(title, verdict, found.attrib.get("message", "").splitlines()[0])
    return SparkRow(title, OK, "")
