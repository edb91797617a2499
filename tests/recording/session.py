"""Sessions of clients with a node that records, without sockets and clocks."""

from __future__ import annotations

from collections.abc import Mapping
from io import BytesIO
from typing import Any

from kshim.recording.format import Entry, Reader
from kshim.replay.replay import Replay, replay
from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.heartbeat import HeartbeatRequest
from kshim_protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from kshim_protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kshim_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kshim_protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.broker.harness import Client, NodeUnderTest, a_node

HOUR_MS = 3_600_000


class Recorded:
    """A node and the recording of what it is asked. `options` are those of `a_node`."""

    def __init__(self, config: Mapping[str, str] | None = None, **options: Any) -> None:
        self.out = BytesIO()
        self.node: NodeUnderTest = a_node(config, record=self.out.write, **options)

    @property
    def data(self) -> bytes:
        """The recording, ended."""
        assert self.node.recorder is not None
        self.node.recorder.close()
        return self.out.getvalue()

    def entries(self) -> list[Entry]:
        """What it holds."""
        return list(Reader(BytesIO(self.data)))

    def replay(self, timing_ms: int | None = None, **settings: str) -> Replay:
        """Play it; the settings have underscores for dots."""
        keys = {key.replace("_", "."): value for key, value in settings.items()}
        return replay(BytesIO(self.data), keys, timing_ms=timing_ms)


class Member:
    """A consumer that does what it is told."""

    def __init__(self, node: NodeUnderTest, name: str, *, group: str = "g", session_ms: int = 45_000) -> None:
        self.client: Client = node.client(name)
        self.group, self.session_ms = group, session_ms
        self.member_id = ""
        self.generation_id = -1

    def send_join(self) -> None:
        protocol = JoinGroupRequestProtocol(name="range", metadata=b"t")
        request = JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=self.session_ms,
            rebalance_timeout_ms=60_000,
            member_id=self.member_id,
            protocol_type="consumer",
            protocols=(protocol,),
        )
        self.client.send(request)

    def take_join(self) -> JoinGroupResponse:
        answer = self.client.take(JoinGroupResponse)
        self.member_id, self.generation_id = answer.member_id, answer.generation_id
        return answer

    def join(self) -> JoinGroupResponse:
        """Ask for a member id, and join with it: answered at once for the only member."""
        self.send_join()
        answer = self.take_join()
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.send_join()
            answer = self.take_join()
        return answer

    def sync(self, assignments: Mapping[str, bytes] | None = None) -> None:
        given = tuple(
            SyncGroupRequestAssignment(member_id=member_id, assignment=data)
            for member_id, data in (assignments or {}).items()
        )
        self.client.send(
            SyncGroupRequest(
                group_id=self.group,
                generation_id=self.generation_id,
                member_id=self.member_id,
                protocol_type="consumer",
                protocol_name="range",
                assignments=given,
            )
        )

    def heartbeat(self) -> int:
        request = HeartbeatRequest(group_id=self.group, generation_id=self.generation_id, member_id=self.member_id)
        return self.client.ask(request).error_code

    def commit(self, offset: int, topic: str = "t") -> int:
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="")
        request = OffsetCommitRequest(
            group_id=self.group,
            generation_id_or_member_epoch=self.generation_id,
            member_id=self.member_id,
            topics=(OffsetCommitRequestTopic(name=topic, partitions=(partition,)),),
        )
        return self.client.ask(request, 8).topics[0].partitions[0].error_code

    def leave(self) -> None:
        identity = MemberIdentity(member_id=self.member_id)
        self.client.ask(LeaveGroupRequest(group_id=self.group, members=(identity,)))


def a_stable_member(node: NodeUnderTest, name: str = "a", **options: Any) -> Member:
    """The only member of its group, with an assignment."""
    member = Member(node, name, **options)
    member.join()
    member.sync({member.member_id: b"all of it"})
    member.client.unread.clear()
    return member
