"""Records of a share group that did not go the ordinary way, as they stand in an event."""

from __future__ import annotations

from kshim.coordinator.groups.events import DeliveryFailed
from kshim.history.json_parts import quoted, text


def records_json(found: DeliveryFailed | None) -> str:
    """As in an event."""
    if found is None:
        return "null"
    ranges = ",".join(
        f'{{"first_offset":{first},"last_offset":{last},"delivery_count":{count}}}'
        for first, last, count in found.ranges
    )
    return (
        f'{{"topic":{quoted(found.topic_name)},"partition":{found.topic_partition},"first_offset":{found.first_offset},'
        f'"last_offset":{found.last_offset},"count":{found.record_count},"times":{found.times},'
        f'"delivery_count":{found.delivery_count},"held_ms":{found.held_ms},"lock_ms":{found.lock_ms},'
        f'"delivery_count_limit":{found.delivery_count_limit},"ended_by":{text(found.ended_by)},'
        f'"ranges":[{ranges}],"ranges_omitted":{found.omitted_count}}}'
    )
