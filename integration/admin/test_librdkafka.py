"""librdkafka's admin client."""

from __future__ import annotations

import pytest

from integration.admin.admin import GroupDescription
from integration.admin.librdkafka import LibrdkafkaAdmin
from integration.admin.suite import AdminSuite
from integration.rolling.members import Joins, librdkafka
from integration.support.broker import Broker
from integration.support.group_suite import new_name


class TestLibrdkafkaAdmin(AdminSuite):
    @pytest.fixture
    def admin(self, broker: Broker) -> LibrdkafkaAdmin:
        return LibrdkafkaAdmin(broker.bootstrap)

    @pytest.fixture
    def join(self) -> Joins:
        return librdkafka

    def test_an_unknown_group_is_dead(self, admin: LibrdkafkaAdmin, broker: Broker) -> None:
        unknown = new_name()
        assert admin.describe(unknown) == {unknown: GroupDescription("Dead", "", broker.bootstrap, ())}
