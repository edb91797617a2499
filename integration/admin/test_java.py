"""The Java `Admin`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from integration.admin.admin import AdminError
from integration.admin.java import JavaAdmin
from integration.admin.suite import RANGE, AdminSuite, MemberRemovalSuite, OffsetDeletionSuite
from integration.rolling.fleet import fleet
from integration.rolling.members import Joins, java
from integration.support.broker import Broker
from integration.support.group_suite import new_name
from integration.support.jvm import Jvm


@pytest.mark.java
class TestJavaAdmin(AdminSuite, OffsetDeletionSuite, MemberRemovalSuite):
    @pytest.fixture
    def admin(self, jvm: Jvm, broker: Broker) -> Iterator[JavaAdmin]:
        client = JavaAdmin(jvm, broker.bootstrap)
        yield client
        client.close()

    @pytest.fixture
    def join(self, jvm: Jvm) -> Joins:
        return java(jvm)

    def test_the_calls_for_classic_groups_and_for_all_tell_the_same(
        self, admin: JavaAdmin, join: Joins, broker: Broker
    ) -> None:
        with fleet(broker) as live:
            live.start(join, RANGE)
            live.start(join, RANGE)
            assert admin.describe_classic(live.group_id) == admin.describe(live.group_id)
            assert admin.list_consumer_groups()[live.group_id] == admin.list_groups()[live.group_id]

    def test_an_unknown_group_is_not_found(self, admin: JavaAdmin) -> None:
        unknown = new_name()
        for describe in (admin.describe, admin.describe_classic):
            with pytest.raises(AdminError, match="GROUP_ID_NOT_FOUND"):
                describe(unknown)
