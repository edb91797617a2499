"""AlterReplicaLogDirs: moves replicas to other directories of their broker."""

from __future__ import annotations

from kshim_protocol.errors import ErrorCode
from kshim_protocol.schema import Request, Struct, array, int16, int32, message, string, struct

# fmt: off


@struct
class AlterReplicaLogDirTopic(Struct):
    """Partitions of one topic."""

    name:       str             = string("0+")
    partitions: tuple[int, ...] = array("int32", "0+")


@struct
class AlterReplicaLogDir(Struct):
    """What shall be in one directory."""

    path:   str                                 = string("0+")
    topics: tuple[AlterReplicaLogDirTopic, ...] = array(AlterReplicaLogDirTopic, "0+")


@message(api_key=34, versions="1-2", flexible="2+")
class AlterReplicaLogDirsRequest(Request["AlterReplicaLogDirsResponse"]):
    """Move replicas (KIP-113). v2 flexible."""

    dirs: tuple[AlterReplicaLogDir, ...] = array(AlterReplicaLogDir, "0+")

    def error_response(self, error: ErrorCode, version: int, message: str | None = None) -> AlterReplicaLogDirsResponse:
        return AlterReplicaLogDirsResponse(
            results=tuple(
                AlterReplicaLogDirTopicResult(
                    topic_name=topic.name,
                    partitions=tuple(
                        AlterReplicaLogDirPartitionResult(partition_index=index, error_code=error)
                        for index in topic.partitions
                    ),
                )
                for one in self.dirs
                for topic in one.topics
            )
        )


@struct
class AlterReplicaLogDirPartitionResult(Struct):
    """The result of one partition."""

    partition_index: int = int32("0+")
    error_code:      int = int16("0+")


@struct
class AlterReplicaLogDirTopicResult(Struct):
    """Results of one topic."""

    topic_name: str                                           = string("0+")
    partitions: tuple[AlterReplicaLogDirPartitionResult, ...] = array(AlterReplicaLogDirPartitionResult, "0+")


@message(api_key=34, versions="1-2", flexible="2+")
class AlterReplicaLogDirsResponse(Struct):
    """One result a partition. v2 flexible."""

    throttle_time_ms: int                                       = int32("0+", default=0)
    results:          tuple[AlterReplicaLogDirTopicResult, ...] = array(AlterReplicaLogDirTopicResult, "0+")

    @classmethod
    def of(cls, errors: dict[tuple[str, int], ErrorCode]) -> AlterReplicaLogDirsResponse:
        """Of errors by topic and partition."""
        by_topic: dict[str, list[AlterReplicaLogDirPartitionResult]] = {}
        for (name, index), error in errors.items():
            row = AlterReplicaLogDirPartitionResult(partition_index=index, error_code=error)
            by_topic.setdefault(name, []).append(row)
        return cls(
            results=tuple(
                AlterReplicaLogDirTopicResult(topic_name=name, partitions=tuple(rows))
                for name, rows in by_topic.items()
            )
        )

# fmt: on
