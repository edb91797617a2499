"""Members of groups, as clients that tests drive step by step."""

from __future__ import annotations

from types import TracebackType

from kshim.tools.client import Client
from kshim_protocol.messages.heartbeat import HeartbeatRequest
from kshim_protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kshim_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kshim_protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

PATIENCE_S = 20


class Member:
    """The one member of a group: joins, takes an empty assignment, and sends heartbeats when it is told to."""

    def __init__(self, bootstrap: str, group_id: str, *, instance_id: str | None = None) -> None:
        host, _, port = bootstrap.split(",")[0].rpartition(":")
        self.group_id = group_id
        self.instance_id = instance_id
        self.member_id = ""
        self.generation = -1
        self._client = Client(host, int(port), client_id=f"client-of-{group_id}", timeout_s=PATIENCE_S)

    def join(self) -> Member:
        """Until the group is Stable with this member."""
        for _ in range(3):
            answer = self._client.ask(
                JoinGroupRequest(
                    group_id=self.group_id,
                    session_timeout_ms=30_000,
                    rebalance_timeout_ms=30_000,
                    member_id=self.member_id,
                    group_instance_id=self.instance_id,
                    protocol_type="consumer",
                    protocols=(JoinGroupRequestProtocol(name="range", metadata=b"\0\0\0\0\0\0\xff\xff\xff\xff"),),
                ),
                7,
            )
            self.member_id = answer.member_id
            if answer.error_code == 0:
                break
        assert answer.error_code == 0, answer
        self.generation = answer.generation_id
        assignments = (SyncGroupRequestAssignment(member_id=self.member_id, assignment=b""),)
        synced = self._client.ask(
            SyncGroupRequest(
                group_id=self.group_id,
                generation_id=self.generation,
                member_id=self.member_id,
                group_instance_id=self.instance_id,
                assignments=assignments,
            ),
            3,
        )
        assert synced.error_code == 0, synced
        return self

    def heartbeat(self) -> int:
        """The error code that came back."""
        answer = self._client.ask(
            HeartbeatRequest(
                group_id=self.group_id,
                generation_id=self.generation,
                member_id=self.member_id,
                group_instance_id=self.instance_id,
            ),
            3,
        )
        code: int = answer.error_code
        return code

    def commit(self, topic: str, offset: int) -> None:
        """Commit an offset of partition 0."""
        answer = self._client.ask(
            OffsetCommitRequest(
                group_id=self.group_id,
                generation_id_or_member_epoch=self.generation,
                member_id=self.member_id,
                group_instance_id=self.instance_id,
                topics=(
                    OffsetCommitRequestTopic(
                        name=topic,
                        partitions=(
                            OffsetCommitRequestPartition(
                                partition_index=0, committed_offset=offset, committed_metadata=None
                            ),
                        ),
                    ),
                ),
            ),
            8,
        )
        assert answer.topics[0].partitions[0].error_code == 0, answer

    def __enter__(self) -> Member:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._client.close()
