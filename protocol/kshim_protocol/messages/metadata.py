"""Metadata: @@MODDOC@@"""

from __future__ import annotations

from kshim_protocol.schema import ZERO_UUID, Request, Struct, array, boolean, int16, int32, message, string, struct, uuid

__all__ = [
    "MetadataRequest",
    "MetadataRequestTopic",
    "MetadataResponse",
    "MetadataResponseBroker",
    "MetadataResponsePartition",
    "MetadataResponseTopic",
]

# fmt: off


@struct
class MetadataRequestTopic(Struct):
    """Part of MetadataRequest."""

    topic_id: bytes      = uuid("10+", default=ZERO_UUID, ignorable=True)
    name:     str | None = string("0+", nullable="10+")


@message(api_key=3, versions="0-13", flexible="9+")
class MetadataRequest(Request["MetadataResponse"]):
    """@@DOC MetadataRequest@@"""

    topics:                                tuple[MetadataRequestTopic, ...] | None = array(MetadataRequestTopic, "0+", nullable="1+")
    allow_auto_topic_creation:             bool                                    = boolean("4+", default=True)
    include_cluster_authorized_operations: bool                                    = boolean("8-10", default=False)
    include_topic_authorized_operations:   bool                                    = boolean("8+", default=False)


@struct
class MetadataResponseBroker(Struct):
    """Part of MetadataResponse."""

    node_id: int        = int32("0+")
    host:    str        = string("0+")
    port:    int        = int32("0+")
    rack:    str | None = string("1+", nullable="1+", default=None, ignorable=True)


@struct
class MetadataResponsePartition(Struct):
    """Part of MetadataResponse."""

    error_code:       int             = int16("0+")
    partition_index:  int             = int32("0+")
    leader_id:        int             = int32("0+")
    leader_epoch:     int             = int32("7+", default=-1, ignorable=True)
    replica_nodes:    tuple[int, ...] = array("int32", "0+")
    isr_nodes:        tuple[int, ...] = array("int32", "0+")
    offline_replicas: tuple[int, ...] = array("int32", "5+", default=(), ignorable=True)


@struct
class MetadataResponseTopic(Struct):
    """Part of MetadataResponse."""

    error_code:                  int                                   = int16("0+")
    name:                        str | None                            = string("0+", nullable="12+")
    topic_id:                    bytes                                 = uuid("10+", default=ZERO_UUID, ignorable=True)
    is_internal:                 bool                                  = boolean("1+", default=False, ignorable=True)
    partitions:                  tuple[MetadataResponsePartition, ...] = array(MetadataResponsePartition, "0+")
    topic_authorized_operations: int                                   = int32("8+", default=-2147483648)


@message(api_key=3, versions="0-13", flexible="9+")
class MetadataResponse(Struct):
    """@@DOC MetadataResponse@@"""

    throttle_time_ms:              int                                = int32("3+", default=0, ignorable=True)
    brokers:                       tuple[MetadataResponseBroker, ...] = array(MetadataResponseBroker, "0+")
    cluster_id:                    str | None                         = string("2+", nullable="2+", default=None, ignorable=True)
    controller_id:                 int                                = int32("1+", default=-1, ignorable=True)
    topics:                        tuple[MetadataResponseTopic, ...]  = array(MetadataResponseTopic, "0+")
    cluster_authorized_operations: int                                = int32("8-10", default=-2147483648)
    error_code:                    int                                = int16("13+", default=0, ignorable=True)

# fmt: on
