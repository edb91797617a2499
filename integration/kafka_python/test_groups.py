"""kafka-python in consumer groups."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from integration.kafka_python.client import KafkaPython
from integration.support.client import Client
from integration.support.group_suite import GroupSuite


@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
class TestKafkaPython(GroupSuite):
    @pytest.fixture
    def client(self) -> Client:
        return KafkaPython()

    @pytest.fixture(autouse=True)
    def _leaked_sockets_end_with_the_test(self, caplog: pytest.LogCaptureFixture) -> Iterator[None]:
        """kafka-python does not close the sockets of refused connections; a later test must not be blamed for them."""
        yield
        caplog.get_records("call").clear()  # the log records refer to them
        gc.collect()
