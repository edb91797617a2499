"""DescribeCluster: @@MODDOC@@"""

from __future__ import annotations

from kshim_protocol.schema import Request, Struct, array, boolean, int16, int32, int8, message, string, struct

__all__ = [
    "DescribeClusterBroker",
    "DescribeClusterRequest",
    "DescribeClusterResponse",
]

# fmt: off


@message(api_key=60, versions="0-2", flexible="0+")
class DescribeClusterRequest(Request["DescribeClusterResponse"]):
    """@@DOC DescribeClusterRequest@@"""

    include_cluster_authorized_operations: bool = boolean("0+")
    endpoint_type:                         int  = int8("1+", default=1)
    include_fenced_brokers:                bool = boolean("2+", default=False)


@struct
class DescribeClusterBroker(Struct):
    """Part of DescribeClusterResponse."""

    broker_id: int        = int32("0+")
    host:      str        = string("0+")
    port:      int        = int32("0+")
    rack:      str | None = string("0+", nullable="0+", default=None)
    is_fenced: bool       = boolean("2+", default=False)


@message(api_key=60, versions="0-2", flexible="0+")
class DescribeClusterResponse(Struct):
    """@@DOC DescribeClusterResponse@@"""

    throttle_time_ms:              int                               = int32("0+", default=0)
    error_code:                    int                               = int16("0+")
    error_message:                 str | None                        = string("0+", nullable="0+", default=None)
    endpoint_type:                 int                               = int8("1+", default=1)
    cluster_id:                    str                               = string("0+")
    controller_id:                 int                               = int32("0+", default=-1)
    brokers:                       tuple[DescribeClusterBroker, ...] = array(DescribeClusterBroker, "0+")
    cluster_authorized_operations: int                               = int32("0+", default=-2147483648)

# fmt: on
