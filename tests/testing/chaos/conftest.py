"""What kafka-python leaves behind."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def leaked_sockets_end_with_the_test(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """kafka-python leaves sockets to the garbage collector, and their warnings must not fall to another test."""
    yield
    caplog.get_records("call").clear()  # the log records refer to them
    gc.collect()
