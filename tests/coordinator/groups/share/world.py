"""A coordinator with share groups, and the share coordinator, which answers when it is told to."""

from __future__ import annotations

from typing import Any

from kshim.coordinator.groups.config import ShareSettings
from kshim.coordinator.groups.coordinator import GroupCoordinator
from kshim.coordinator.groups.share.updates import ShareUpdate, parse_share_update
from kshim.coordinator.share_state.config import ShareStateConfig
from kshim.coordinator.share_state.coordinator import ShareStateCoordinator
from kshim.coordinator.step import SHARE_STATE_TOPIC, RequestContext
from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.share_group_describe import DescribedGroup, ShareGroupDescribeRequest
from kshim_protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from kshim_protocol.records.record import iter_records
from kshim_protocol.schema import Request
from tests.coordinator.harness import Call, R, Sim, handler_of, topic_id

INTERVAL_MS = 1_000
SESSION_MS = 45_000


class World(Sim):
    """Members are named by their ids; all are in group `g`. State is initialised as soon as the group asks for it,
    unless `holds_state` says otherwise."""

    def __init__(self, topics: dict[str, int] | None = None, **settings: Any) -> None:
        self.holds_state = False
        self.settings = ShareSettings(**settings)
        super().__init__(topics or {"t": 3, "u": 2})
        self.share_coordinator = ShareStateCoordinator(ShareStateConfig(), topics=self.topics)

    def _new_coordinator(self) -> GroupCoordinator:
        return GroupCoordinator(
            self.config,
            topics=self.topics,
            new_id=lambda: "uuid",
            share_settings_of=lambda group_id: self.settings,
        )

    def heartbeat(
        self,
        member_id: str,
        epoch: int,
        names: tuple[str, ...] | None = None,
        *,
        group_id: str = "g",
        rack_id: str | None = None,
        client_id: str | None = "client",
    ) -> Call[ShareGroupHeartbeatResponse]:
        request = ShareGroupHeartbeatRequest(
            group_id=group_id,
            member_id=member_id,
            member_epoch=epoch,
            rack_id=rack_id,
            subscribed_topic_names=names,
        )
        call = self.send(request, 1, client_id=client_id)
        if not self.holds_state:
            self.make_state()
        return call

    def join(self, member_id: str, *names: str) -> str:
        """The answer to a join, in words."""
        return self.told(self.heartbeat(member_id, 0, names))

    def beat(self, member_id: str, epoch: int) -> str:
        """The answer to a heartbeat that says nothing else, in words."""
        return self.told(self.heartbeat(member_id, epoch))

    def told(self, call: Call[ShareGroupHeartbeatResponse]) -> str:
        """What a member is told: its epoch and what it reads, `-` where that is no news; or the error and its sentence."""
        reply = call.reply
        if reply.error_code != ErrorCode.NONE:
            return f"{ErrorCode(reply.error_code).name} {reply.error_message}"
        if reply.assignment is None:
            return f"{reply.member_epoch} -"
        read = [
            f"{self.topics.topic_name(topic.topic_id)}{''.join(map(str, topic.partitions))}"
            for topic in reply.assignment.topic_partitions
        ]
        return f"{reply.member_epoch} {' '.join(sorted(read)) or 'nothing'}"

    def make_state(self, error: ErrorCode = ErrorCode.NONE) -> list[Any]:
        """Let the share coordinator answer what it was asked, and what follows from that; with `error` it answers nothing
        else. Returns the requests."""
        asked = []
        while self.errands:
            errand = self.errands.pop(0)
            assert errand.topic == SHARE_STATE_TOPIC
            asked.append(errand.request)
            step = errand.settle(
                self.of_share_coordinator(errand.request)
                if error is ErrorCode.NONE
                else errand.request.error_response(error, 0),
                self.now,
            )
            if step is not None:
                self.apply(step)
        return asked

    def of_share_coordinator(self, request: Request[R]) -> R:
        """What the share coordinator answers; all that it writes is written."""
        versions = type(request).info.versions
        assert versions is not None
        call = Call(request, versions[1])
        context = RequestContext(call.version, "broker", "/127.0.0.1", self.now)
        step = handler_of(self.share_coordinator, request)(request, context, call)
        for append in step.appends:
            append.written(0, step)
        for _, response in step.replies:
            call.complete(response)
        return call.reply

    def described(self, group_id: str = "g") -> DescribedGroup:
        """ShareGroupDescribe of one group."""
        request = ShareGroupDescribeRequest(group_ids=(group_id,), include_authorized_operations=False)
        (group,) = self.ask(request, 1).groups
        return group

    def written(self, group_id: str = "g") -> list[list[ShareUpdate]]:
        """What was written about the group, batch by batch."""
        batches = []
        for batch in self.logs.get(self.coordinator.partition_for(group_id), []):
            found = [parse_share_update(record.key or b"", record.value) for record in iter_records(batch)]
            batches.append([update for name_and_update in found if name_and_update for update in name_and_update[1:]])
        return batches


def places(name: str, *indexes: int) -> frozenset[tuple[bytes, int]]:
    """Partitions of one topic."""
    return frozenset((topic_id(name), index) for index in indexes)
