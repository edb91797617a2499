"""What a service program is told: settings under Kafka's own keys in its environment, commands on its standard input."""

from __future__ import annotations

import os
import sys
import threading
import time

ENVIRONMENT = "SERVICE"
"""The variable with the settings, as a Java properties file: `key=value` lines."""


def to_text(settings: dict[str, str]) -> str:
    """The value of the variable."""
    return "".join(f"{key}={value}\n" for key, value in settings.items())


def settings() -> dict[str, str]:
    """Those of this process."""
    lines = os.environ[ENVIRONMENT].splitlines()
    return dict(line.split("=", 1) for line in lines if line)


class Commands:
    """What the standard input has asked for since the last look. Its end means `stop`."""

    def __init__(self) -> None:
        self.is_stopping = False
        self._work_ms = 0
        threading.Thread(target=self._read, daemon=True).start()

    def work(self, own_ms: int) -> None:
        """Do what one batch needs: `own_ms`, and what a command `work` has added."""
        asked_ms, self._work_ms = self._work_ms, 0
        time.sleep((own_ms + asked_ms) / 1_000)

    def _read(self) -> None:
        for line in sys.stdin:
            command, _, value = line.strip().partition(" ")
            if command == "stop":
                break
            assert command == "work", command
            self._work_ms = int(value)
        self.is_stopping = True
