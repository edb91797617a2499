"""CreateTopics: make topics, each with its own result."""

from __future__ import annotations

from kshim_protocol.errors import ErrorCode
from kshim_protocol.schema import (
    ZERO_UUID,
    Request,
    Struct,
    array,
    boolean,
    int8,
    int16,
    int32,
    message,
    string,
    struct,
    uuid,
)

# fmt: off


@struct
class CreatableReplicaAssignment(Struct):
    """Replicas of one partition, chosen by the client."""

    partition_index: int             = int32("2+")
    broker_ids:      tuple[int, ...] = array("int32", "2+")


@struct
class CreatableTopicConfig(Struct):
    """One configuration entry of a new topic."""

    name:  str        = string("2+")
    value: str | None = string("2+", nullable="2+")


@struct
class CreatableTopic(Struct):
    """One topic to create."""

    name:               str                                    = string("2+")
    num_partitions:     int                                    = int32("2+")                              # -1: default, or given by assignments
    replication_factor: int                                    = int16("2+")                              # -1: default, or given by assignments
    assignments:        tuple[CreatableReplicaAssignment, ...] = array(CreatableReplicaAssignment, "2+")
    configs:            tuple[CreatableTopicConfig, ...]       = array(CreatableTopicConfig, "2+")


@message(api_key=19, versions="2-7", flexible="5+")
class CreateTopicsRequest(Request["CreateTopicsResponse"]):
    """Create topics, or with `validate_only` just check.

    v4 count and replication factor may be -1: the broker's default (KIP-464). v5 flexible. v6 may be answered
    THROTTLING_QUOTA_EXCEEDED (KIP-599). v0-1 went away with Kafka 4.0 (KIP-896).
    """

    topics:        tuple[CreatableTopic, ...] = array(CreatableTopic, "2+")
    timeout_ms:    int                        = int32("2+", default=60000)
    validate_only: bool                       = boolean("2+", default=False)

    def error_response(self, error: ErrorCode, version: int, message: str | None = None) -> CreateTopicsResponse:
        return CreateTopicsResponse(
            topics=tuple(
                CreatableTopicResult(name=topic.name, error_code=error, error_message=message) for topic in self.topics
            )
        )


@struct
class CreatableTopicConfigs(Struct):
    """One configuration entry of a created topic."""

    name:          str        = string("5+", default="")
    value:         str | None = string("5+", nullable="5+", default="")
    read_only:     bool       = boolean("5+", default=False)
    config_source: int        = int8("5+", default=-1, ignorable=True)
    is_sensitive:  bool       = boolean("5+", default=False)


@struct
class CreatableTopicResult(Struct):
    """What became of one topic."""

    name:                    str                                      = string("2+")
    topic_id:                bytes                                    = uuid("7+", default=ZERO_UUID, ignorable=True)
    error_code:              int                                      = int16("2+")
    error_message:           str | None                               = string("2+", nullable="2+", ignorable=True)
    topic_config_error_code: int                                      = int16("5+", default=0, ignorable=True, tag=0)                                  # why configs are not returned
    num_partitions:          int                                      = int32("5+", default=-1, ignorable=True)
    replication_factor:      int                                      = int16("5+", default=-1, ignorable=True)
    configs:                 tuple[CreatableTopicConfigs, ...] | None = array(CreatableTopicConfigs, "5+", nullable="5+", default=(), ignorable=True)


@message(api_key=19, versions="2-7", flexible="5+")
class CreateTopicsResponse(Struct):
    """One result a topic, in the order of the request.

    v5 flexible, returns partition count, replication factor and configs (KIP-525). v7 topic id (KIP-516).
    """

    throttle_time_ms: int                              = int32("2+", default=0, ignorable=True)
    topics:           tuple[CreatableTopicResult, ...] = array(CreatableTopicResult, "2+")

# fmt: on
