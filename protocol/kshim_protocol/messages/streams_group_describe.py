"""StreamsGroupDescribe: topology, epochs, members and tasks of streams groups (KIP-1071)."""

from __future__ import annotations

from kshim_protocol.errors import ErrorCode
from kshim_protocol.schema import (
    Request,
    Struct,
    array,
    boolean,
    int8,
    int16,
    int32,
    int64,
    message,
    string,
    struct,
    struct_,
    uint16,
)

# fmt: off


@message(api_key=89, versions="0-1", flexible="0+")
class StreamsGroupDescribeRequest(Request["StreamsGroupDescribeResponse"]):
    """Ask about groups. v1 description of the topology (KIP-1331)."""

    group_ids:                     tuple[str, ...] = array("string", "0+")
    include_authorized_operations: bool            = boolean("0+")
    include_topology_description:  bool            = boolean("1+", default=False)

    def error_response(self, error: ErrorCode, version: int, message: str | None = None) -> StreamsGroupDescribeResponse:
        return StreamsGroupDescribeResponse(
            groups=tuple(
                DescribedGroup(
                    error_code=error,
                    error_message=message,
                    group_id=group_id,
                    group_state="",
                    group_epoch=0,
                    assignment_epoch=0,
                    members=(),
                )
                for group_id in self.group_ids
            )
        )


@struct
class KeyValue(Struct):
    """A setting of a topic, or a tag of a client."""

    key:   str = string("0+")
    value: str = string("0+")


@struct
class TopicInfo(Struct):
    """An internal topic."""

    name:               str                  = string("0+")
    partitions:         int                  = int32("0+")                   # 0: not decided
    replication_factor: int                  = int16("0+")                   # 0: the default of the cluster
    topic_configs:      tuple[KeyValue, ...] = array(KeyValue, "0+")


@struct
class Subtopology(Struct):
    """A part of the application whose tasks are assigned together."""

    subtopology_id:            str                   = string("0+")
    source_topics:             tuple[str, ...]       = array("string", "0+")
    repartition_sink_topics:   tuple[str, ...]       = array("string", "0+")
    state_changelog_topics:    tuple[TopicInfo, ...] = array(TopicInfo, "0+")
    repartition_source_topics: tuple[TopicInfo, ...] = array(TopicInfo, "0+")


@struct
class Topology(Struct):
    """What the application is made of; with the partitions of its topics once these are decided."""

    epoch:         int                            = int32("0+")
    subtopologies: tuple[Subtopology, ...] | None = array(Subtopology, "0+", nullable="0+", default=None)


@struct
class Endpoint(Struct):
    """Where an instance answers interactive queries."""

    host: str = string("0+")
    port: int = uint16("0+")


@struct
class TaskOffset(Struct):
    """How far a task is, summed over its changelogs."""

    subtopology_id: str = string("0+")
    partition:      int = int32("0+")
    offset:         int = int64("0+")


@struct
class TaskIds(Struct):
    """Tasks of one subtopology."""

    subtopology_id: str             = string("0+")
    partitions:     tuple[int, ...] = array("int32", "0+")


@struct
class Assignment(Struct):
    """All tasks of a member, by role."""

    active_tasks:  tuple[TaskIds, ...] = array(TaskIds, "0+")
    standby_tasks: tuple[TaskIds, ...] = array(TaskIds, "0+")
    warmup_tasks:  tuple[TaskIds, ...] = array(TaskIds, "0+")


@struct
class Member(Struct):
    """One member."""

    member_id:         str                    = string("0+")
    member_epoch:      int                    = int32("0+")
    instance_id:       str | None             = string("0+", nullable="0+", default=None)
    rack_id:           str | None             = string("0+", nullable="0+", default=None)
    client_id:         str                    = string("0+")
    client_host:       str                    = string("0+")                                  # "/127.0.0.1"
    topology_epoch:    int                    = int32("0+")
    process_id:        str                    = string("0+")
    user_endpoint:     Endpoint | None        = struct_(Endpoint, "0+", nullable="0+", default=None)
    client_tags:       tuple[KeyValue, ...]   = array(KeyValue, "0+")
    task_offsets:      tuple[TaskOffset, ...] = array(TaskOffset, "0+")
    task_end_offsets:  tuple[TaskOffset, ...] = array(TaskOffset, "0+")
    assignment:        Assignment             = struct_(Assignment, "0+")
    target_assignment: Assignment             = struct_(Assignment, "0+")
    is_classic:        bool                   = boolean("0+")                                 # always false


@struct
class TopologyDescriptionNode(Struct):
    """A node of the graph: 1 a source, 2 a processor, 3 a sink."""

    name:          str             = string("1+", default="")
    node_type:     int             = int8("1+", default=0)
    source_topics: tuple[str, ...] = array("string", "1+", default=())
    sink_topic:    str | None      = string("1+", nullable="1+", default=None)
    stores:        tuple[str, ...] = array("string", "1+", default=())
    successors:    tuple[str, ...] = array("string", "1+", default=())


NO_NODE = TopologyDescriptionNode()


@struct
class TopologyDescriptionSubtopology(Struct):
    """The graph of one subtopology."""

    subtopology_id: str                                 = string("1+", default="")
    nodes:          tuple[TopologyDescriptionNode, ...] = array(TopologyDescriptionNode, "1+", default=())


@struct
class TopologyDescriptionGlobalStore(Struct):
    """A store that every instance has, and what fills it."""

    source:    TopologyDescriptionNode = struct_(TopologyDescriptionNode, "1+", default=NO_NODE)
    processor: TopologyDescriptionNode = struct_(TopologyDescriptionNode, "1+", default=NO_NODE)


@struct
class TopologyDescription(Struct):
    """The whole application, as people draw it."""

    subtopologies: tuple[TopologyDescriptionSubtopology, ...] = array(TopologyDescriptionSubtopology, "1+", default=())
    global_stores: tuple[TopologyDescriptionGlobalStore, ...] = array(TopologyDescriptionGlobalStore, "1+", default=())


@struct
class DescribedGroup(Struct):
    """One group."""

    error_code:                  int                        = int16("0+")
    error_message:               str | None                 = string("0+", nullable="0+", default=None)
    group_id:                    str                        = string("0+")
    group_state:                 str                        = string("0+")
    group_epoch:                 int                        = int32("0+")
    assignment_epoch:            int                        = int32("0+")
    topology:                    Topology | None            = struct_(Topology, "0+", nullable="0+", default=None)
    members:                     tuple[Member, ...]         = array(Member, "0+")
    authorized_operations:       int                        = int32("0+", default=-2147483648)            # bit field; the lowest int32: not asked for
    topology_description:        TopologyDescription | None = struct_(TopologyDescription, "1+", nullable="1+", default=None)
    topology_description_status: int                        = int8("1+", default=0)                       # 0 not asked for, 1 none stored, 2 an error, 3 available
    assignor_name:               str | None                 = string("1+", nullable="1+", default=None, ignorable=True)


@message(api_key=89, versions="0-1", flexible="0+")
class StreamsGroupDescribeResponse(Struct):
    """One entry a group asked for."""

    throttle_time_ms: int                        = int32("0+", default=0)
    groups:           tuple[DescribedGroup, ...] = array(DescribedGroup, "0+")

# fmt: on
