"""StreamsGroupHeartbeat: all a member of a streams group says and is told (KIP-1071)."""

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


@struct
class KeyValue(Struct):
    """A setting of a topic, or a tag of a client."""

    key:   str = string("0+")
    value: str = string("0+")


@struct
class TopicInfo(Struct):
    """An internal topic. 0 partitions: as many as it takes; 0 replicas: the default of the cluster."""

    name:               str                  = string("0+")
    partitions:         int                  = int32("0+")                        # always 0 of changelogs
    replication_factor: int                  = int16("0+")
    topic_configs:      tuple[KeyValue, ...] = array(KeyValue, "0+")


@struct
class CopartitionGroup(Struct):
    """Source topics with equally many partitions, as places in the lists of their subtopology."""

    source_topics:             tuple[int, ...] = array("int16", "0+")
    source_topic_regex:        tuple[int, ...] = array("int16", "0+")
    repartition_source_topics: tuple[int, ...] = array("int16", "0+")


@struct
class Subtopology(Struct):
    """A part of the application whose tasks are assigned together."""

    subtopology_id:            str                          = string("0+")
    source_topics:             tuple[str, ...]              = array("string", "0+")
    source_topic_regex:        tuple[str, ...]              = array("string", "0+")
    state_changelog_topics:    tuple[TopicInfo, ...]        = array(TopicInfo, "0+")
    repartition_sink_topics:   tuple[str, ...]              = array("string", "0+")
    repartition_source_topics: tuple[TopicInfo, ...]        = array(TopicInfo, "0+")
    copartition_groups:        tuple[CopartitionGroup, ...] = array(CopartitionGroup, "0+")


@struct
class Topology(Struct):
    """What the application is made of."""

    epoch:         int                     = int32("0+")
    subtopologies: tuple[Subtopology, ...] = array(Subtopology, "0+")


@struct
class TaskIds(Struct):
    """Tasks of one subtopology."""

    subtopology_id: str             = string("0+")
    partitions:     tuple[int, ...] = array("int32", "0+")


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


@message(api_key=88, versions="0-1", flexible="0+")
class StreamsGroupHeartbeatRequest(Request["StreamsGroupHeartbeatResponse"]):
    """Join, go on, or leave; null and -1 stand for what has not changed since the last heartbeat.

    v1 is the same; it says that the client knows status 6, and descriptions of topologies (KIP-1331).
    """

    group_id:                   str                           = string("0+")
    member_id:                  str                           = string("0+")                                  # made by the client
    member_epoch:               int                           = int32("0+")                                   # 0: join; -1: leave; -2: a static member will be back
    endpoint_information_epoch: int                           = int32("0+")                                   # of what it knows of others; -1: nothing
    instance_id:                str | None                    = string("0+", nullable="0+", default=None)
    rack_id:                    str | None                    = string("0+", nullable="0+", default=None)
    rebalance_timeout_ms:       int                           = int32("0+", default=-1)
    topology:                   Topology | None               = struct_(Topology, "0+", nullable="0+", default=None)   # only to join
    active_tasks:               tuple[TaskIds, ...] | None    = array(TaskIds, "0+", nullable="0+", default=None)      # owned
    standby_tasks:              tuple[TaskIds, ...] | None    = array(TaskIds, "0+", nullable="0+", default=None)
    warmup_tasks:               tuple[TaskIds, ...] | None    = array(TaskIds, "0+", nullable="0+", default=None)
    process_id:                 str | None                    = string("0+", nullable="0+", default=None)
    user_endpoint:              Endpoint | None               = struct_(Endpoint, "0+", nullable="0+", default=None)
    client_tags:                tuple[KeyValue, ...] | None   = array(KeyValue, "0+", nullable="0+", default=None)
    task_offsets:               tuple[TaskOffset, ...] | None = array(TaskOffset, "0+", nullable="0+", default=None)
    task_end_offsets:           tuple[TaskOffset, ...] | None = array(TaskOffset, "0+", nullable="0+", default=None)
    shutdown_application:       bool                          = boolean("0+", default=False)                  # all members are to stop

    def error_response(self, error: ErrorCode, version: int, message: str | None = None) -> StreamsGroupHeartbeatResponse:
        return StreamsGroupHeartbeatResponse(error_code=error, error_message=message)


@struct
class Status(Struct):
    """Something the member should know of its group; the codes are in `coordinator/groups/streams`."""

    status_code:   int = int8("0+")
    status_detail: str = string("0+")


@struct
class TopicPartition(Struct):
    """Partitions of one topic."""

    topic:      str             = string("0+")
    partitions: tuple[int, ...] = array("int32", "0+")


@struct
class EndpointToPartitions(Struct):
    """Which source partitions can be asked for at an endpoint: one entry a member, several may name the same endpoint."""

    user_endpoint:      Endpoint                   = struct_(Endpoint, "0+")
    active_partitions:  tuple[TopicPartition, ...] = array(TopicPartition, "0+")
    standby_partitions: tuple[TopicPartition, ...] = array(TopicPartition, "0+")


@message(api_key=88, versions="0-1", flexible="0+")
class StreamsGroupHeartbeatResponse(Struct):
    """Where the member is, and its tasks; null stands for what has not changed. With an error, only that and a sentence.

    v1 recovery lag of 64 bits, and whether the description of the topology is wanted.
    """

    throttle_time_ms:               int                                     = int32("0+", default=0)
    error_code:                     int                                     = int16("0+")
    error_message:                  str | None                              = string("0+", nullable="0+", default=None)
    member_id:                      str                                     = string("0+", default="")
    member_epoch:                   int                                     = int32("0+", default=0)
    heartbeat_interval_ms:          int                                     = int32("0+", default=0)
    acceptable_recovery_lag_legacy: int                                     = int32("0", default=0)
    task_offset_interval_ms:        int                                     = int32("0+", default=0)
    acceptable_recovery_lag:        int                                     = int64("1+", default=-1, ignorable=True)
    status:                         tuple[Status, ...] | None               = array(Status, "0+", nullable="0+", default=())
    active_tasks:                   tuple[TaskIds, ...] | None              = array(TaskIds, "0+", nullable="0+", default=None)
    standby_tasks:                  tuple[TaskIds, ...] | None              = array(TaskIds, "0+", nullable="0+", default=None)
    warmup_tasks:                   tuple[TaskIds, ...] | None              = array(TaskIds, "0+", nullable="0+", default=None)
    topology_description_required:  bool                                    = boolean("1+", default=False)
    endpoint_information_epoch:     int                                     = int32("0+", default=0)
    partitions_by_user_endpoint:    tuple[EndpointToPartitions, ...] | None = array(EndpointToPartitions, "0+", nullable="0+", default=None)

# fmt: on
