"""The fault `loading`: a group is loaded for a while, and answers as Kafka's does then."""

from __future__ import annotations

import pytest
import trio

from kshim.testing import open_brokers
from kshim.tools.client import Client
from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.describe_groups import DescribeGroupsRequest
from kshim_protocol.messages.heartbeat import HeartbeatRequest

BEAT = HeartbeatRequest(group_id="billing", generation_id=1, member_id="m")
DESCRIBE = DescribeGroupsRequest(groups=("billing",))


@pytest.mark.trio
async def test_a_heartbeat_is_answered_without_an_error_while_its_group_is_loaded() -> None:
    async with open_brokers() as brokers:
        host, _, port = brokers.bootstrap_servers.rpartition(":")

        def ask() -> list[ErrorCode]:
            client = Client(host, int(port), client_id="test")
            try:
                described = client.ask(DESCRIBE, 5).groups[0].error_code
                return [ErrorCode(described), ErrorCode(client.ask(BEAT, 4).error_code)]
            finally:
                client.close()

        brokers.faults.on("DescribeGroups").loading(5).once()
        assert await trio.to_thread.run_sync(ask) == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NONE]
        brokers.advance(5)
        for _ in range(100):
            if await trio.to_thread.run_sync(ask) == [ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID]:
                break
        else:
            raise AssertionError("the group was not loaded")
