"""What a member is told of its group besides its tasks; codes and sentences are Kafka's.

Source: StreamsGroupHeartbeatResponse.Status, GroupMetadataManager.streamsGroupHeartbeat, KafkaApis.handleStreamsGroupHeartbeat.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Final

from kshim.coordinator.groups.streams.configured_topology import ConfiguredTopology, TopologyStatus
from kshim.coordinator.groups.streams.plan import Delay
from kshim.coordinator.groups.streams.topology import Topology
from kshim_protocol.internal.streams_group import StreamsGroupMemberMetadataValue
from kshim_protocol.messages.streams_group_heartbeat import Status

_MISSING_CLIENT_TAGS_SINCE: Final = 1
_MOST_FAILED_TOPICS: Final = 3


class StatusCode(IntEnum):
    """Those that do not come from the topics: see `TopologyStatus`."""

    STALE_TOPOLOGY = 0
    SHUTDOWN_APPLICATION = 4
    ASSIGNMENT_DELAYED = 5
    MISSING_CLIENT_TAGS = 6


def statuses(
    topology: Topology,
    metadata: StreamsGroupMemberMetadataValue,
    configured: ConfiguredTopology,
    *,
    shutdown_member_id: str | None,
    delay: Delay | None,
    creation: str,
    rack_aware_tags: str,
    api_version: int,
) -> tuple[Status, ...]:
    """All that hold for a member, in Kafka's order. `creation` is what is said of internal topics that cannot be made."""
    found: list[tuple[int, str]] = []
    if metadata.topology_epoch < topology.epoch:
        sentence = f"The member's topology epoch {metadata.topology_epoch} is behind the group's topology epoch {topology.epoch}."
        found.append((StatusCode.STALE_TOPOLOGY, sentence))
    if delay is not None:
        found.append((StatusCode.ASSIGNMENT_DELAYED, delay.value))
    if configured.status is not None:
        detail = configured.detail
        if configured.status is TopologyStatus.MISSING_INTERNAL_TOPICS:
            detail += creation
        found.append((configured.status, detail))
    if shutdown_member_id is not None:
        sentence = (
            f"Streams group member {shutdown_member_id} encountered a fatal error and requested a shutdown for the entire "
            "application."
        )
        found.append((StatusCode.SHUTDOWN_APPLICATION, sentence))
    if api_version >= _MISSING_CLIENT_TAGS_SINCE and (missing := _missing_tags(metadata, rack_aware_tags)):
        sentence = (
            f"Missing required client tags for rack-aware standby assignment: [{', '.join(missing)}]. Configure them via "
            "'client.tag.<tagKey>' in your Streams config."
        )
        found.append((StatusCode.MISSING_CLIENT_TAGS, sentence))
    return tuple(Status(status_code=code, status_detail=detail) for code, detail in found)


def _missing_tags(metadata: StreamsGroupMemberMetadataValue, tags: str) -> list[str]:
    if not tags.strip():
        return []
    known = {tag.key for tag in metadata.client_tags}
    return [tag for tag in map(str.strip, tags.split(",")) if tag not in known]


def unauthorized(names: Sequence[str]) -> str:
    """What is added where the member may not create internal topics."""
    return f"; Unauthorized to CREATE on topics {', '.join(names)}."


def creation_failed(errors: Mapping[str, str]) -> str:
    """What is added where internal topics could not be made, and that was not long ago."""
    if not errors:
        return ""
    texts = [f"{name} ({error})" for name, error in errors.items()]
    text = ", ".join(texts[:_MOST_FAILED_TOPICS])
    if len(texts) > _MOST_FAILED_TOPICS:
        text += f" and {len(texts) - _MOST_FAILED_TOPICS} more"
    return f"; Creation failed: {text}."
