"""The folder of `--data-dir`: who may use it, which node and cluster it belongs to, its topics and their logs."""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
from binascii import Error as Base64Error
from binascii import a2b_base64, b2a_base64
from collections.abc import Callable, Iterable
from typing import Any

from kshim.storage.clean_offsets import CleanOffsets
from kshim.storage.file import DEFAULT_SEGMENT_BYTES, FileLog, free_doomed_name, remove_folder
from kshim.storage.log import LogError
from kshim.storage.os_calls import OsCalls
from kshim.storage.recovery import Recover
from kshim.storage.repairs import Repair
from kshim.storage.topic_spec import TopicSpec

__all__ = ["FORMAT_VERSION", "DataDirectory", "DirectoryLocked"]

FORMAT_VERSION = 1
"""Of everything in here that is not Kafka's own format. A newer one is refused."""

_FORMAT_KEY = "kshim.format.version"
_META_FILE = "meta.properties"
_TOPICS_FILE = "topics.json"
_LOCK_FILE = ".lock"

_TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")  # Kafka's rule; it also keeps a name from being a path
_PARTITION_FOLDER = re.compile(r"([a-zA-Z0-9._-]{1,249})-(\d+)")
_DOOMED_SUFFIX = "-delete"


class DirectoryLocked(LogError):
    """Another process uses the folder."""


class DataDirectory:
    """A folder that belongs to this process until `close`. Made by `DataDirectory.open`.

    It holds `meta.properties` (as Kafka's, with our format version), `topics.json`, and one folder a partition as Kafka
    names them. `topics` is what `topics.json` says, by name; `write_topics` replaces both.
    """

    def __init__(self, path: str, cluster_id: str, node_id: int, lock: _Lock, calls: OsCalls) -> None:
        self.path = path
        self.cluster_id = cluster_id
        self.node_id = node_id
        self._lock = lock
        self._calls = calls
        self.topics: dict[str, TopicSpec] = {}
        self.clean_offsets = CleanOffsets(path, calls)

    @classmethod
    def open(cls, path: str, *, cluster_id: str, node_id: int, calls: OsCalls | None = None) -> DataDirectory:
        """Take the folder, made if need be. A new one gets `cluster_id`; one in use before keeps its own.

        Raises DirectoryLocked; LogError when it belongs to another node or program, or cannot be read.
        """
        path = os.path.abspath(path)
        try:
            os.makedirs(path, exist_ok=True)
            lock = _Lock(os.path.join(path, _LOCK_FILE))
        except OSError as error:
            raise LogError(f"cannot use {path}: {error.strerror or error}") from error
        try:
            directory = cls(path, cluster_id, node_id, lock, OsCalls() if calls is None else calls)
            directory._read_or_write_meta()
            directory._read_topics()
            directory._remove_doomed()
        except BaseException:
            lock.release()
            raise
        return directory

    def write_topics(self, topics: Iterable[TopicSpec]) -> None:
        """Replace what is stored of all topics, in one step that survives power loss. Raises LogError, unchanged."""
        by_name = {topic.name: topic for topic in topics}
        rows = [
            {
                "name": topic.name,
                "topic_id": _id_text(topic.topic_id),
                "partitions": topic.partition_count,
                "configs": topic.configs,
            }
            for topic in sorted(by_name.values())
        ]
        document = json.dumps({"version": FORMAT_VERSION, "topics": rows}, indent=1, ensure_ascii=False)
        self._write(_TOPICS_FILE, document + "\n")
        self.topics = by_name

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
            raise ValueError(f"{topic!r}-{partition} names no partition")
        folder = os.path.join(self.path, f"{topic}-{partition}")
        return FileLog(folder, segment_bytes=segment_bytes, recover=recover, on_repair=on_repair, calls=self._calls)

    def delete_partitions(self, topic: str) -> None:
        """Remove all partition folders of a topic; their logs are closed already. Raises LogError.

        Every folder is renamed before any is removed, so that after a crash the next start removes the rest.
        """
        doomed: list[str] = []
        try:
            for name, partition in self.partitions():
                if name == topic:
                    folder = os.path.join(self.path, f"{name}-{partition}")
                    doomed.append(free_doomed_name(folder))
                    self._calls.rename(folder, doomed[-1])
            if doomed:
                self._calls.sync_directory(self.path)
            for folder in doomed:
                remove_folder(folder)
            self.clean_offsets.forget(topic)
        except OSError as error:
            raise LogError(f"cannot delete {topic} from {self.path}: {error.strerror or error}") from error

    def close(self) -> None:
        """Let others use the folder. Logs are closed before."""
        self._lock.release()

    def _read_or_write_meta(self) -> None:
        path = os.path.join(self.path, _META_FILE)
        if not os.path.exists(path):
            # Files of others may lie beside ours; partitions or topics whose cluster is unknown may not.
            if self.partitions() or os.path.exists(os.path.join(self.path, _TOPICS_FILE)):
                raise LogError(f"{self.path} holds topics but no {_META_FILE}: whose they are is unknown")
            self._write(
                _META_FILE,
                f"version=1\ncluster.id={self.cluster_id}\nnode.id={self.node_id}\n{_FORMAT_KEY}={FORMAT_VERSION}\n",
            )
            return
        meta = _properties(_read(path))
        if _FORMAT_KEY not in meta:
            raise LogError(f"{path} has no {_FORMAT_KEY}: the directory belongs to another program")
        if meta[_FORMAT_KEY] != str(FORMAT_VERSION):
            raise LogError(f"{path} has {_FORMAT_KEY} {meta[_FORMAT_KEY]}; this kshim knows {FORMAT_VERSION}")
        if meta.get("node.id") != str(self.node_id):
            raise LogError(f"{path} belongs to node {meta.get('node.id')}, not to {self.node_id}")
        self.cluster_id = meta.get("cluster.id", "")
        if not self.cluster_id:
            raise LogError(f"{path} has no cluster.id")

    def _read_topics(self) -> None:
        path = os.path.join(self.path, _TOPICS_FILE)
        if not os.path.exists(path):
            return
        try:
            document = json.loads(_read(path))
            if document["version"] != FORMAT_VERSION:
                raise LogError(f"{path} has version {document['version']}; this kshim knows {FORMAT_VERSION}")
            self.topics = {row["name"]: _topic(row) for row in document["topics"]}
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise LogError(f"{path} is damaged: {error!r}") from error

    def _remove_doomed(self) -> None:
        for name in self._names():
            if name.endswith(_DOOMED_SUFFIX):
                with contextlib.suppress(OSError):  # another start may succeed; nothing in there is read
                    remove_folder(os.path.join(self.path, name))

    def _names(self) -> list[str]:
        try:
            return os.listdir(self.path)
        except OSError as error:
            raise LogError(f"cannot list {self.path}: {error.strerror or error}") from error

    def _write(self, name: str, text: str) -> None:
        path = os.path.join(self.path, name)
        try:
            self._calls.write_whole_file(path, text.encode())
        except OSError as error:
            raise LogError(f"cannot write {path}: {error.strerror or error}") from error


class _Lock:
    """An exclusive lock on a file, which ends with the process however that ends. The file tells the process id."""

    def __init__(self, path: str) -> None:
        self._file = open(path, "a+b")  # noqa: SIM115 - open as long as the lock is held
        try:
            _lock_file(self._file.fileno())
        except OSError as error:
            self._file.seek(0)
            owner = self._file.read(20).decode(errors="replace").strip()
            self._file.close()
            who = f"process {owner}" if owner else "another process"
            raise DirectoryLocked(f"{os.path.dirname(path)} is in use by {who}") from error
        self._file.truncate(0)
        self._file.write(b"%d\n" % os.getpid())
        self._file.flush()

    def release(self) -> None:
        """Unlock; nothing when it is done already."""
        self._file.close()


if sys.platform == "win32":

    def _lock_file(descriptor: int) -> None:
        import msvcrt

        os.lseek(descriptor, 1 << 30, os.SEEK_SET)  # far behind the process id, which others must be able to read
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)

else:

    def _lock_file(descriptor: int) -> None:
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


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
    return TopicSpec(name, _id_bytes(row["topic_id"]), partition_count, configs)


def _id_text(topic_id: bytes) -> str:
    """22 characters of URL-safe base64, as Kafka prints ids."""
    return b2a_base64(topic_id, newline=False).decode().rstrip("=").replace("+", "-").replace("/", "_")


def _id_bytes(text: str) -> bytes:
    try:
        topic_id = a2b_base64(text.replace("-", "+").replace("_", "/") + "==", strict_mode=True)
    except Base64Error as error:
        raise ValueError(f"{text!r} is no topic id: {error}") from None
    if len(topic_id) != 16:
        raise ValueError(f"{text!r} is no topic id")
    return topic_id
