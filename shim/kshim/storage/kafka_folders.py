"""Taking over partition folders that a Kafka has written, copied from where it was stopped.

What is in them is Kafka's format and so ours. Their indexes are not ours: Kafka writes them before it syncs, and ahead
of use with zeros at the end. They are removed, so that every batch is checked once and they are rebuilt. Other files
(`partition.metadata`, `leader-epoch-checkpoint`, snapshots of producers) are left alone.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Collection

from kshim.storage.log import LogError
from kshim.storage.os_calls import OsCalls
from kshim.storage.segments.index import INDEX_SUFFIXES
from kshim.storage.topic_id import id_bytes
from kshim.storage.topic_spec import TopicSpec

_OFFSETS_TOPIC = "__consumer_offsets"
_OFFSETS_PARTITIONS = 50  # Kafka's offsets.topic.num.partitions
_NOT_OURS = frozenset({"__cluster_metadata"})
_COMPACTED = {"cleanup.policy": "compact", "compression.type": "producer", "segment.bytes": str(100 << 20)}
_CONFIGS = {_OFFSETS_TOPIC: _COMPACTED, "__transaction_state": _COMPACTED}
_METADATA_FILE = "partition.metadata"


def adopt(
    path: str, partitions: Collection[tuple[str, int]], new_topic_id: Callable[[], bytes], calls: OsCalls
) -> list[TopicSpec]:
    """Prepare the folders in `path` for use, and return their topics.

    A topic has the id its folders agree on, else a new one, and as many partitions as there are up to the last folder;
    the offsets topic at least 50 when folders are missing in between, for its count decides where groups are.
    Raises LogError.
    """
    found: dict[str, list[int]] = {}
    for topic, partition in partitions:
        if topic not in _NOT_OURS:
            found.setdefault(topic, []).append(partition)
    specs = []
    for topic, indexes in sorted(found.items()):
        folders = [os.path.join(path, f"{topic}-{index}") for index in sorted(indexes)]
        topic_id = _common_id(topic, folders) or new_topic_id()
        partition_count = max(indexes) + 1
        if topic == _OFFSETS_TOPIC and len(indexes) < partition_count:
            partition_count = max(partition_count, _OFFSETS_PARTITIONS)
        specs.append(TopicSpec(topic, topic_id, partition_count, dict(_CONFIGS.get(topic, {}))))
        for folder in folders:
            _remove_indexes(folder, calls)
    return specs


def _common_id(topic: str, folders: list[str]) -> bytes | None:
    ids = {found for folder in folders if (found := _id_in(folder)) is not None}
    if len(ids) > 1:
        raise LogError(
            f"the folders of {topic} in {os.path.dirname(folders[0])} come from different topics: their ids differ"
        )
    return ids.pop() if ids else None


def _id_in(folder: str) -> bytes | None:
    path = os.path.join(folder, _METADATA_FILE)
    try:
        with open(path, encoding="utf-8") as file:
            rows = dict(line.split(": ", 1) for line in file.read().splitlines() if line)
        return id_bytes(rows["topic_id"].strip())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise LogError(f"cannot read {path}: {error.strerror or error}") from error
    except (KeyError, ValueError) as error:
        raise LogError(f"{path} is damaged: {error!r}") from error


def _remove_indexes(folder: str, calls: OsCalls) -> None:
    try:
        for name in os.listdir(folder):
            if name.endswith(INDEX_SUFFIXES):
                with contextlib.suppress(FileNotFoundError):
                    calls.unlink(os.path.join(folder, name))
    except OSError as error:
        raise LogError(f"cannot adopt {folder}: {error.strerror or error}") from error
