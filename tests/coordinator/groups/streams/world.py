"""A coordinator with streams groups: topics that it wants are made at once, unless `makes_topics` says otherwise."""

from __future__ import annotations

from typing import Any

from kshim.coordinator.groups.config import StreamsSettings
from kshim.coordinator.groups.coordinator import GroupCoordinator
from kshim.coordinator.groups.streams.group import StreamsGroup
from kshim.coordinator.step import Step, TopicsWanted
from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.streams_group_describe import DescribedGroup, StreamsGroupDescribeRequest
from kshim_protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    Subtopology,
    TaskIds,
    TopicInfo,
    Topology,
)
from kshim_protocol.records.record import iter_records
from tests.coordinator.harness import Call, Sim

SESSION_MS = 45_000
DELAY_MS = 3_000
INTERVAL_MS = 1_000


def stateless(*topics: str) -> Topology:
    """Each topic is read by a subtopology of its own."""
    return Topology(epoch=0, subtopologies=tuple(_part(str(at), name) for at, name in enumerate(topics)))


def stateful(topic: str, changelog: str = "store") -> Topology:
    """One subtopology with a changelog."""
    info = TopicInfo(name=changelog, partitions=0, replication_factor=0, topic_configs=())
    return Topology(epoch=0, subtopologies=(_part("0", topic, info),))


def _part(subtopology_id: str, topic: str, *changelogs: TopicInfo) -> Subtopology:
    return Subtopology(
        subtopology_id=subtopology_id,
        source_topics=(topic,),
        source_topic_regex=(),
        state_changelog_topics=changelogs,
        repartition_sink_topics=(),
        repartition_source_topics=(),
        copartition_groups=(),
    )


class World(Sim):
    """Members are named by their ids, and so are their processes unless told; all are in group `g`."""

    def __init__(
        self, topics: dict[str, int] | None = None, *, topology: Topology | None = None, **settings: Any
    ) -> None:
        self.settings = StreamsSettings(**settings)
        self.topology = topology or stateless("t")
        self.owned: dict[str, dict[str, tuple[TaskIds, ...]]] = {}
        self.epochs: dict[str, int] = {}
        self.wanted: list[TopicsWanted] = []
        self.refused_topics: dict[str, str] = {}
        """Why topics cannot be made."""
        super().__init__(topics or {"t": 4, "u": 2})

    def _new_coordinator(self) -> GroupCoordinator:
        return GroupCoordinator(
            self.config, topics=self.topics, new_id=lambda: "uuid", streams_settings_of=lambda group_id: self.settings
        )

    def apply(self, step: Step) -> None:
        """What the broker does with a Step; topics are made after the answer."""
        super().apply(step)
        for wanted in step.topics_wanted:
            self.wanted.append(wanted)
            for topic in wanted.topics:
                if topic.name not in self.refused_topics:
                    self.topics.topics[topic.name] = topic.partition_count, 0
            names = {topic.name for topic in wanted.topics}
            wanted.settle({name: why for name, why in self.refused_topics.items() if name in names})

    def heartbeat(self, member_id: str, epoch: int, **fields: Any) -> Call[StreamsGroupHeartbeatResponse]:
        """Just that."""
        request = StreamsGroupHeartbeatRequest(
            group_id="g", member_id=member_id, member_epoch=epoch, endpoint_information_epoch=-1, **fields
        )
        call = self.send(request, 1)
        reply = call.reply
        if reply.error_code == ErrorCode.NONE:
            self.epochs[member_id] = reply.member_epoch
            owned = self.owned[member_id]
            for role in owned:
                told = getattr(reply, f"{role}_tasks")
                if told is not None:
                    owned[role] = told
        return call

    def join(self, member_id: str, *, process_id: str | None = None, **fields: Any) -> str:
        """The answer to a join, in words."""
        self.owned[member_id] = {"active": (), "standby": (), "warmup": ()}
        said: dict[str, Any] = {
            "rebalance_timeout_ms": 60_000,
            "topology": self.topology,
            "active_tasks": (),
            "standby_tasks": (),
            "warmup_tasks": (),
            "process_id": process_id or member_id,
        }
        return told(self.heartbeat(member_id, 0, **{**said, **fields}))

    def beat(self, member_id: str, **fields: Any) -> str:
        """The answer to a heartbeat that says nothing else, in words."""
        return told(self.heartbeat(member_id, self.epochs[member_id], **fields))

    def report(self, member_id: str, **fields: Any) -> str:
        """The answer to a heartbeat that says what the member runs, in words."""
        owned = {f"{role}_tasks": tasks for role, tasks in self.owned[member_id].items()}
        return self.beat(member_id, **{**owned, **fields})

    def leave(self, member_id: str, epoch: int = -1, **fields: Any) -> str:
        """The answer to a member that leaves, in words."""
        return told(self.heartbeat(member_id, epoch, **fields))

    @property
    def streams_group(self) -> StreamsGroup:
        """The group `g`."""
        return self.shard().streams_group("g")

    def described(self) -> DescribedGroup:
        """StreamsGroupDescribe of `g`."""
        request = StreamsGroupDescribeRequest(group_ids=("g",), include_authorized_operations=False)
        (group,) = self.ask(request, 1).groups
        return group


def told(call: Call[StreamsGroupHeartbeatResponse]) -> str:
    """What a member is told: its epoch, its tasks by role (`-`: no news), the codes of statuses; or error and sentence."""
    reply = call.reply
    if reply.error_code != ErrorCode.NONE:
        return f"{ErrorCode(reply.error_code).name} {reply.error_message}"
    words = [str(reply.member_epoch)]
    if reply.active_tasks is None:
        words.append("-")
    else:
        for mark, tasks in (("", reply.active_tasks), ("s", reply.standby_tasks), ("w", reply.warmup_tasks)):
            words += [f"{mark}{each.subtopology_id}:{''.join(map(str, each.partitions))}" for each in tasks or ()]
        if len(words) == 1:
            words.append("nothing")
    words += [f"!{status.status_code}" for status in reply.status or ()]
    return " ".join(words)


def pairs(world: World) -> list[tuple[bytes, bytes | None]]:
    """Key and value of every record ever written about groups, in order."""
    return [
        (record.key or b"", record.value)
        for batches in world.logs.values()
        for batch in batches
        for record in iter_records(batch)
    ]
