"""A standalone Spark cluster on loopback, made of what pyspark brings: a master and workers, each a JVM, and a Python without packages."""

from __future__ import annotations

import os
import re
import time
import venv
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Final

from integration.support.broker import Child, Deadline
from integration.support.kafka import free_ports
from kshim_pipeline.setup.java import find_java, java_home_for_spark

_START_TIMEOUT_S: Final = 90
_STOP_TIMEOUT_S: Final = 60
_LOOPBACK: Final = {"SPARK_LOCAL_IP": "127.0.0.1"}
_DEFAULTS: Final = """\
spark.executor.memory 640m
spark.sql.shuffle.partitions 4
"""
"""Spark's own 200 partitions would be 200 tasks a step, for two cores and a few hundred rows."""


class StandaloneCluster:
    """`worker_count` workers of one core each; running inside `with`. Their logs and work are in `directory`."""

    def __init__(self, directory: Path, worker_count: int = 2) -> None:
        self._directory = directory
        self._worker_count = worker_count
        self._children: list[Child] = []
        self._port, self._ui_port = free_ports(2)

    @property
    def url(self) -> str:
        """What `--master` takes."""
        return f"spark://127.0.0.1:{self._port}"

    @property
    def environment(self) -> dict[str, str]:
        """The driver's configuration as an operator provides it: Spark's variables and `spark-defaults.conf`."""
        return {**_LOOPBACK, "SPARK_CONF_DIR": str(self._directory / "conf"), "PYSPARK_PYTHON": str(self.python)}

    @property
    def python(self) -> Path:
        """The Python of the workers, which has nothing but its own library; Spark brings pyspark."""
        return self._directory / "python/bin/python"

    def __enter__(self) -> StandaloneCluster:
        (self._directory / "conf").mkdir(parents=True)
        (self._directory / "conf/spark-defaults.conf").write_text(_DEFAULTS)
        venv.create(self._directory / "python", symlinks=True)
        address = ["--host", "127.0.0.1"]
        try:
            ports = ["--port", str(self._port), "--webui-port", str(self._ui_port)]
            master = self._start("master", "master.Master", *address, *ports)
            wait(master, lambda: "I have been elected leader" in text(master), "the master leads")
            for number in range(self._worker_count):
                work = ["--work-dir", str(self._directory / f"work-{number}"), "--cores", "1", "--memory", "1g"]
                self._start(f"worker-{number}", "worker.Worker", *address, "--webui-port", "0", *work, self.url)
            wait(master, lambda: text(master).count("Registering worker") == self._worker_count, "workers register")
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._end()

    def executors_of(self, application: str) -> int:
        """How many workers ran an executor for the application of this name, by the master's log."""
        log = text(self._children[0])
        (identity,) = re.findall(rf"Registered app {re.escape(application)} with ID (\S+)", log)
        return len(set(re.findall(rf"Launching executor {identity}/\d+ on worker (\S+)", log)))

    def _start(self, name: str, role: str, *options: str) -> Child:
        import pyspark

        home = Path(pyspark.__file__).parent
        # What spark-class, a shell script, comes to.
        java = str(java_home_for_spark(find_java()) / "bin/java")
        command = [java, "-cp", f"{home}/jars/*", "-Xmx256m", "-XX:+UseSerialGC", f"-Dspark.home={home}"]
        command += [f"org.apache.spark.deploy.{role}", *options]
        ours = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        variables = {"SPARK_HOME": str(home), "SPARK_SCALA_VERSION": "2.13", **_LOOPBACK}
        child = Child(command, self._directory / f"{name}.log", environment=ours | variables)
        self._children.append(child)
        return child

    def _end(self) -> None:
        for child in reversed(self._children):
            if child.process.poll() is None:
                child.terminate(timeout_s=_STOP_TIMEOUT_S)


def text(child: Child) -> str:
    return child.log.read_text(errors="replace")


def wait(child: Child, condition: Callable[[], object], what: str) -> None:
    deadline = Deadline(_START_TIMEOUT_S)
    while not condition():
        child.require_running()
        deadline.check(f"{what}; the log ends in:\n{child.log_tail()}")
        time.sleep(0.1)
