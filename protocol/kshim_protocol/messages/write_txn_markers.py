"""WriteTxnMarkers: end transactions in partitions, whatever their coordinator thinks of them."""

from __future__ import annotations

from kshim_protocol.errors import ErrorCode
from kshim_protocol.schema import Request, Struct, array, boolean, int8, int16, int32, int64, message, string, struct

# fmt: off


@struct
class WritableTxnMarkerTopic(Struct):
    """Partitions of one topic."""

    name:              str             = string("0+")
    partition_indexes: tuple[int, ...] = array("int32", "0+")


@struct
class WritableTxnMarker(Struct):
    """One marker, for many partitions."""

    producer_id:         int                                = int64("0+")
    producer_epoch:      int                                = int16("0+")
    transaction_result:  bool                               = boolean("0+")                         # true: commit
    topics:              tuple[WritableTxnMarkerTopic, ...] = array(WritableTxnMarkerTopic, "0+")
    coordinator_epoch:   int                                = int32("0+")
    transaction_version: int                                = int8("2+", default=0, ignorable=True)


@message(api_key=27, versions="1-2", flexible="1+")
class WriteTxnMarkersRequest(Request["WriteTxnMarkersResponse"]):
    """Write markers (KIP-98; for admins KIP-664). v1 flexible. v2 the version of transactions (KIP-1228)."""

    markers: tuple[WritableTxnMarker, ...] = array(WritableTxnMarker, "0+")

    def error_response(self, error: ErrorCode, version: int, message: str | None = None) -> WriteTxnMarkersResponse:
        return WriteTxnMarkersResponse(
            markers=tuple(
                WritableTxnMarkerResult(
                    producer_id=marker.producer_id,
                    topics=tuple(
                        WritableTxnMarkerTopicResult(
                            name=topic.name,
                            partitions=tuple(
                                WritableTxnMarkerPartitionResult(partition_index=index, error_code=error)
                                for index in topic.partition_indexes
                            ),
                        )
                        for topic in marker.topics
                    ),
                )
                for marker in self.markers
            )
        )


@struct
class WritableTxnMarkerPartitionResult(Struct):
    """One partition."""

    partition_index: int = int32("0+")
    error_code:      int = int16("0+")


@struct
class WritableTxnMarkerTopicResult(Struct):
    """Partitions of one topic."""

    name:       str                                          = string("0+")
    partitions: tuple[WritableTxnMarkerPartitionResult, ...] = array(WritableTxnMarkerPartitionResult, "0+")


@struct
class WritableTxnMarkerResult(Struct):
    """One marker."""

    producer_id: int                                      = int64("0+")
    topics:      tuple[WritableTxnMarkerTopicResult, ...] = array(WritableTxnMarkerTopicResult, "0+")


@message(api_key=27, versions="1-2", flexible="1+")
class WriteTxnMarkersResponse(Struct):
    """One result a marker and partition. v1 flexible. v2 as the request."""

    markers: tuple[WritableTxnMarkerResult, ...] = array(WritableTxnMarkerResult, "0+")

# fmt: on
