"""DescribeCluster: brokers, controller and cluster id, for admin clients."""

from __future__ import annotations

from kshim_protocol.errors import ErrorCode
from kshim_protocol.schema import Request, Struct, array, boolean, int8, int16, int32, message, string, struct

# fmt: off


@message(api_key=60, versions="0-2", flexible="0+")
class DescribeClusterRequest(Request["DescribeClusterResponse"]):
    """Ask about the cluster (KIP-700). v1 endpoint type (KIP-919). v2 fenced brokers (KIP-1073)."""

    include_cluster_authorized_operations: bool = boolean("0+")
    endpoint_type:                         int  = int8("1+", default=1)         # 1 brokers, 2 controllers
    include_fenced_brokers:                bool = boolean("2+", default=False)

    def error_response(self, error: ErrorCode, version: int, message: str | None = None) -> DescribeClusterResponse:
        return DescribeClusterResponse(error_code=error, error_message=message, cluster_id="", brokers=())


@struct
class DescribeClusterBroker(Struct):
    """One broker."""

    broker_id: int        = int32("0+")
    host:      str        = string("0+")
    port:      int        = int32("0+")
    rack:      str | None = string("0+", nullable="0+", default=None)
    is_fenced: bool       = boolean("2+", default=False)


@message(api_key=60, versions="0-2", flexible="0+")
class DescribeClusterResponse(Struct):
    """What the cluster is made of. v1 endpoint type (KIP-919). v2 `is_fenced` (KIP-1073)."""

    throttle_time_ms:              int                               = int32("0+", default=0)
    error_code:                    int                               = int16("0+")
    error_message:                 str | None                        = string("0+", nullable="0+", default=None)
    endpoint_type:                 int                               = int8("1+", default=1)
    cluster_id:                    str                               = string("0+")
    controller_id:                 int                               = int32("0+", default=-1)
    brokers:                       tuple[DescribeClusterBroker, ...] = array(DescribeClusterBroker, "0+")
    cluster_authorized_operations: int                               = int32("0+", default=-2147483648)           # bit field; the lowest int32: not asked for

# fmt: on
