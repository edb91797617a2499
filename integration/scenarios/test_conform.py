"""`kshim conform` as a user runs it, and the wire runner on scenarios that are wrong."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from integration.support.kshim import KshimProcess
from kshim.tools.client import Client
from kshim.tools.report import Verdict
from kshim.tools.scenario.parse import parse_scenario
from kshim.tools.scenario.verdict import Result
from kshim.tools.scenario.wire import play
from kshim_protocol.messages.metadata import MetadataRequest

HEADER = "# T\nsuite: s\nrules: r\nrun: wire 2s\n"
JOINED = "join a -> MEMBER_ID_REQUIRED\njoin a -> NONE generation=1\n"


def run_conform(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).with_name("kshim")), "conform", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def run(kshim: KshimProcess, text: str, header: str = HEADER) -> Result:
    host, _, port = kshim.bootstrap.rpartition(":")
    return play(parse_scenario("name", header + "\n" + text), host, int(port))


def test_kshim_passes_and_the_report_says_so(kshim_process: KshimProcess) -> None:
    done = run_conform(f"--bootstrap-server={kshim_process.bootstrap}", "--suite=leave", "--suite=versions")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 failed, 0 skipped" in done.stdout


def test_what_the_brokers_configuration_does_not_allow_is_skipped_with_the_reason(kshim_process: KshimProcess) -> None:
    done = run_conform(f"--bootstrap-server={kshim_process.bootstrap}", "--suite=session", "--output=json")
    found = json.loads(done.stdout)
    assert done.returncode == 1  # nothing could be asked
    assert (found["passed"], found["failed"]) == (0, 0)
    assert {one["reason"] for one in found["behaviours"]} == {
        "needs group.min.session.timeout.ms=500; the broker has 6000"
    }


def test_a_failure_ends_with_1_and_stands_in_the_xml(kshim_process: KshimProcess) -> None:
    # Told that sessions of 0.5 s are allowed, conform asks for them; this broker refuses.
    done = run_conform(
        f"--bootstrap-server={kshim_process.bootstrap}",
        "--suite=session",
        "--output=junit",
        "--assume=group.min.session.timeout.ms=500",
    )
    assert done.returncode == 1
    failures = ElementTree.fromstring(done.stdout).findall("testsuite/testcase/failure")
    assert failures
    assert all("INVALID_SESSION_TIMEOUT" in (failure.text or "") for failure in failures)


def test_older_versions_can_be_asked_for(kshim_process: KshimProcess) -> None:
    done = run_conform(f"--bootstrap-server={kshim_process.bootstrap}", "--max-version=JoinGroup=3", "--output=json")
    found = json.loads(done.stdout)
    assert found["failed"] == 0, done.stdout
    verdicts = {one["name"]: one for one in found["behaviours"]}
    assert verdicts["leader_leaves"]["verdict"] == "passed"
    assert verdicts["versions_join_group"]["reason"] == "needs JoinGroup v4, the broker serves it up to v3"


def test_a_wrong_answer_is_found(kshim_process: KshimProcess) -> None:
    result = run(kshim_process, JOINED + "heartbeat a -> REBALANCE_IN_PROGRESS\n")
    assert result.verdict is Verdict.FAILED
    assert result.failure is not None
    assert (result.failure.line, result.failure.expected, result.failure.seen) == (8, "REBALANCE_IN_PROGRESS", "NONE")


def test_an_answer_that_should_wait_is_found(kshim_process: KshimProcess) -> None:
    result = run(kshim_process, JOINED + "join a -> parked\n")
    assert result.failure is not None
    assert (result.failure.expected, result.failure.seen.split()[0]) == ("parked", "NONE")


def test_an_answer_that_nobody_speaks_of_is_found(kshim_process: KshimProcess) -> None:
    text = JOINED + "join b -> MEMBER_ID_REQUIRED\njoin b -> parked\njoin a -> NONE\n"
    result = run(kshim_process, text)
    assert result.failure is not None
    assert result.failure.expected == "b stays parked"


def test_a_version_the_broker_does_not_have_is_skipped(kshim_process: KshimProcess) -> None:
    result = run(kshim_process, "join a v=99 -> NONE\n")
    assert result.verdict is Verdict.SKIPPED
    assert result.reason == "needs JoinGroup v99, the broker serves it up to v9"


def test_what_kafka_does_otherwise_is_asked_of_kshim_only(kshim_process: KshimProcess) -> None:
    result = run(kshim_process, "list -> NONE\n", HEADER + "differs: Kafka is slower\n")
    assert result.verdict is Verdict.SKIPPED
    assert result.reason == "kshim differs from Kafka on purpose: Kafka is slower"


@pytest.mark.parametrize(
    ("suite", "feature", "what"),
    [
        ("share", "share.version", "share groups"),
        ("streams", "streams.version", "streams groups"),
    ],
)
def test_what_a_broker_does_not_serve_is_skipped_with_the_feature(
    suite: str, feature: str, what: str, tmp_path: Path
) -> None:
    kshim = KshimProcess(tmp_path, config={f"kshim.{feature}": "0"})
    kshim.start()
    try:
        done = run_conform(f"--bootstrap-server={kshim.bootstrap}", f"--suite={suite}", "--output=json")
    finally:
        kshim.stop()
    found = json.loads(done.stdout)
    assert (found["passed"], found["failed"]) == (0, 0)
    assert f"the broker does not serve {what} (feature {feature})" in {one["reason"] for one in found["behaviours"]}
    assert done.returncode == 1  # nothing could be asked


def test_a_scenario_that_cannot_be_said_fails_where_it_says_so(kshim_process: KshimProcess) -> None:
    result = run(kshim_process, "share-acknowledge a t-0=0-4 -> NONE\n", HEADER + "topics: t:1\n")
    assert result.failure is not None
    assert result.failure.line == 7
    assert "records are FIRST-LAST:TYPE" in result.failure.seen


def test_internal_topics_of_a_topology_are_deleted_too(kshim_process: KshimProcess) -> None:
    made = "streams-heartbeat a -> NONE status=ASSIGNMENT_DELAYED,MISSING_INTERNAL_TOPICS\nadvance 500\nlist -> NONE\n"
    header = HEADER + "topics: t:2\ntopology: 0 source=t sink=r; 1 repartition=r changelog=s\n"
    result = run(kshim_process, made, header)
    assert result.verdict is Verdict.PASSED, result.failure
    host, _, port = kshim_process.bootstrap.rpartition(":")
    client = Client(host, int(port), client_id="test")
    names = [topic.name for topic in client.ask(MetadataRequest(topics=None), 9).topics]
    client.close()
    assert not [name for name in names if name.startswith("conform-")]


def test_topics_are_deleted_afterwards(kshim_process: KshimProcess) -> None:
    listed = "fetch a all -> NONE\n"
    assert run(kshim_process, listed, HEADER + "topics: t:2\n").verdict is Verdict.PASSED
    host, _, port = kshim_process.bootstrap.rpartition(":")
    client = Client(host, int(port), client_id="test")
    names = [topic.name for topic in client.ask(MetadataRequest(topics=None), 9).topics]
    client.close()
    assert not [name for name in names if name.startswith("conform-")]
