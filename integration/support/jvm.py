"""Java without compiling anything: a JVM with the Kafka jars, its classes called through py4j."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
import time
from types import TracebackType
from typing import Any

from integration.support.jars import classpath
from integration.support.java import java

_START_TIMEOUT_S = 60
_STOP_TIMEOUT_S = 30
_LOGGING = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"


class Jvm:
    """A running JVM with the Kafka jars on its class path and a py4j gateway to it.

    `jvm.classes.org.apache.kafka...` names a Java class; calling it constructs an object. `byte[]` and `bytes` are
    converted both ways; Java collections behave as Python's; a Java exception arrives as `Py4JJavaError`.

    Raises:
        Unavailable: no JVM or no jars, from the constructor.
    """

    def __init__(self, *options: str) -> None:
        """Start a JVM; `options` go to `java` (`-Xmx512m`)."""
        import py4j.java_gateway as py4j

        command = [
            java(),
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",  # few calls of many methods: the second compiler never earns its time back
            _LOGGING,
            *options,
            "-cp",
            os.pathsep.join((py4j.find_jar_path(), classpath())),
        ]
        self._output = tempfile.TemporaryFile("a+", prefix="kshim-jvm-")  # noqa: SIM115  lives as long as the JVM
        # The JVM ends when its standard input does: it cannot outlive this process, however that one ends.
        self.process = subprocess.Popen(
            [*command, "py4j.GatewayServer", "--die-on-broken-pipe", "0"],
            stdin=subprocess.PIPE,
            stdout=self._output,
            stderr=subprocess.STDOUT,
        )
        self._gateway: Any = None
        try:
            port = self._port()
        except BaseException:
            self.kill()
            raise
        parameters = py4j.GatewayParameters(port=port, auto_convert=True)
        self._gateway = py4j.JavaGateway(gateway_parameters=parameters)

    def _port(self) -> int:
        deadline = time.monotonic() + _START_TIMEOUT_S
        while time.monotonic() < deadline:
            if match := re.search(r"^(\d+)\n", self.output(), re.MULTILINE):
                return int(match[1])
            if self.process.poll() is not None:
                break
            time.sleep(0.02)
        raise AssertionError(f"the JVM did not start: {self.output() or 'no output'}")

    def output(self) -> str:
        """What the JVM wrote so far, to both its outputs."""
        self._output.seek(0)
        return self._output.read()

    @property
    def classes(self) -> Any:
        """The root of Java's package names."""
        return self._gateway.jvm

    def is_instance(self, value: object, class_name: str) -> bool:
        """Java's `instanceof`, the class given by its full name."""
        import py4j.java_gateway as py4j

        return bool(py4j.is_instance_of(self._gateway, value, class_name))

    def stop(self) -> None:
        """End the JVM as a program ends. Objects still open in it (consumers) are not closed first."""
        self._disconnect()
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            self.process.wait(_STOP_TIMEOUT_S)
        finally:
            self.kill()

    def kill(self) -> None:
        """End the JVM at once, as a crash does."""
        self._disconnect()
        self.process.kill()
        if self.process.stdin is not None:
            self.process.stdin.close()
        self.process.wait()
        self._output.close()

    def _disconnect(self) -> None:
        """Close the connections to the JVM, and keep py4j from opening new ones.

        It would when Python lets go of a Java object, later, to tell a JVM that is no more.
        """
        if self._gateway is not None:
            self._gateway.close(keep_callback_server=True)
            self._gateway._gateway_client.is_connected = False

    def __enter__(self) -> Jvm:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()
