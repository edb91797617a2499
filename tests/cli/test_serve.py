"""`kshim serve` as a process: what it prints, how it ends, what keeps it from starting."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kshim.tools.client import Client
from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.describe_cluster import DescribeClusterRequest
from kshim_protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kshim_protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kshim_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.cli.process import Kshim, run

CLUSTER = DescribeClusterRequest(include_cluster_authorized_operations=False)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "stderr"


def ask(kshim: Kshim, request: Any, version: int) -> Any:
    client = Client(*kshim.address, client_id="test")
    try:
        return client.ask(request, version)
    finally:
        client.close()


def partition_counts(kshim: Kshim) -> dict[str, int]:
    metadata = ask(kshim, MetadataRequest(topics=None), 12)
    return {topic.name: len(topic.partitions) for topic in metadata.topics}


def test_the_first_line_is_where_it_listens_and_nothing_follows_it(log: Path) -> None:
    with Kshim(log, "--listen=127.0.0.1:0") as kshim:
        host, port = kshim.address
        assert host == "127.0.0.1"
        socket.create_connection((host, port)).close()
        code, rest = kshim.end(signal.SIGTERM)
    assert (code, rest) == (0, "")


def test_ctrl_c_ends_it_as_shells_expect(log: Path) -> None:
    with Kshim(log, "--listen=127.0.0.1:0") as kshim:
        assert kshim.end(signal.SIGINT) == (130, "")


def test_it_ends_while_clients_wait_for_answers(log: Path) -> None:
    with Kshim(log, "--listen=127.0.0.1:0") as kshim, socket.create_connection(kshim.address) as client:
        client.sendall(b"\0\0\0\x20half a frame")
        assert kshim.end(signal.SIGTERM) == (0, "")


def test_clients_are_told_to_dial_the_advertised_address(log: Path) -> None:
    with Kshim(log, "--listen=127.0.0.1:0", "--advertised=broker.example:1234") as kshim:
        cluster = ask(kshim, CLUSTER, 0)
        assert [(broker.host, broker.port) for broker in cluster.brokers] == [("broker.example", 1234)]


def test_an_advertised_port_of_0_is_the_port_that_was_bound(log: Path) -> None:
    with Kshim(log, "--listen=127.0.0.1:0", "--advertised=localhost:0") as kshim:
        cluster = ask(kshim, CLUSTER, 0)
        assert [(broker.host, broker.port) for broker in cluster.brokers] == [("localhost", kshim.address[1])]


def test_topics_are_made_at_start(log: Path) -> None:
    with Kshim(log, "--listen=127.0.0.1:0", "--topic=orders:3", "--topic=bills:1") as kshim:
        assert partition_counts(kshim) == {"orders": 3, "bills": 1}


def test_a_topic_that_clients_could_not_make_either_is_exit_code_2() -> None:
    done = run("serve", "--listen=127.0.0.1:0", "--topic=a.b:1", "--topic=a_b:1")
    assert done.returncode == 2
    assert "Topic 'a_b' collides with existing topic: a.b" in done.stderr


def test_with_the_option_the_history_has_its_topic_before_the_first_client_comes(log: Path) -> None:
    with Kshim(log, "--listen=127.0.0.1:0", "--events-topic", "--topic=orders:3") as kshim:
        assert partition_counts(kshim) == {"orders": 3, "__kshim_events": 1}


def test_a_data_directory_keeps_topics_and_cluster_id_over_a_restart(log: Path, tmp_path: Path) -> None:
    options = ["--listen=127.0.0.1:0", f"--data-dir={tmp_path / 'data'}"]
    with Kshim(log, *options, "--topic=orders:3") as kshim:
        cluster_id = ask(kshim, CLUSTER, 0).cluster_id
        assert kshim.end(signal.SIGTERM) == (0, "")
    with Kshim(log, *options, "--topic=orders:5") as kshim:
        assert ask(kshim, CLUSTER, 0).cluster_id == cluster_id
        assert partition_counts(kshim) == {"orders": 3}
        assert "Topic orders exists and keeps its 3 partitions" in kshim.log


def test_in_memory_every_start_is_another_cluster(log: Path) -> None:
    cluster_ids = set()
    for _ in range(2):
        with Kshim(log, "--listen=127.0.0.1:0") as kshim:
            cluster_ids.add(ask(kshim, CLUSTER, 0).cluster_id)
    assert len(cluster_ids) == 2


def test_a_port_in_use_is_exit_code_3(log: Path) -> None:
    with Kshim(log, "--listen=127.0.0.1:0") as kshim:
        second = run("serve", f"--listen={kshim.bootstrap}")
    assert (second.returncode, second.stdout) == (3, "")
    assert f"cannot bind {kshim.bootstrap}" in second.stderr
    assert "Traceback" not in second.stderr


def test_a_host_that_is_not_ours_is_exit_code_3() -> None:
    done = run("serve", "--listen=host.invalid:0")
    assert (done.returncode, done.stdout) == (3, "")
    assert "cannot bind host.invalid:0" in done.stderr


def test_a_data_directory_in_use_is_exit_code_3_and_names_its_owner(log: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    with Kshim(log, "--listen=127.0.0.1:0", f"--data-dir={data}") as kshim:
        second = run("serve", "--listen=127.0.0.1:0", f"--data-dir={data}")
        assert (second.returncode, second.stdout) == (3, "")
        assert f"{data} is in use by process {kshim.process.pid}" in second.stderr


def test_the_folder_of_another_broker_is_no_data_directory(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=AAAAAAAAAAAAAAAAAAAAAQ\n")
    done = run("serve", "--listen=127.0.0.1:0", f"--data-dir={tmp_path}")
    assert (done.returncode, done.stdout) == (3, "")
    assert str(tmp_path) in done.stderr


@pytest.mark.parametrize(
    ("option", "named"),
    [
        ("--config=group.max.size=many", "group.max.size=many"),
        ("--listen=nowhere", "nowhere"),
        ("--topik=a:1", "--topik"),
    ],
)
def test_a_usage_mistake_is_exit_code_2_and_one_sentence(option: str, named: str) -> None:
    done = run("serve", "--listen=127.0.0.1:0", option)
    assert (done.returncode, done.stdout) == (2, "")
    assert named in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("kshim: ")


def test_an_unknown_key_of_a_properties_file_is_named_once(log: Path, tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("group.max.sise=3\n")
    with Kshim(log, "--listen=127.0.0.1:0", f"--properties={file}", "--log-format=json") as kshim:
        assert kshim.end(signal.SIGTERM)[0] == 0
        warnings = [json.loads(line) for line in kshim.log.splitlines() if '"WARN"' in line]
        assert [warning["message"] for warning in warnings] == [
            "group.max.sise is not a configuration key of Kafka; did you mean group.max.size?"
        ]


def test_listening_beyond_this_machine_is_said_loudly(log: Path) -> None:
    with Kshim(log, "--listen=0.0.0.0:0", "--advertised=localhost:0") as kshim:
        assert kshim.address[0] == "127.0.0.1"
        assert "WITHOUT AUTHENTICATION" in kshim.log
    log.unlink()
    with Kshim(log, "--listen=127.0.0.1:0") as kshim:
        assert "WITHOUT AUTHENTICATION" not in kshim.log


def test_every_request_is_logged_when_asked_for(log: Path) -> None:
    with Kshim(log, "--listen=127.0.0.1:0", "-vv") as kshim:
        partition_counts(kshim)
        (line,) = [line for line in kshim.log.splitlines() if "DEBUG Metadata v12" in line]
        assert re.search(r"of 127\.0\.0\.1:\d{2,5}, client id test, correlation id \d+, \d+ bytes$", line)


def test_requests_that_are_answered_with_an_error_are_logged_when_asked_for(log: Path) -> None:
    with Kshim(log, "--listen=127.0.0.1:0", "-v", "--config=auto.create.topics.enable=false") as kshim:
        partition_counts(kshim)
        ask(kshim, MetadataRequest(topics=(MetadataRequestTopic(name="nothing"),)), 12)
        (line,) = [line for line in kshim.log.splitlines() if "Metadata" in line]
        assert re.search(r"DEBUG Metadata v12 of 127\.0\.0\.1:\d{2,5}, client id test, correlation id \d+, was", line)
        assert line.endswith("was answered with UNKNOWN_TOPIC_OR_PARTITION")


def test_the_member_id_that_a_new_member_receives_is_not_logged_as_an_error(log: Path) -> None:
    with Kshim(log, "--listen=127.0.0.1:0", "-v") as kshim:
        join = JoinGroupRequest(
            group_id="billing",
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            member_id="",
            protocol_type="consumer",
            protocols=(JoinGroupRequestProtocol(name="range", metadata=b""),),
        )
        assert ask(kshim, join, 9).error_code == ErrorCode.MEMBER_ID_REQUIRED
        assert ask(kshim, replace(join, member_id="nobody"), 9).error_code == ErrorCode.UNKNOWN_MEMBER_ID
        (line,) = [line for line in kshim.log.splitlines() if "was answered with" in line]
        assert line.endswith("was answered with UNKNOWN_MEMBER_ID")


def test_the_environment_configures_it_too(log: Path) -> None:
    environment = {**os.environ, "KSHIM_LISTEN": "127.0.0.1:0", "KSHIM_TOPICS": "orders:2"}
    with Kshim(log, environment=environment) as kshim:
        assert partition_counts(kshim) == {"orders": 2}


def test_a_reader_that_goes_away_after_the_first_line_changes_nothing(log: Path) -> None:
    with Kshim(log, "--listen=127.0.0.1:0") as kshim:
        assert kshim.process.stdout is not None
        kshim.process.stdout.close()
        kshim.process.stdout = None
        assert partition_counts(kshim) == {}
        assert kshim.process.poll() is None


def commit(kshim: Kshim, offset: int) -> None:
    """Commit for group g, once its shard is there."""
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="")
    topics = (OffsetCommitRequestTopic(name="orders", partitions=(partition,)),)
    deadline = time.monotonic() + 20
    while (
        ask(kshim, OffsetCommitRequest(group_id="g", member_id="", topics=topics), 2).topics[0].partitions[0].error_code
    ):
        assert time.monotonic() < deadline, "the shard never loads"


def damaged_log(log: Path, data: Path) -> Path:
    """The log of a shard with several commits, the first of which has a flipped bit."""
    with Kshim(log, "--listen=127.0.0.1:0", f"--data-dir={data}", "--topic=orders:1") as kshim:
        for offset in range(5):
            commit(kshim, offset)
        assert kshim.end(signal.SIGTERM)[0] == 0
    (path,) = (path for path in data.glob("__consumer_offsets-*/*.log") if path.stat().st_size)
    content = bytearray(path.read_bytes())
    content[100] ^= 1
    path.write_bytes(content)
    return path


def test_a_damaged_log_is_exit_code_3_and_says_where_and_what_to_do(log: Path, tmp_path: Path) -> None:
    path = damaged_log(log, tmp_path / "data")
    done = run("serve", "--listen=127.0.0.1:0", f"--data-dir={tmp_path / 'data'}")
    assert done.returncode == 3
    sentence = done.stderr.splitlines()[-1]
    for part in (str(path), "byte 0", "offset 0", "--recover=skip-corrupt"):
        assert part in sentence


def test_a_damaged_log_is_served_without_what_is_damaged_when_that_is_asked_for(log: Path, tmp_path: Path) -> None:
    path = damaged_log(log, tmp_path / "data")
    options = ["--listen=127.0.0.1:0", f"--data-dir={tmp_path / 'data'}", "--recover=skip-corrupt"]
    with Kshim(log, *options) as kshim:
        commit(kshim, 7)
        assert kshim.end(signal.SIGTERM)[0] == 0
    assert path.name in log.read_text()
    assert list(path.parent.glob("*.damaged"))


@pytest.mark.skipif(sys.platform == "win32", reason="permissions of POSIX")
def test_a_directory_that_cannot_be_written_is_exit_code_3(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir(mode=0o500)
    if os.access(data, os.W_OK):  # root may write anywhere but here
        data = Path("/proc/kshim")
    done = run("serve", "--listen=127.0.0.1:0", f"--data-dir={data}")
    assert (done.returncode, str(data) in done.stderr, len(done.stderr.splitlines())) == (3, True, 1)


def test_several_brokers_listen_each_on_a_port_of_its_own_and_know_each_other(log: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    options = ("--listen=127.0.0.1:0", "--brokers=3", "--topic=orders:3", f"--data-dir={data}")
    with Kshim(log, *options) as kshim:
        addresses = kshim.bootstrap.split(",")
        found = []
        for address in addresses:
            host, _, port = address.rpartition(":")
            client = Client(host, int(port), client_id="test")
            found.append((client.ask(CLUSTER, 1), client.ask(MetadataRequest(topics=None), 12).topics))
            client.close()
        assert kshim.end(signal.SIGTERM) == (0, "")
    cluster, topics = found[0]
    assert [(broker.broker_id, f"{broker.host}:{broker.port}") for broker in cluster.brokers] == list(
        enumerate(addresses, start=1)
    )
    assert [partition.leader_id for topic in topics for partition in topic.partitions] == [1, 2, 3]
    assert found[1:] == found[:1] * 2
    with Kshim(log, *options) as kshim:  # once more, over what the first left
        assert ask_at(kshim.bootstrap.split(",")[2], MetadataRequest(topics=None)).topics == topics
        assert kshim.end(signal.SIGTERM) == (0, "")


def ask_at(address: str, request: MetadataRequest) -> Any:
    host, _, port = address.rpartition(":")
    client = Client(host, int(port), client_id="test")
    try:
        return client.ask(request, 12)
    finally:
        client.close()


def test_brokers_whose_ports_are_taken_do_not_start(log: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run("serve", f"--listen=127.0.0.1:{port - 1}", "--brokers=2")
    assert done.returncode == 3
    assert f"127.0.0.1:{port}" in done.stderr or f"127.0.0.1:{port - 1}" in done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_it_takes_as_many_connections_as_the_system_lets_it(log: Path) -> None:
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 256), hard))
    try:
        with Kshim(log, "--listen=127.0.0.1:0") as kshim:
            limits = Path(f"/proc/{kshim.process.pid}/limits").read_text()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    (line,) = (line for line in limits.splitlines() if line.startswith("Max open files"))
    assert line.split()[3:5] == [str(hard), str(hard)]
