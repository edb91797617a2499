"""A member of a classic group, without a client library."""

from __future__ import annotations

from kshim.tools.client import Client
from kshim_protocol.codec import codec
from kshim_protocol.internal.consumer import ConsumerProtocolSubscription
from kshim_protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from kshim_protocol.messages.leave_group import LeaveGroupRequest
from kshim_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kshim_protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

SESSION_MS = 6_000
MINUTE = 60_000
SUBSCRIPTION = b"\0\0" + codec(ConsumerProtocolSubscription, 0).build(ConsumerProtocolSubscription(topics=("orders",)))
ONLY_RECORDS = {"kshim.history.topic.enable": "false"}
"""Of a broker that tells no more than Kafka does."""


class Peer:
    """A member without a client library: it does what it is told."""

    def __init__(self, address: tuple[str, int], name: str, group: str = "billing") -> None:
        self.client = Client(*address, client_id=name)
        self.group = group
        self.member_id = ""
        self.generation_id = -1

    def send_join(self) -> None:
        protocol = JoinGroupRequestProtocol(name="range", metadata=SUBSCRIPTION)
        request = JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=MINUTE,
            member_id=self.member_id,
            protocol_type="consumer",
            protocols=(protocol,),
        )
        self.client.send(request, 3)

    def joined(self) -> JoinGroupResponse:
        """What the join that was sent led to."""
        joined: JoinGroupResponse = self.client.receive(60)
        self.member_id, self.generation_id = joined.member_id, joined.generation_id
        return joined

    def sync(self, joined: JoinGroupResponse) -> None:
        """As the leader: with an assignment of nothing for itself."""
        assignment = SyncGroupRequestAssignment(member_id=self.member_id, assignment=b"")
        self.client.ask(
            SyncGroupRequest(
                group_id=self.group,
                generation_id=joined.generation_id,
                member_id=self.member_id,
                assignments=(assignment,),
            ),
            2,
        )

    def work(self) -> Peer:
        """Join an empty group, and sync."""
        self.send_join()
        self.sync(self.joined())
        return self

    def leave(self) -> None:
        self.client.ask(LeaveGroupRequest(group_id=self.group, member_id=self.member_id), 2)

    def commit(self, offset: int) -> None:
        """Commit an offset of the only partition of orders."""
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata=None)
        self.client.ask(
            OffsetCommitRequest(
                group_id=self.group,
                generation_id_or_member_epoch=self.generation_id,
                member_id=self.member_id,
                topics=(OffsetCommitRequestTopic(name="orders", partitions=(partition,)),),
            ),
            5,
        )

    def close(self) -> None:
        """Close the connection, without a word."""
        self.client.close()
