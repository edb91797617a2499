"""StreamsGroupTopologyDescriptionUpdate: a member describes its application, for a plugin of the broker (KIP-1331)."""

from __future__ import annotations

from kshim_protocol.errors import ErrorCode
from kshim_protocol.schema import Request, Struct, array, int8, int16, int32, message, string, struct, struct_

# fmt: off


@struct
class TopologyDescriptionNode(Struct):
    """A node of the graph: 1 a source, 2 a processor, 3 a sink."""

    name:          str             = string("0+")
    node_type:     int             = int8("0+")
    source_topics: tuple[str, ...] = array("string", "0+")
    sink_topic:    str | None      = string("0+", nullable="0+", default=None)
    stores:        tuple[str, ...] = array("string", "0+")
    successors:    tuple[str, ...] = array("string", "0+")


@struct
class TopologyDescriptionSubtopology(Struct):
    """The graph of one subtopology."""

    subtopology_id: str                                 = string("0+")
    nodes:          tuple[TopologyDescriptionNode, ...] = array(TopologyDescriptionNode, "0+")


@struct
class TopologyDescriptionGlobalStore(Struct):
    """A store that every instance has, and what fills it."""

    source:    TopologyDescriptionNode = struct_(TopologyDescriptionNode, "0+")
    processor: TopologyDescriptionNode = struct_(TopologyDescriptionNode, "0+")


@struct
class TopologyDescription(Struct):
    """The whole application, as people draw it."""

    subtopologies: tuple[TopologyDescriptionSubtopology, ...] = array(TopologyDescriptionSubtopology, "0+")
    global_stores: tuple[TopologyDescriptionGlobalStore, ...] = array(TopologyDescriptionGlobalStore, "0+")


@message(api_key=93, versions="0", flexible="0+")
class StreamsGroupTopologyDescriptionUpdateRequest(Request["StreamsGroupTopologyDescriptionUpdateResponse"]):
    """Sent when a heartbeat asked for it."""

    group_id:             str                 = string("0+")
    member_id:            str                 = string("0+")
    topology_epoch:       int                 = int32("0+")
    topology_description: TopologyDescription = struct_(TopologyDescription, "0+")

    def error_response(
        self, error: ErrorCode, version: int, message: str | None = None
    ) -> StreamsGroupTopologyDescriptionUpdateResponse:
        return StreamsGroupTopologyDescriptionUpdateResponse(error_code=error, error_message=message)


@message(api_key=93, versions="0", flexible="0+")
class StreamsGroupTopologyDescriptionUpdateResponse(Struct):
    """Whether it was kept."""

    throttle_time_ms: int        = int32("0+", default=0)
    error_code:       int        = int16("0+")
    error_message:    str | None = string("0+", nullable="0+", default=None)

# fmt: on
