"""kafka-python in consumer groups."""

from __future__ import annotations

import pytest

from integration.kafka_python.client import KafkaPython
from integration.support.client import Client
from integration.support.group_suite import GroupSuite


class TestKafkaPython(GroupSuite):
    @pytest.fixture
    def client(self) -> Client:
        return KafkaPython()
