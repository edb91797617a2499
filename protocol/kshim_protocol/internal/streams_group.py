"""Values of `__consumer_offsets` records of streams groups (KIP-1071): key types 17, 19, 20, 22 and 23; 21 in its own module.

Tags that may be null are not null by default: see `consumer_group.py`.
"""

from __future__ import annotations

from kshim_protocol.schema import Struct, array, int8, int16, int32, int64, message, string, struct, struct_, uint16

# fmt: off


@struct
class LastAssignmentConfig(Struct):
    """A setting of the assignor as it was last used."""

    key:   str = string("0+")
    value: str = string("0+")


@message(versions="0", flexible="0+")
class StreamsGroupMetadataValue(Struct):
    """The epoch of a group, the hash of its topics, and which topology epochs are in use."""

    epoch:                             int                                     = int32("0+")
    metadata_hash:                     int                                     = int64("0+")
    validated_topology_epoch:          int                                     = int32("0+", default=-1, tag=0)
    last_assignment_configs:           tuple[LastAssignmentConfig, ...] | None = array(LastAssignmentConfig, "0+", nullable="0+", default=(), tag=1)
    stored_description_topology_epoch: int                                     = int32("0+", default=-1, tag=2)   # -2: uncertain
    failed_description_topology_epoch: int                                     = int32("0+", default=-1, tag=3)


@struct
class Endpoint(Struct):
    """Where a streams instance answers interactive queries."""

    host: str = string("0+")
    port: int = uint16("0+")


@struct
class KeyValue(Struct):
    """A tag of a client, for assignment by rack."""

    key:   str = string("0+")
    value: str = string("0+")


@message(versions="0", flexible="0+")
class StreamsGroupMemberMetadataValue(Struct):
    """A member and the process it is part of."""

    instance_id:          str | None           = string("0+", nullable="0+")
    rack_id:              str | None           = string("0+", nullable="0+")
    client_id:            str                  = string("0+")
    client_host:          str                  = string("0+")
    rebalance_timeout_ms: int                  = int32("0+", default=-1)
    topology_epoch:       int                  = int32("0+")
    process_id:           str                  = string("0+")
    user_endpoint:        Endpoint | None      = struct_(Endpoint, "0+", nullable="0+", default=None)
    client_tags:          tuple[KeyValue, ...] = array(KeyValue, "0+")


@message(versions="0", flexible="0+")
class StreamsGroupTargetAssignmentMetadataValue(Struct):
    """The epoch of the target assignment; when it was computed came with 4.3 (KIP-1263)."""

    assignment_epoch:     int = int32("0+")
    assignment_timestamp: int = int64("0+", default=0, ignorable=True, tag=0)   # ms since the epoch; 0: unknown


@struct
class TaskIds(Struct):
    """Tasks of one subtopology that a member has; the epochs, of active tasks only, are parallel to the partitions."""

    subtopology_id:    str                    = string("0+")
    partitions:        tuple[int, ...]        = array("int32", "0+")
    assignment_epochs: tuple[int, ...] | None = array("int32", "0+", nullable="0+", default=(), tag=0)


@message(versions="0", flexible="0+")
class StreamsGroupCurrentMemberAssignmentValue(Struct):
    """The tasks that a member has, and those it has to give up."""

    member_epoch:                     int                 = int32("0+")
    previous_member_epoch:            int                 = int32("0+")
    state:                            int                 = int8("0+")
    active_tasks:                     tuple[TaskIds, ...] = array(TaskIds, "0+")
    standby_tasks:                    tuple[TaskIds, ...] = array(TaskIds, "0+")
    warmup_tasks:                     tuple[TaskIds, ...] = array(TaskIds, "0+")
    active_tasks_pending_revocation:  tuple[TaskIds, ...] = array(TaskIds, "0+")
    standby_tasks_pending_revocation: tuple[TaskIds, ...] = array(TaskIds, "0+")
    warmup_tasks_pending_revocation:  tuple[TaskIds, ...] = array(TaskIds, "0+")


@struct
class TopicConfig(Struct):
    """A setting of a topic that the application needs."""

    key:   str = string("0+")
    value: str = string("0+")


@struct
class TopicInfo(Struct):
    """A topic that the application needs; 0 partitions or replicas: the default, or as many as it takes."""

    name:               str                     = string("0+")
    partitions:         int                     = int32("0+")
    replication_factor: int                     = int16("0+")
    topic_configs:      tuple[TopicConfig, ...] = array(TopicConfig, "0+")


@struct
class CopartitionGroup(Struct):
    """Source topics with equal partitions, as places in the lists of their subtopology."""

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


@message(versions="0", flexible="0+")
class StreamsGroupTopologyValue(Struct):
    """What the application is made of."""

    epoch:         int                     = int32("0+")
    subtopologies: tuple[Subtopology, ...] = array(Subtopology, "0+")

# fmt: on
