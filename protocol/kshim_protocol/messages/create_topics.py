"""CreateTopics: @@MODDOC@@"""

from __future__ import annotations

from kshim_protocol.schema import ZERO_UUID, Request, Struct, array, boolean, int16, int32, int8, message, string, struct, uuid

__all__ = [
    "CreatableReplicaAssignment",
    "CreatableTopic",
    "CreatableTopicConfig",
    "CreatableTopicConfigs",
    "CreatableTopicResult",
    "CreateTopicsRequest",
    "CreateTopicsResponse",
]

# fmt: off


@struct
class CreatableReplicaAssignment(Struct):
    """Part of CreateTopicsRequest."""

    partition_index: int             = int32("2+")
    broker_ids:      tuple[int, ...] = array("int32", "2+")


@struct
class CreatableTopicConfig(Struct):
    """Part of CreateTopicsRequest."""

    name:  str        = string("2+")
    value: str | None = string("2+", nullable="2+")


@struct
class CreatableTopic(Struct):
    """Part of CreateTopicsRequest."""

    name:               str                                    = string("2+")
    num_partitions:     int                                    = int32("2+")
    replication_factor: int                                    = int16("2+")
    assignments:        tuple[CreatableReplicaAssignment, ...] = array(CreatableReplicaAssignment, "2+")
    configs:            tuple[CreatableTopicConfig, ...]       = array(CreatableTopicConfig, "2+")


@message(api_key=19, versions="2-7", flexible="5+")
class CreateTopicsRequest(Request["CreateTopicsResponse"]):
    """@@DOC CreateTopicsRequest@@"""

    topics:        tuple[CreatableTopic, ...] = array(CreatableTopic, "2+")
    timeout_ms:    int                        = int32("2+", default=60000)
    validate_only: bool                       = boolean("2+", default=False)


@struct
class CreatableTopicConfigs(Struct):
    """Part of CreateTopicsResponse."""

    name:          str        = string("5+", default="")
    value:         str | None = string("5+", nullable="5+", default="")
    read_only:     bool       = boolean("5+", default=False)
    config_source: int        = int8("5+", default=-1, ignorable=True)
    is_sensitive:  bool       = boolean("5+", default=False)


@struct
class CreatableTopicResult(Struct):
    """Part of CreateTopicsResponse."""

    name:                    str                                      = string("2+")
    topic_id:                bytes                                    = uuid("7+", default=ZERO_UUID, ignorable=True)
    error_code:              int                                      = int16("2+")
    error_message:           str | None                               = string("2+", nullable="2+", ignorable=True)
    topic_config_error_code: int                                      = int16("5+", default=0, ignorable=True, tag=0)
    num_partitions:          int                                      = int32("5+", default=-1, ignorable=True)
    replication_factor:      int                                      = int16("5+", default=-1, ignorable=True)
    configs:                 tuple[CreatableTopicConfigs, ...] | None = array(CreatableTopicConfigs, "5+", nullable="5+", default=(), ignorable=True)


@message(api_key=19, versions="2-7", flexible="5+")
class CreateTopicsResponse(Struct):
    """@@DOC CreateTopicsResponse@@"""

    throttle_time_ms: int                              = int32("2+", default=0, ignorable=True)
    topics:           tuple[CreatableTopicResult, ...] = array(CreatableTopicResult, "2+")

# fmt: on
