"""What a step asks of one broker: its typed request, with that broker's ids."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any, Final

from integration.differential.steps import Step
from integration.share_groups.pair import MISSING_TOPIC
from kshim_protocol.messages import alter_share_group_offsets as altering
from kshim_protocol.messages import delete_records as deleting
from kshim_protocol.messages import delete_share_group_offsets as forgetting
from kshim_protocol.messages import describe_share_group_offsets as describing
from kshim_protocol.messages import read_share_group_state as reading
from kshim_protocol.messages import read_share_group_state_summary as summing
from kshim_protocol.messages import share_acknowledge as acknowledging
from kshim_protocol.messages import share_fetch as fetching
from kshim_protocol.messages.delete_groups import DeleteGroupsRequest
from kshim_protocol.messages.list_groups import ListGroupsRequest
from kshim_protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kshim_protocol.messages.share_group_describe import ShareGroupDescribeRequest
from kshim_protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from kshim_protocol.records.batch import build_batch
from kshim_protocol.records.record import Record
from kshim_protocol.schema import Request

UNKNOWN_TOPIC_ID: Final = b"differential-no!"
CURRENT: Final = "@"
"""An epoch: the one that the last answer leads to."""


class Names:
    """What things are called on one broker. `producer` is (id, epoch) of the sequence's transactional producer."""

    def __init__(self, prefix: str, topic_ids: dict[str, bytes]) -> None:
        self.prefix = prefix
        self.topic_ids = {**topic_ids, MISSING_TOPIC: UNKNOWN_TOPIC_ID}
        self.topic_names = {topic_id: name for name, topic_id in self.topic_ids.items()}
        self.producer = (-1, -1)
        self.sequences: dict[tuple[str, int], int] = {}

    def group(self, name: str) -> str:
        """The id of a group; "" stays so."""
        return f"{self.prefix}-{name}" if name else ""

    def topic(self, name: str) -> str:
        """The whole name of a topic."""
        return self.prefix + name

    @property
    def transactional_id(self) -> str:
        """That of the one transactional producer."""
        return f"{self.prefix}-txn"


def member_id(slot: str) -> Any:
    """Members bring their ids, so that they are the same on both brokers."""
    return {"": "", "null": None, "long": "m" * 37, "blank": "  "}.get(slot, f"member-{slot}")


def _by_topic(rows: Sequence[Any]) -> list[tuple[str, list[Any]]]:
    """Rows [topic, ...] as they come, neighbours of one topic together."""
    return [(topic, list(found)) for topic, found in groupby(rows, key=lambda row: row[0])]


def _heartbeat(names: Names, step: Step, epoch: int) -> Request[Any]:
    options = step.options
    topics = options["topics"]
    return ShareGroupHeartbeatRequest(
        group_id=names.group(step.group),
        member_id=member_id(step.slot),
        member_epoch=epoch,
        rack_id=options.get("rack"),
        subscribed_topic_names=None if topics is None else tuple(map(names.topic, topics)),
    )


def _batches(type_: Any, batches: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(
        type_(first_offset=first, last_offset=last, acknowledge_types=tuple(types)) for first, last, types in batches
    )


def _fetch(names: Names, step: Step, epoch: int) -> Request[Any]:
    options = step.options
    return fetching.ShareFetchRequest(
        group_id=names.group(step.group) if step.group != "null" else None,
        member_id=member_id(step.slot),
        share_session_epoch=epoch,
        max_wait_ms=options["wait"],
        min_bytes=options["min"],
        max_bytes=options["bytes"],
        max_records=options["records"],
        batch_size=options["batch"],
        share_acquire_mode=options.get("mode", 0),
        is_renew_ack=options.get("renew", False),
        topics=tuple(
            fetching.FetchTopic(
                topic_id=names.topic_ids[topic],
                partitions=tuple(
                    fetching.FetchPartition(
                        partition_index=index,
                        acknowledgement_batches=_batches(fetching.AcknowledgementBatch, batches),
                    )
                    for _, index, batches in rows
                ),
            )
            for topic, rows in _by_topic(options["topics"])
        ),
        forgotten_topics_data=tuple(
            fetching.ForgottenTopic(topic_id=names.topic_ids[topic], partitions=tuple(index for _, index in rows))
            for topic, rows in _by_topic(options.get("forget", ()))
        ),
    )


def _acknowledge(names: Names, step: Step, epoch: int) -> Request[Any]:
    return acknowledging.ShareAcknowledgeRequest(
        group_id=names.group(step.group) if step.group != "null" else None,
        member_id=member_id(step.slot),
        share_session_epoch=epoch,
        is_renew_ack=step.options.get("renew", False),
        topics=tuple(
            acknowledging.AcknowledgeTopic(
                topic_id=names.topic_ids[topic],
                partitions=tuple(
                    acknowledging.AcknowledgePartition(
                        partition_index=index,
                        acknowledgement_batches=_batches(acknowledging.AcknowledgementBatch, batches),
                    )
                    for _, index, batches in rows
                ),
            )
            for topic, rows in _by_topic(step.options["topics"])
        ),
    )


def _produce(names: Names, step: Step, _epoch: int) -> Request[Any]:
    """One batch of `count` records with values of `size` bytes."""
    options = step.options
    topic, index, count = options["topic"], options["p"], options["count"]
    is_transactional = options.get("txn", False)
    records = [Record(None, b"%06d" % number + b"." * options["size"], (), options["at"]) for number in range(count)]
    producer_id, producer_epoch = names.producer if is_transactional else (-1, -1)
    sequence = names.sequences.get((topic, index), 0) if is_transactional else -1
    if is_transactional:
        names.sequences[topic, index] = sequence + count
    batch = build_batch(
        records,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=sequence,
        is_transactional=is_transactional,
    )
    return ProduceRequest(
        transactional_id=names.transactional_id if is_transactional else None,
        acks=-1,
        timeout_ms=10_000,
        topic_data=(
            TopicProduceData(
                name=names.topic(topic), partition_data=(PartitionProduceData(index=index, records=batch),)
            ),
        ),
    )


def _delete_records(names: Names, step: Step, _epoch: int) -> Request[Any]:
    row = deleting.DeleteRecordsPartition(partition_index=step.options["p"], offset=step.options["offset"])
    topic = deleting.DeleteRecordsTopic(name=names.topic(step.options["topic"]), partitions=(row,))
    return deleting.DeleteRecordsRequest(topics=(topic,), timeout_ms=10_000)


def _describe(names: Names, step: Step, _epoch: int) -> Request[Any]:
    return ShareGroupDescribeRequest(
        group_ids=tuple(map(names.group, step.options["groups"])),
        include_authorized_operations=step.options["authorized"],
    )


def _list(names: Names, step: Step, _epoch: int) -> Request[Any]:
    return ListGroupsRequest(states_filter=(), types_filter=("share",))


def _delete_groups(names: Names, step: Step, _epoch: int) -> Request[Any]:
    return DeleteGroupsRequest(groups_names=tuple(map(names.group, step.options["groups"])))


def _describe_offsets(names: Names, step: Step, _epoch: int) -> Request[Any]:
    rows = step.options["topics"]
    topics = None
    if rows is not None:
        topics = tuple(
            describing.DescribeShareGroupOffsetsRequestTopic(
                topic_name=names.topic(topic), partitions=tuple(index for _, index in found)
            )
            for topic, found in _by_topic(rows)
        )
    group = describing.DescribeShareGroupOffsetsRequestGroup(group_id=names.group(step.group), topics=topics)
    return describing.DescribeShareGroupOffsetsRequest(groups=(group,))


def _alter_offsets(names: Names, step: Step, _epoch: int) -> Request[Any]:
    return altering.AlterShareGroupOffsetsRequest(
        group_id=names.group(step.group),
        topics=tuple(
            altering.AlterShareGroupOffsetsRequestTopic(
                topic_name=names.topic(topic),
                partitions=tuple(
                    altering.AlterShareGroupOffsetsRequestPartition(partition_index=index, start_offset=offset)
                    for _, index, offset in found
                ),
            )
            for topic, found in _by_topic(step.options["topics"])
        ),
    )


def _delete_offsets(names: Names, step: Step, _epoch: int) -> Request[Any]:
    return forgetting.DeleteShareGroupOffsetsRequest(
        group_id=names.group(step.group),
        topics=tuple(
            forgetting.DeleteShareGroupOffsetsRequestTopic(topic_name=names.topic(topic))
            for topic in step.options["topics"]
        ),
    )


def summary(names: Names, step: Step, _epoch: int = 0) -> summing.ReadShareGroupStateSummaryRequest:
    """Where partitions [topic, index] are."""
    return summing.ReadShareGroupStateSummaryRequest(
        group_id=names.group(step.group),
        topics=tuple(
            summing.ReadStateSummaryData(
                topic_id=names.topic_ids[topic],
                partitions=tuple(summing.PartitionData(partition=index, leader_epoch=0) for _, index in found),
            )
            for topic, found in _by_topic(step.options["topics"])
        ),
    )


def _read_state(names: Names, step: Step, _epoch: int) -> Request[Any]:
    return reading.ReadShareGroupStateRequest(
        group_id=names.group(step.group),
        topics=tuple(
            reading.ReadStateData(
                topic_id=names.topic_ids[topic],
                partitions=tuple(reading.PartitionData(partition=index, leader_epoch=0) for _, index in found),
            )
            for topic, found in _by_topic(step.options["topics"])
        ),
    )


BUILDERS: Final[dict[str, tuple[Callable[[Names, Step, int], Request[Any]], int]]] = {
    "heartbeat": (_heartbeat, 1),
    "fetch": (_fetch, 2),
    "ack": (_acknowledge, 2),
    "produce": (_produce, 11),
    "delete-records": (_delete_records, 2),
    "describe": (_describe, 1),
    "delete-groups": (_delete_groups, 3),
    "describe-offsets": (_describe_offsets, 1),
    "alter-offsets": (_alter_offsets, 0),
    "delete-offsets": (_delete_offsets, 0),
    "summary": (summary, 1),
    "read-state": (_read_state, 0),
}
"""What makes the request of a step, and the newest version that steps use; the option `v` is another."""
