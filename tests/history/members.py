"""A member of a group that speaks to a node by frames, and what the events topic holds."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from kshim.partitions.internal_topics import EVENTS_TOPIC
from kshim.storage.storage import Storage
from kshim_protocol.errors import ErrorCode
from kshim_protocol.group_requests import GroupMember
from kshim_protocol.messages.join_group import JoinGroupResponse
from kshim_protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kshim_protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from kshim_protocol.records.record import iter_records
from tests.broker.harness import NodeUnderTest, a_node
from tests.coordinator.peers import subscription


class Member:
    """One client of a group `group_id` that reads `topics`."""

    def __init__(self, node: NodeUnderTest, group_id: str = "g", *topics: str) -> None:
        self.client = node.client("anna", "/10.0.0.1")
        self.group_id = group_id
        self.topics = topics or ("orders",)
        self.member_id = ""
        self.generation_id = -1

    def send_join(self) -> None:
        """One JoinGroup, which may be parked."""
        self.client.send(
            GroupMember(self.group_id, self.member_id).join(
                9, [("range", subscription(*self.topics))], session_timeout_ms=10_000, rebalance_timeout_ms=20_000
            )
        )

    def join(self) -> None:
        """Join, at once again when an id is handed out."""
        self.send_join()
        if not self.member_id and not self.client.is_waiting:
            self.member_id = self.client.take(JoinGroupResponse).member_id
            self.send_join()

    def work(self) -> Member:
        """Join and sync as the leader of a group that nobody else has to join."""
        self.join()
        reply = self.client.take(JoinGroupResponse)
        assert reply.error_code == ErrorCode.NONE
        self.member_id, self.generation_id = reply.member_id, reply.generation_id
        self.client.send(
            SyncGroupRequest(
                group_id=self.group_id,
                generation_id=self.generation_id,
                member_id=self.member_id,
                protocol_type="consumer",
                protocol_name="range",
                assignments=(),
            )
        )
        assert self.client.take(SyncGroupResponse).error_code == ErrorCode.NONE
        return self

    def leave(self) -> None:
        """LeaveGroup."""
        entry = MemberIdentity(member_id=self.member_id)
        assert self.client.ask(LeaveGroupRequest(group_id=self.group_id, members=(entry,))).error_code == ErrorCode.NONE


def a_telling_node(
    storage: Storage | None = None, *, config: Mapping[str, str] | None = None, tolerates_defects: bool = False
) -> NodeUnderTest:
    """A node that writes its history to the topic, which is there."""
    return a_node(
        {"kshim.history.topic.enable": "true", **(config or {})}, storage=storage, tolerates_defects=tolerates_defects
    )


def batches(node: NodeUnderTest, partition: int = 0) -> list[list[tuple[str, int, dict[str, Any]]]]:
    """Every batch in the events topic, as (key, timestamp, event)."""
    return [
        [
            ((record.key or b"").decode(), record.timestamp_ms, json.loads(record.value or b""))
            for record in iter_records(batch)
        ]
        for batch in node.log(EVENTS_TOPIC, partition).batches()
    ]


def written(node: NodeUnderTest, partition: int = 0) -> list[dict[str, Any]]:
    """Every event in the topic."""
    return [event for batch in batches(node, partition) for _, _, event in batch]
