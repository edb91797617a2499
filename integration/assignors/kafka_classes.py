"""A JVM that answers questions about groups with Kafka's own classes (`KafkaClasses.java`)."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from integration.support.jars import KAFKA
from integration.support.java_program import java_program

_SOURCE = Path(__file__).with_name("KafkaClasses.java")
_STOP_TIMEOUT_S = 30


class KafkaClasses:
    """Asks a JVM.

    Raises:
        Unavailable: no JVM or no jars, from the constructor.
    """

    def __init__(self) -> None:
        """Start it."""
        command = java_program("KafkaClasses", [_SOURCE], KAFKA, "-Dorg.slf4j.simpleLogger.defaultLogLevel=off")
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, question: Mapping[str, Any]) -> dict[str, Any]:
        """One answer. `about` of a question says what it is about."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer

    def stop(self) -> None:
        """End the JVM."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(_STOP_TIMEOUT_S)
        self._process.stdout.close()
