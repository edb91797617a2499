"""Names of the topics that the pipeline reads and writes."""

from __future__ import annotations

from typing import Final

OFFSETS_TOPIC: Final = "__consumer_offsets"
SHARE_STATE_TOPIC: Final = "__share_group_state"
"""What share groups have made of records; read where it is landed or lies in a data directory."""
EVENTS_TOPIC: Final = "__kshim_events"
"""The history of a kshim, for those who ask for the topic by name."""
EVENT_VERSIONS: Final = (1, 2)
"""Versions of its values. Version 2 has added fields, and groups of the new protocol."""
ALERTS_TOPIC: Final = "kshim_alerts"
"""Where `kshim pipeline watch` writes, by default."""
