"""Streams groups: members with topologies of all kinds, and what is told of groups."""

from __future__ import annotations

from collections.abc import Mapping

from integration.security.questions.things import GROUPS, MISSING, NO_MEMBER, TOPICS, Rows
from integration.streams.play import part, topic_info
from kshim_protocol.messages.streams_group_describe import StreamsGroupDescribeRequest
from kshim_protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest, Topology
from kshim_protocol.messages.streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateRequest,
    TopologyDescription,
)


def streams_members(ids: Mapping[str, bytes]) -> Rows:
    """Nobody gets into a group: what would join has no time to rebalance."""
    for name, parts in {
        "no topology": None,
        "both topics": (part("0", *TOPICS),),
        "one topic": (part("0", TOPICS[0]),),
        "a sink": (part("0", TOPICS[0], sinks=(TOPICS[1],)),),
        "a changelog": (part("0", TOPICS[0], changelogs=(topic_info(MISSING),)),),
        "a repartition topic": (part("0", repartitions=(topic_info(TOPICS[1]),)),),
        "an internal topic": (part("0", TOPICS[0], "__consumer_offsets"),),
        "a name that is none": (part("0", "a b"),),
    }.items():
        request = StreamsGroupHeartbeatRequest(
            group_id=GROUPS[0],
            member_id=NO_MEMBER,
            member_epoch=7 if parts is None else 0,
            endpoint_information_epoch=-1,
            topology=None if parts is None else Topology(epoch=0, subtopologies=parts),
        )
        yield f"StreamsGroupHeartbeat {name}", request, 1
    described = (*GROUPS, "group-missing")
    for version in (0, 1):
        describe = StreamsGroupDescribeRequest(group_ids=described, include_authorized_operations=True)
        yield "StreamsGroupDescribe", describe, version
    update = StreamsGroupTopologyDescriptionUpdateRequest(
        group_id=GROUPS[0],
        member_id=NO_MEMBER,
        topology_epoch=0,
        topology_description=TopologyDescription(subtopologies=(), global_stores=()),
    )
    yield "StreamsGroupTopologyDescriptionUpdate", update, 0
