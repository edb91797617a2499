"""Metadata: brokers, topics and partition leaders; may create topics."""

from __future__ import annotations

from collections.abc import Sequence

from kshim_protocol.errors import ErrorCode
from kshim_protocol.schema import (
    ZERO_UUID,
    Request,
    Struct,
    array,
    boolean,
    int16,
    int32,
    message,
    rows,
    string,
    struct,
    uuid,
)

# fmt: off


@struct
class MetadataRequestTopic(Struct):
    """A topic by name, or from v12 by id."""

    topic_id: bytes      = uuid("10+", default=ZERO_UUID, ignorable=True)
    name:     str | None = string("0+", nullable="10+")


@message(api_key=3, versions="0-13", flexible="9+")
class MetadataRequest(Request["MetadataResponse"]):
    """Ask about topics. Null: all topics; empty: none (in v0, which has no null, empty: all).

    v4 auto-create is the client's choice (KIP-204). v8 authorized operations (KIP-430). v9 flexible. v10 topic id,
    usable from v12 (KIP-516). v11 cluster operations moved to DescribeCluster (KIP-700).
    """

    topics:                                tuple[MetadataRequestTopic, ...] | None = array(MetadataRequestTopic, "0+", nullable="1+")  # null: all (v0: empty)
    allow_auto_topic_creation:             bool                                    = boolean("4+", default=True)
    include_cluster_authorized_operations: bool                                    = boolean("8-10", default=False)
    include_topic_authorized_operations:   bool                                    = boolean("8+", default=False)

    def error_response(self, error: ErrorCode, version: int, message: str | None = None) -> MetadataResponse:
        return MetadataResponse(
            brokers=(),
            topics=tuple(
                MetadataResponseTopic(
                    error_code=error,
                    name=topic.name or "",
                    topic_id=topic.topic_id,
                    partitions=(),
                )
                for topic in self.topics or ()
            ),
            error_code=error,
        )


@struct
class MetadataResponseBroker(Struct):
    """One broker."""

    node_id: int        = int32("0+")
    host:    str        = string("0+")
    port:    int        = int32("0+")
    rack:    str | None = string("1+", nullable="1+", default=None, ignorable=True)


@struct
class MetadataResponsePartition(Struct):
    """One partition."""

    error_code:       int             = int16("0+")
    partition_index:  int             = int32("0+")
    leader_id:        int             = int32("0+")
    leader_epoch:     int             = int32("7+", default=-1, ignorable=True)
    replica_nodes:    tuple[int, ...] = array("int32", "0+")
    isr_nodes:        tuple[int, ...] = array("int32", "0+")                              # in-sync replicas
    offline_replicas: tuple[int, ...] = array("int32", "5+", default=(), ignorable=True)


@struct
class MetadataResponseTopic(Struct):
    """One topic."""

    error_code:                  int                                   = int16("0+")
    name:                        str | None                            = string("0+", nullable="12+")
    topic_id:                    bytes                                 = uuid("10+", default=ZERO_UUID, ignorable=True)
    is_internal:                 bool                                  = boolean("1+", default=False, ignorable=True)
    partitions:                  tuple[MetadataResponsePartition, ...] = array(MetadataResponsePartition, "0+")
    topic_authorized_operations: int                                   = int32("8+", default=-2147483648)                # bit field; the lowest int32: not asked for


@message(api_key=3, versions="0-13", flexible="9+")
class MetadataResponse(Struct):
    """Brokers, topics, partition leaders.

    v1 rack, controller, `is_internal`. v2 cluster id (KIP-78). v3 throttle time. v5 offline replicas (KIP-112).
    v7 leader epoch (KIP-320). v8 authorized operations (KIP-430). v9 flexible. v10 topic id (KIP-516). v12 null name.
    v13 top-level error (KIP-1102).
    """

    throttle_time_ms:              int                                = int32("3+", default=0, ignorable=True)
    brokers:                       tuple[MetadataResponseBroker, ...] = array(MetadataResponseBroker, "0+")
    cluster_id:                    str | None                         = string("2+", nullable="2+", default=None, ignorable=True)
    controller_id:                 int                                = int32("1+", default=-1, ignorable=True)                    # a broker; the real controller stays hidden
    topics:                        Sequence[MetadataResponseTopic]    = rows(MetadataResponseTopic, "0+")
    cluster_authorized_operations: int                                = int32("8-10", default=-2147483648)                         # bit field; the lowest int32: not asked for
    error_code:                    int                                = int16("13+", default=0, ignorable=True)

# fmt: on
