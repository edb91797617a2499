"""Committed offsets."""

from __future__ import annotations

from collections.abc import Mapping

from integration.security.questions.things import GROUPS, MISSING, TOPICS, Rows
from kshim_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kshim_protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kshim_protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)


def offsets_of_groups(ids: Mapping[str, bytes]) -> Rows:
    for group_id in GROUPS:
        yield (
            f"OffsetCommit {group_id}",
            OffsetCommitRequest(
                group_id=group_id,
                member_id="",
                topics=tuple(
                    OffsetCommitRequestTopic(
                        name=name,
                        partitions=(
                            OffsetCommitRequestPartition(partition_index=0, committed_offset=7, committed_metadata=""),
                        ),
                    )
                    for name in (*TOPICS, MISSING)
                ),
            ),
            9,
        )
        yield (
            f"OffsetCommit by id {group_id}",
            OffsetCommitRequest(
                group_id=group_id,
                member_id="",
                topics=tuple(
                    OffsetCommitRequestTopic(
                        topic_id=one,
                        partitions=(
                            OffsetCommitRequestPartition(partition_index=0, committed_offset=7, committed_metadata=""),
                        ),
                    )
                    for one in (*ids.values(), b"unknown-topic-id")
                ),
            ),
            10,
        )


def fetching_and_deleting_offsets(ids: Mapping[str, bytes]) -> Rows:
    for group_id in GROUPS:
        yield (
            f"OffsetFetch {group_id}",
            OffsetFetchRequest(
                group_id=group_id,
                topics=tuple(OffsetFetchRequestTopic(name=name, partition_indexes=(0,)) for name in TOPICS),
            ),
            5,
        )
        yield f"OffsetFetch of all {group_id}", OffsetFetchRequest(group_id=group_id, topics=None), 7
        yield (
            f"OffsetDelete {group_id}",
            OffsetDeleteRequest(
                group_id=group_id,
                topics=tuple(
                    OffsetDeleteRequestTopic(name=name, partitions=(OffsetDeleteRequestPartition(partition_index=9),))
                    for name in (*TOPICS, MISSING)
                ),
            ),
            0,
        )


def offsets_of_several_groups(ids: Mapping[str, bytes]) -> Rows:
    yield (
        "OffsetFetch of groups",
        OffsetFetchRequest(
            groups=tuple(
                OffsetFetchRequestGroup(
                    group_id=group_id,
                    topics=tuple(OffsetFetchRequestTopics(name=name, partition_indexes=(0,)) for name in TOPICS),
                )
                for group_id in GROUPS
            )
        ),
        8,
    )
    yield (
        "OffsetFetch of all of groups",
        OffsetFetchRequest(
            groups=tuple(OffsetFetchRequestGroup(group_id=group_id, topics=None) for group_id in GROUPS)
        ),
        10,
    )
