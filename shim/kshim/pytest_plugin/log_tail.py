"""The end of the brokers' log, for the report of a failed test."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import pytest

LOGGERS: Final = ("kshim", "kshim.coordinator", "kshim.server")
"""Those that the brokers log with."""
_LEVEL: Final = logging.INFO - 1
"""As INFO, and yet not a level that anybody else would set."""
_RECORDS_KEPT: Final = 1_000


class LogTail(logging.Filter):
    """Keeps what the brokers log, from INFO on, and lets through only what would have been logged without it."""

    def __init__(self) -> None:
        super().__init__()
        self.records: deque[logging.LogRecord] = deque(maxlen=_RECORDS_KEPT)
        self.users = 0
        self._levels: dict[str, int] = {}

    def attach(self) -> None:
        """Begin to keep records."""
        for name in LOGGERS:
            logger = logging.getLogger(name)
            self._levels[name] = logger.level
            if logger.getEffectiveLevel() > logging.INFO:
                logger.setLevel(_LEVEL)
            logger.addFilter(self)

    def detach(self) -> None:
        """Leave the loggers as they were."""
        for name in LOGGERS:
            logger = logging.getLogger(name)
            logger.removeFilter(self)
            if logger.level == _LEVEL:
                logger.setLevel(self._levels[name])

    def filter(self, record: logging.LogRecord) -> bool:
        """Keep a record; whether others are to see it."""
        self.records.append(record)
        return record.levelno >= self._level_without(record.name)

    def _level_without(self, name: str) -> int:
        """The level of a logger, had this not been attached."""
        logger: logging.Logger | None = logging.getLogger(name)
        while logger is not None:
            level = self._levels[logger.name] if logger.level == _LEVEL else logger.level
            if level:
                return level
            logger = logger.parent
        return logging.NOTSET

    def since(self, created_s: float) -> str:
        """The lines of what was logged from a moment on."""
        formatter = logging.Formatter("%(asctime)s.%(msecs)03d %(levelname)-7s %(message)s", "%H:%M:%S")
        return "\n".join(formatter.format(record) for record in list(self.records) if record.created >= created_s)


LOG_TAIL: Final = pytest.StashKey[LogTail]()


@contextmanager
def log_tail(config: pytest.Config) -> Iterator[None]:
    """Keep the end of the log while brokers run."""
    tail = config.stash.setdefault(LOG_TAIL, LogTail())
    tail.users += 1
    if tail.users == 1:
        tail.attach()
    try:
        yield
    finally:
        tail.users -= 1
        if not tail.users:
            tail.detach()
