"""kafka-python's admin client."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from integration.admin.admin import AdminError
from integration.admin.kafka_python import KafkaPythonAdmin
from integration.admin.suite import AdminSuite, MemberRemovalSuite, OffsetDeletionSuite
from integration.rolling.members import Joins, kafka_python, librdkafka
from integration.support.broker import Broker
from integration.support.group_suite import new_name


class TestKafkaPythonAdmin(AdminSuite, OffsetDeletionSuite, MemberRemovalSuite):
    @pytest.fixture
    def admin(self, broker: Broker) -> Iterator[KafkaPythonAdmin]:
        client = KafkaPythonAdmin(broker.bootstrap)
        yield client
        client.close()

    @pytest.fixture(
        params=[
            pytest.param(librdkafka, id="librdkafka-members"),
            pytest.param(kafka_python, id="kafka-python-members", marks=pytest.mark.long),  # a second to close each
        ]
    )
    def join(self, request: pytest.FixtureRequest) -> Joins:
        joins: Joins = request.param
        return joins

    def test_an_unknown_group_is_an_error_in_state_dead(self, admin: KafkaPythonAdmin) -> None:
        unknown = new_name()
        with pytest.raises(AdminError, match=rf"GroupIdNotFoundError: Group {unknown} not found\. in state Dead"):
            admin.describe(unknown)
