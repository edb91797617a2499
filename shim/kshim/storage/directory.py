"""The folder of `--data-dir`: who may use it, which node and cluster it belongs to, its topics and their logs."""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Callable, Collection, Iterable
from typing import Any

from kshim.storage.cleaner_checkpoint import CleanerCheckpoint
from kshim.storage.directory_lock import DirectoryLock
from kshim.storage.file_log import DEFAULT_SEGMENT_BYTES, FileLog
from kshim.storage.folders import free_doomed_name, remove_folder
from kshim.storage.kafka_folders import adopt
from kshim.storage.log import LogError
from kshim.storage.os_calls import OsCalls
from kshim.storage.recovery import Recover
from kshim.storage.repairs import IndexRebuilt, Repair
from kshim.storage.topic_id import id_bytes, id_text
from kshim.storage.topic_spec import PartitionLeader, TopicSpec

FORMAT_VERSION = 2
"""Of everything in here that is not Kafka's own format. A newer one is refused.

1: no indexes beside the segments, nothing left over of replaced segments; read as it is and upgraded by its first use.
"""

_FORMAT_KEY = "kshim.format.version"
_META_FILE = "meta.properties"
_TOPICS_FILE = "topics.json"
_LOCK_FILE = ".lock"
_CLOSED_FILE = ".kafka_cleanshutdown"

_TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")  # Kafka's rule; it also keeps a name from being a path
_PARTITION_FOLDER = re.compile(r"([a-zA-Z0-9._-]{1,249})-(\d+)")
_DOOMED_SUFFIX = "-delete"


class DataDirectory:
    """A folder that belongs to this process until `close`. Made by `DataDirectory.open`.

    It holds `meta.properties` (as Kafka's, with our format version), `topics.json`, and one folder a partition as Kafka
    names them. `topics` is what `topics.json` says, by name; `write_topics` replaces both.

    Folders of topics that are in no `topics.json` are taken over as those of a Kafka: `adopted` names these topics.
    `was_closed`: the previous process closed all logs cleanly. Otherwise their ends must be checked before use,
    and `is_checked` set; only then does `close` say so to the next process.
    """

    def __init__(self, path: str, cluster_id: str, node_id: int, lock: DirectoryLock, calls: OsCalls) -> None:
        self.path = path
        self.cluster_id = cluster_id
        self.node_id = node_id
        self._lock = lock
        self._calls = calls
        self.topics: dict[str, TopicSpec] = {}
        self.adopted: list[str] = []
        self.was_closed = False
        self.is_checked = False
        self._format_version = FORMAT_VERSION
        self._deleted: list[str] = []  # topics whose folders may still be there
        self._logs: dict[str, FileLog] = {}
        self.cleaner_checkpoint = CleanerCheckpoint(path, calls)

    @classmethod
    def open(
        cls,
        path: str,
        *,
        cluster_id: str,
        node_id: int,
        calls: OsCalls | None = None,
        new_topic_id: Callable[[], bytes] = lambda: os.urandom(16),
    ) -> DataDirectory:
        """Take the folder, made if need be. A new one gets `cluster_id`; one in use before keeps its own.

        `new_topic_id` makes ids for adopted topics that have none. Raises DirectoryLocked; LogError when it belongs to another node or program, or cannot be read.
        """
        path = os.path.abspath(path)
        try:
            if os.path.exists(path) and not os.path.isdir(path):
                raise LogError(f"cannot use {path}: it is not a directory")
            os.makedirs(path, exist_ok=True)
            lock = DirectoryLock(os.path.join(path, _LOCK_FILE))
        except OSError as error:
            raise LogError(f"cannot use {path}: {error.strerror or error}") from error
        try:
            directory = cls(path, cluster_id, node_id, lock, OsCalls() if calls is None else calls)
            directory._read_meta()
            directory._read_topics()
            directory._remove_doomed()
            directory._forget_end()
            directory._adopt(new_topic_id)
        except BaseException:
            lock.release()
            raise
        return directory

    def write_topics(self, topics: Iterable[TopicSpec]) -> None:
        """Replace what is stored of all topics, in one step that survives power loss. Raises LogError, unchanged."""
        by_name = {topic.name: topic for topic in topics}
        if any(name in by_name for name in self._deleted):  # its old records must not come back
            self._delete_rest()
        gone = dict.fromkeys([*self._deleted, *self.topics])  # `delete_partitions` is to follow
        self._write_topics(by_name, [name for name in gone if name not in by_name])

    def _write_topics(self, by_name: dict[str, TopicSpec], deleted: list[str]) -> None:
        rows = [_row(topic) for topic in sorted(by_name.values())]
        document: dict[str, Any] = {"version": FORMAT_VERSION, "topics": rows}
        if deleted:
            document["deleted"] = deleted
        self._write(_TOPICS_FILE, json.dumps(document, indent=1, ensure_ascii=False) + "\n")
        self.topics = by_name
        self._deleted = deleted

    def partitions(self) -> list[tuple[str, int]]:
        """(topic, partition) of every partition folder there is, sorted. Raises LogError."""
        found = [_PARTITION_FOLDER.fullmatch(name) for name in self._names()]
        return sorted((match[1], int(match[2])) for match in found if match is not None)

    def log(
        self,
        topic: str,
        partition: int,
        *,
        segment_bytes: int = DEFAULT_SEGMENT_BYTES,
        recover: Recover = "refuse",
        on_repair: Callable[[Repair], None] | None = None,
    ) -> FileLog:
        """The log of a partition, whether its folder is there yet or not. Raises ValueError for an illegal name."""
        if not _TOPIC_NAME.fullmatch(topic) or partition < 0:
            raise ValueError(f"{topic!r}-{partition} is not a partition")
        folder = os.path.join(self.path, f"{topic}-{partition}")
        if on_repair is not None and topic in self.adopted:
            on_repair = _without_indexes(on_repair)
        log = self._logs[folder] = FileLog(
            folder,
            segment_bytes=segment_bytes,
            recover=recover,
            was_closed=self.was_closed and topic not in self.adopted,
            on_repair=on_repair,
            calls=self._calls,
        )
        return log

    def delete_partitions(self, topics: Collection[str]) -> Callable[[], None] | None:
        """Put the partition folders of topics out of use, by new names; their logs are closed already.

        What is returned removes the folders: it blocks, in any thread, and raises LogError, also for those that could
        not be renamed. None when there are none. The next start removes what is left then. A rename is tried again with
        the next deletion, and before a topic of that name is stored.
        """
        topics = {*topics, *self._deleted}
        doomed: list[str] = []
        failures: list[Exception] = []
        try:
            for topic, partition in self.partitions():
                if topic in topics:
                    self._doom(os.path.join(self.path, f"{topic}-{partition}"), doomed, failures)
            if doomed:
                self._calls.sync_directory(self.path)
            self.cleaner_checkpoint.forget(topics)
            if self._deleted and not failures:
                self._write_topics(self.topics, [])
        except (OSError, LogError) as error:
            failures.append(error)

        def remove() -> None:
            for folder in doomed:
                try:
                    remove_folder(folder)
                except OSError as error:
                    failures.append(error)
            if failures:
                reason = getattr(failures[0], "strerror", None) or failures[0]
                raise LogError(f"cannot delete {', '.join(sorted(topics))} from {self.path}: {reason}") from failures[0]

        return remove if doomed or failures else None

    def _doom(self, folder: str, doomed: list[str], failures: list[Exception]) -> None:
        """Rename a folder; its new name is added to `doomed`, or what kept it from getting one to `failures`."""
        self._logs.pop(folder, None)
        name = free_doomed_name(folder)
        try:
            self._calls.rename(folder, name)
        except OSError as error:
            failures.append(error)
        else:
            doomed.append(name)

    def _delete_rest(self) -> None:
        """Finish the deletions that the topics' document still speaks of. Raises LogError."""
        remove = self.delete_partitions(()) if self._deleted else None
        if remove is not None:
            remove()

    def read_document(self, name: str) -> str | None:
        """A file of the broker's own beside the logs, None when there is none. Raises LogError."""
        path = os.path.join(self.path, name)
        return _read(path) if os.path.exists(path) else None

    def write_document(self, name: str, text: str) -> None:
        """Replace that file in one step that survives power loss; only its owner may read it. Raises LogError."""
        self._write(name, text, is_private=True)

    def volume(self) -> tuple[str, int, int]:
        """(its absolute path, bytes of the volume it is on, bytes of that which are free). Raises LogError."""
        from shutil import disk_usage

        path = os.path.abspath(self.path)
        try:
            usage = disk_usage(path)
        except OSError as error:
            raise LogError(f"cannot get the size of the volume of {path}: {error.strerror or error}") from error
        return path, usage.total, usage.free

    def close(self) -> None:
        """Let others use the folder. Logs are closed before. If all could be, the folder is marked as closed cleanly for the next process."""
        if (self.was_closed or self.is_checked) and all(log.is_safe for log in self._logs.values()):
            with contextlib.suppress(LogError):  # then the next start checks more than it needs to
                self._write(_CLOSED_FILE, '{"version":0,"brokerEpoch":-1}')
        self._lock.release()

    def _read_meta(self) -> None:
        path = os.path.join(self.path, _META_FILE)
        if not os.path.exists(path):
            # Files of others may lie beside ours, folders of a Kafka too; topics of a kshim whose cluster is unknown not.
            if os.path.exists(os.path.join(self.path, _TOPICS_FILE)):
                raise LogError(f"{self.path} has topics but no {_META_FILE}, so their cluster is unknown")
            self._format_version = 0
            return
        meta = _properties(_read(path))
        if _FORMAT_KEY not in meta:
            raise LogError(
                f"{path} has no {_FORMAT_KEY}: the directory belongs to another program. To adopt topics of a Kafka broker, "
                f"stop it and copy their folders, such as __consumer_offsets-0, into a new directory"
            )
        if meta[_FORMAT_KEY] not in ("1", str(FORMAT_VERSION)):
            raise LogError(
                f"{path} has {_FORMAT_KEY} {meta[_FORMAT_KEY]}; this kshim supports versions up to {FORMAT_VERSION}"
            )
        self._format_version = int(meta[_FORMAT_KEY])
        if meta.get("node.id") != str(self.node_id):
            raise LogError(f"{path} belongs to node {meta.get('node.id')}, not to {self.node_id}")
        self.cluster_id = meta.get("cluster.id", "")
        if not self.cluster_id:
            raise LogError(f"{path} has no cluster.id")

    def _write_meta(self) -> None:
        if self._format_version != FORMAT_VERSION:
            self._write(
                _META_FILE,
                f"version=1\ncluster.id={self.cluster_id}\nnode.id={self.node_id}\n{_FORMAT_KEY}={FORMAT_VERSION}\n",
            )

    def _forget_end(self) -> None:
        """Determine whether the previous process ended cleanly, and remove its mark while this one runs."""
        path = os.path.join(self.path, _CLOSED_FILE)
        if os.path.exists(path):
            self.was_closed = self._format_version == FORMAT_VERSION
            try:
                self._calls.unlink(path)
                self._calls.sync_directory(self.path)
            except OSError as error:
                raise LogError(f"cannot remove {path}: {error.strerror or error}") from error
        elif not self.partitions():
            self.was_closed = True

    def _adopt(self, new_topic_id: Callable[[], bytes]) -> None:
        """Take over the folders of topics that are not known."""
        strays = [(topic, partition) for topic, partition in self.partitions() if topic not in self.topics]
        specs = adopt(self.path, strays, new_topic_id, self._calls) if strays else []
        self._write_meta()
        if specs:
            self.adopted = [spec.name for spec in specs]
            self._write_topics({**self.topics, **{spec.name: spec for spec in specs}}, self._deleted)

    def _read_topics(self) -> None:
        path = os.path.join(self.path, _TOPICS_FILE)
        if not os.path.exists(path):
            return
        try:
            document = json.loads(_read(path))
            if document["version"] not in (1, FORMAT_VERSION):
                raise LogError(f"{path} has version {document['version']}; this kshim supports {FORMAT_VERSION}")
            self._deleted = [str(name) for name in document.get("deleted", ())]
            self.topics = {row["name"]: _topic(row) for row in document["topics"]}
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise LogError(f"{path} is damaged: {error!r}") from error

    def _remove_doomed(self) -> None:
        for name in self._names():
            if name.endswith(_DOOMED_SUFFIX):
                with contextlib.suppress(OSError):  # another start may succeed; nothing in there is read
                    remove_folder(os.path.join(self.path, name))
        self._delete_rest()

    def _names(self) -> list[str]:
        try:
            return os.listdir(self.path)
        except OSError as error:
            raise LogError(f"cannot list {self.path}: {error.strerror or error}") from error

    def _write(self, name: str, text: str, *, is_private: bool = False) -> None:
        path = os.path.join(self.path, name)
        try:
            self._calls.write_whole_file(path, text.encode(), is_private=is_private)
        except OSError as error:
            raise LogError(f"cannot write {path}: {error.strerror or error}") from error


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError as error:
        raise LogError(f"cannot read {path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise LogError(f"{path} is damaged: {error}") from error


def _properties(text: str) -> dict[str, str]:
    """`key=value` lines; lines that begin with # are comments."""
    lines = [line.strip() for line in text.splitlines()]
    pairs = [line.partition("=") for line in lines if line and not line.startswith("#")]
    return {key.strip(): value.strip() for key, _, value in pairs}


def _topic(row: dict[str, Any]) -> TopicSpec:
    name, partition_count, configs = row["name"], row["partitions"], row["configs"]
    if not isinstance(name, str) or not _TOPIC_NAME.fullmatch(name):
        raise ValueError(f"illegal topic name {name!r}")
    if not isinstance(partition_count, int) or partition_count < 1:
        raise ValueError(f"{name}: {partition_count!r} partitions")
    if not all(isinstance(key, str) and isinstance(value, str) for key, value in configs.items()):
        raise ValueError(f"{name}: configs are not strings")
    leaders = tuple(map(_leader, row.get("leaders", ())))
    if leaders and len(leaders) != partition_count:
        raise ValueError(f"{name}: {len(leaders)} leaders of {partition_count} partitions")
    return TopicSpec(name, id_bytes(row["topic_id"]), partition_count, configs, leaders)


def _leader(row: dict[str, Any]) -> PartitionLeader:
    preferred_id, leader_id, leader_epoch = int(row["preferred"]), int(row["leader"]), int(row["epoch"])
    epochs = tuple((int(epoch), int(offset)) for epoch, offset in row.get("epochs", ()))
    if epochs != tuple(sorted(epochs)) or any(epoch > leader_epoch for epoch, _ in epochs):
        raise ValueError(f"leader epochs {epochs} up to {leader_epoch}")
    return PartitionLeader(preferred_id, leader_id, leader_epoch, epochs)


def _row(topic: TopicSpec) -> dict[str, Any]:
    row: dict[str, Any] = {
        "name": topic.name,
        "topic_id": id_text(topic.topic_id),
        "partitions": topic.partition_count,
        "configs": topic.configs,
    }
    if topic.leaders:
        row["leaders"] = [
            {"preferred": leader.preferred_id, "leader": leader.leader_id, "epoch": leader.leader_epoch}
            | ({"epochs": leader.epochs} if leader.epochs else {})
            for leader in topic.leaders
        ]
    return row


def _without_indexes(on_repair: Callable[[Repair], None]) -> Callable[[Repair], None]:
    """Rebuilding the indexes of a Kafka broker is not reported."""

    def report(repair: Repair) -> None:
        if not isinstance(repair, IndexRebuilt):
            on_repair(repair)

    return report
