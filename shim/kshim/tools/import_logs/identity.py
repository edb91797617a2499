"""What a data directory of kshim says of itself and its topics, beside their folders."""

from __future__ import annotations

import json
import os
from typing import Any, Final

from kshim.tools.logs.ids import uuid_text

_FORMAT_VERSION: Final = 1
"""Of what is kshim's own; a newer kshim upgrades it."""

_NODE_ID: Final = 1
"""kshim's default of `node.id`."""

OFFSETS_CONFIGS: Final = {"cleanup.policy": "compact", "compression.type": "producer", "segment.bytes": "104857600"}
"""What brokers make the offsets topic with."""

KEPT_FOR_EVER: Final = {"retention.ms": "-1", "retention.bytes": "-1"}
"""For topics whose configuration is unknown: the defaults would delete records after a week."""


def new_id() -> str:
    """A random id of a cluster or topic, as Kafka prints them; none begins with a hyphen."""
    while True:
        found = uuid_text(os.urandom(16))
        if not found.startswith("-"):
            return found


def meta_properties(cluster_id: str | None) -> str:
    """The file that says whose directory it is."""
    return (
        f"version=1\ncluster.id={cluster_id or new_id()}\nnode.id={_NODE_ID}\nkshim.format.version={_FORMAT_VERSION}\n"
    )


def topic_row(name: str, topic_id: str, partition_count: int, configs: dict[str, str]) -> dict[str, Any]:
    """One topic of `topics.json`."""
    return {"name": name, "topic_id": topic_id, "partitions": partition_count, "configs": configs}


def topics_json(rows: list[dict[str, Any]]) -> str:
    """The file that lists the topics."""
    rows = sorted(rows, key=lambda row: str(row["name"]))
    return json.dumps({"version": _FORMAT_VERSION, "topics": rows}, indent=1, ensure_ascii=False) + "\n"
