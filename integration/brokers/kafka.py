"""Three nodes of a real Apache Kafka 4.4.0: the first is controller and broker, the others are brokers."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

from integration.support.broker import Child, Deadline
from integration.support.jars import classpath
from integration.support.java import java
from integration.support.kafka import free_ports
from kshim.tools.client import BrokerGone, Client
from kshim_protocol.messages.describe_cluster import DescribeClusterRequest

_CLUSTER_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
_START_TIMEOUT_S = 180
_STOP_TIMEOUT_S = 60


class KafkaCluster:
    """`ports[n]` is that of node n + 1; `config` goes to all of them. Everything is kept in `directory`."""

    def __init__(self, directory: Path, config: dict[str, str]) -> None:
        """Raises Unavailable: no JVM or no jars."""
        self._jvm = [java(), "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx300m", "-cp", classpath()]
        self._directory = directory
        self._config = config
        *self.ports, self._controller_port = free_ports(4)
        self._children: list[Child] = []

    def start(self) -> None:
        """Format and run all, and return when all know of each other."""
        files = [self._properties(node_id) for node_id in (1, 2, 3)]
        for file in files:
            command = [*self._jvm, "kafka.tools.StorageTool", "format", "-t", _CLUSTER_ID, "-c", str(file)]
            done = subprocess.run(command, capture_output=True, text=True, timeout=_START_TIMEOUT_S, check=False)
            assert done.returncode == 0, f"Kafka's storage could not be formatted: {done.stdout}{done.stderr}"
        deadline = Deadline(_START_TIMEOUT_S)
        try:
            for file in files:
                self._children.append(Child([*self._jvm, "kafka.Kafka", str(file)], file.with_suffix(".log")))
            while not all(_brokers_known_at(port) == 3 for port in self.ports):
                for child in self._children:
                    child.require_running()
                deadline.check("three nodes of Kafka find each other")
                time.sleep(0.2)
        except BaseException:
            self.kill()
            raise

    def kill(self) -> None:
        """SIGKILL, all of them."""
        for child in self._children:
            child.kill()
        self._children.clear()

    def _properties(self, node_id: int) -> Path:
        own = f"PLAINTEXT://127.0.0.1:{self.ports[node_id - 1]}"
        is_controller = node_id == 1
        properties = {
            "process.roles": "broker,controller" if is_controller else "broker",
            "node.id": str(node_id),
            "controller.quorum.voters": f"1@127.0.0.1:{self._controller_port}",
            "listeners": f"{own},CONTROLLER://127.0.0.1:{self._controller_port}" if is_controller else own,
            "advertised.listeners": own,
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": str(self._directory / f"data-{node_id}"),
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            **self._config,
        }
        file = self._directory / f"node-{node_id}.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        return file


def _brokers_known_at(port: int) -> int:
    try:
        client = Client("127.0.0.1", port, client_id="readiness")
        try:
            request = DescribeClusterRequest(include_cluster_authorized_operations=False)
            return len(client.ask(request, 1).brokers)
        finally:
            client.close()
    except (BrokerGone, TimeoutError):
        return 0
