"""@platformatic/kafka 2.12.1, pinned with all it depends on by `package-lock.json`."""

from __future__ import annotations

from pathlib import Path

from integration.support.node import node_program

NAME = "@platformatic/kafka"


def command() -> list[str]:
    """Raises as `node_program` does."""
    return node_program(Path(__file__).parent, "driver.js")
