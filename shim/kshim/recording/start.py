"""The state a recording begins with: what of it is written, and a storage that holds it again."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from kshim.broker.features import FEATURES_DOCUMENT, LEVEL_KEYS, LEVELS_BEFORE_FEATURES
from kshim.broker.producer_ids import PRODUCER_IDS_DOCUMENT
from kshim.config.broker_config import is_secret
from kshim.config.dynamic import DYNAMIC_CONFIGS_DOCUMENT
from kshim.partitions.partition import INTERNAL_TOPICS, Partition
from kshim.security.authorizer.document import ACLS_DOCUMENT
from kshim.storage.memory_log import MemoryLog
from kshim.storage.stores import MemoryStorage
from kshim.storage.topic_spec import PartitionLeader, TopicSpec
from kshim_protocol.records.batch import iter_batches
from kshim_protocol.records.layout import LOG_FIELDS

if TYPE_CHECKING:
    from kshim.broker.cluster import Cluster

_DOCUMENTS: Final = (PRODUCER_IDS_DOCUMENT, DYNAMIC_CONFIGS_DOCUMENT, ACLS_DOCUMENT)
"""Those that answers depend on. Credentials are not among them."""


def start_fields(cluster: Cluster, version: str) -> tuple[dict[str, Any], list[Partition]]:
    """What START says of a cluster that was just started, and the partitions whose batches follow. Raises LogError.

    These are the partitions of the coordinators. Of others is written only where they begin and end.
    """
    stored: list[Partition] = []
    topics = []
    for topic in cluster.topics:
        partitions = []
        for partition in topic.partitions:
            log = partition.log
            partitions.append({**partition.leader._asdict(), "start": log.start_offset, "end": log.end_offset})
            if topic.name in INTERNAL_TOPICS and log.size_bytes:
                stored.append(partition)
        about = {"name": topic.name, "id": topic.topic_id.hex(), "configs": dict(topic.configs)}
        topics.append({**about, "partitions": partitions})
    fields = {
        "kshim": version,
        "cluster_id": cluster.cluster_id,
        "nodes": cluster.leadership.node_count,
        "config": _open(cluster.config.static),
        "topics": topics,
        "partitions": [[partition.topic.name, partition.index] for partition in stored],
        "documents": _documents(cluster),
    }
    return fields, stored


def stored_batches(partition: Partition) -> Iterator[bytes]:
    """What a partition of a coordinator holds, whole batches at a time. Raises LogError."""
    return partition.log.runs()


def _open(pairs: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in pairs.items() if not is_secret(name)}


def _documents(cluster: Cluster) -> dict[str, str]:
    found = {FEATURES_DOCUMENT: cluster.features.document()}  # also where they are the default of this kshim
    for name in _DOCUMENTS:
        text = cluster.storage.read_document(name)
        if text is None:
            continue
        if name == DYNAMIC_CONFIGS_DOCUMENT:
            document = json.loads(text)
            for owners in document.values():
                if isinstance(owners, dict):
                    owners.update({owner: _open(configs) for owner, configs in owners.items()})
            text = json.dumps(document)
        found[name] = text
    if isinstance(cluster.storage, MemoryStorage):  # it is the first run of this cluster: its producer ids begin at 0
        found.setdefault(PRODUCER_IDS_DOCUMENT, "0")
    return found


class StartStorage(MemoryStorage):
    """A storage in memory that holds what a recording began with. `add` its batches before it is used.

    `settings` are configuration keys that have other values now: the level of a feature is one of them.
    """

    def __init__(self, fields: Mapping[str, Any], settings: Mapping[str, str]) -> None:
        super().__init__()
        self._topics: list[dict[str, Any]] = fields["topics"]
        self._names: list[list[Any]] = fields["partitions"]
        self._logs: dict[tuple[str, int], MemoryLog] = {}
        for topic in self._topics:
            for index, partition in enumerate(topic["partitions"]):
                is_stored = topic["name"] in INTERNAL_TOPICS
                log = MemoryLog(partition["start" if is_stored else "end"])
                if not is_stored:
                    log.start_offset = log.end_offset
                self._logs[topic["name"], index] = log
        documents: dict[str, str] = fields["documents"]
        for name, text in {FEATURES_DOCUMENT: LEVELS_BEFORE_FEATURES, **documents}.items():
            if name != FEATURES_DOCUMENT or settings.keys().isdisjoint(LEVEL_KEYS):
                self.write_document(name, text)

    def add(self, index: int, batches: bytes) -> None:
        """Put batches behind those before, in partition `index` of START. Raises ProtocolError, LookupError."""
        name, partition = self._names[index]
        log = self._logs[name, partition]
        for batch in iter_batches(batches):
            log.end_offset, _, log.leader_epoch, *_ = LOG_FIELDS.unpack_from(batch)
            log.append(batch)

    def open_log(self, topic: str, partition: int) -> MemoryLog:
        """See `Storage.open_log`: the first time with what it began with."""
        log = self._logs.pop((topic, partition), None)
        return super().open_log(topic, partition) if log is None else log

    def load_topics(self) -> Iterable[TopicSpec]:
        """See `Storage.load_topics`."""
        for topic in self._topics:
            yield TopicSpec(
                topic["name"],
                bytes.fromhex(topic["id"]),
                len(topic["partitions"]),
                topic["configs"],
                tuple(map(_leader, topic["partitions"])),
            )


def _leader(partition: Mapping[str, Any]) -> PartitionLeader:
    epochs: Sequence[Sequence[int]] = partition["epochs"]
    return PartitionLeader(
        partition["preferred_id"],
        partition["leader_id"],
        partition["leader_epoch"],
        tuple((epoch, offset) for epoch, offset in epochs),
    )
