"""What the coordinators do, in the log of the test: the standard library's, under `kshim.coordinator`."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from kshim.history.lines import line_of

if TYPE_CHECKING:
    from kshim.coordinator.step import Event

_LOG = logging.getLogger("kshim.coordinator")
_LEVELS: Final = {"WARN": logging.WARNING, "ERROR": logging.ERROR, "DEBUG": logging.DEBUG}


def log_event(event: Event) -> None:
    """Log an event as `kshim serve` does; see `Cluster.on_event`. Nothing is worded that nobody reads."""
    if not _LOG.isEnabledFor(logging.DEBUG if event.is_routine else logging.INFO):
        return
    line = line_of(event)
    if line is not None:
        level = logging.DEBUG if event.is_routine else _LEVELS.get(line.level, logging.INFO)
        _LOG.log(level, "[%s topic=%s partition=%s] %s", event.coordinator, event.topic, event.partition, line.text)
