"""Steps about share groups: the requests they stand for, and what is said of the answers.

What became of records is `t-0=0-4:accept,5:release`, ranges of offsets with a type, or one for each (`0-1:accept/reject`);
records that were acquired are `0-4x1,5x2`, ranges with their delivery count.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from kshim.tools.scenario import options
from kshim.tools.scenario.actors import Cast
from kshim.tools.scenario.fields import assigned_fields, common_error, described_fields, error_name
from kshim.tools.scenario.model import ScenarioError, Step
from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages import alter_share_group_offsets as altering
from kshim_protocol.messages import delete_share_group_offsets as forgetting
from kshim_protocol.messages import describe_share_group_offsets as describing
from kshim_protocol.messages import share_acknowledge as acknowledging
from kshim_protocol.messages import share_fetch as fetching
from kshim_protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kshim_protocol.messages.share_group_describe import ShareGroupDescribeRequest
from kshim_protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from kshim_protocol.records.batch import build_batch, iter_batches, parse_batch_header
from kshim_protocol.records.record import Record
from kshim_protocol.schema import Request

TYPES = ("gap", "accept", "release", "reject", "renew")
_SAID = re.compile(r"^(-?\d+)(?:-(-?\d+))?:(.*)$")
_WAIT_MS = 2_000
"""How long a ShareFetch waits unless told: what is there is answered at once."""
_LAST_SESSION_EPOCH = 2**31 - 1


def _heartbeat(step: Step, cast: Cast, version: int) -> Request[Any]:
    actor = cast.actor(step.actor)
    topics = options.names(step, "subscribe", None)
    return ShareGroupHeartbeatRequest(
        group_id=cast.group_id(step),
        member_id=options.own_member_id(step, cast),
        member_epoch=options.number(step, "epoch", max(actor.generation_id, 0)),
        rack_id=step.options.get("rack"),
        subscribed_topic_names=None if topics is None else tuple(map(cast.topic, topics)),
    )


def _said(step: Step, text: str, batch: Any) -> tuple[Any, ...]:
    """What becomes of records, as `batch`es of one of the two APIs."""
    found = []
    for part in filter(None, text.split(",")):
        match = _SAID.match(part)
        if match is None:
            raise ScenarioError(f"line {step.line}: records are FIRST-LAST:TYPE, not {part!r}")
        types = [TYPES.index(word) if word in TYPES else int(word) for word in filter(None, match[3].split("/"))]
        found.append(
            batch(first_offset=int(match[1]), last_offset=int(match[2] or match[1]), acknowledge_types=tuple(types))
        )
    return tuple(found)


def _topics_said(step: Step, cast: Cast, topic_of: Any, partition_of: Any, batch_of: Any) -> tuple[Any, ...]:
    """The partitions that a step names, with what it says of their records, as the API has them."""
    return tuple(
        topic_of(
            topic_id=cast.topic_id(topic),
            partitions=tuple(
                partition_of(partition_index=index, acknowledgement_batches=_said(step, text, batch_of))
                for index, text in found
            ),
        )
        for topic, found in options.partitions(step, cast, default="").items()
    )


def _session_epoch(step: Step, cast: Cast) -> int:
    actor = cast.actor(step.actor)
    actor.sent_session_epoch = options.number(step, "epoch", actor.session_epoch)
    return actor.sent_session_epoch


def _fetch(step: Step, cast: Cast, version: int) -> Request[Any]:
    forgotten: dict[str, list[int]] = {}
    for name in options.names(step, "forget", "-") or ():
        topic, _, index = name.rpartition("-")
        forgotten.setdefault(cast.topic(topic), []).append(int(index))
    max_records = options.number(step, "records", 500)
    return fetching.ShareFetchRequest(
        group_id=cast.group_id(step),
        member_id=options.own_member_id(step, cast),
        share_session_epoch=_session_epoch(step, cast),
        max_wait_ms=options.number(step, "wait", _WAIT_MS),
        min_bytes=options.number(step, "min", 1),
        max_bytes=options.number(step, "bytes", 1 << 20),
        max_records=max_records,
        batch_size=options.number(step, "batch", max_records),
        share_acquire_mode=1 if step.options.get("exact") == "true" else 0,
        is_renew_ack=step.options.get("renew") == "true",
        topics=_topics_said(step, cast, fetching.FetchTopic, fetching.FetchPartition, fetching.AcknowledgementBatch),
        forgotten_topics_data=tuple(
            fetching.ForgottenTopic(topic_id=cast.topic_id(topic), partitions=tuple(indexes))
            for topic, indexes in forgotten.items()
        ),
    )


def _acknowledge(step: Step, cast: Cast, version: int) -> Request[Any]:
    return acknowledging.ShareAcknowledgeRequest(
        group_id=cast.group_id(step),
        member_id=options.own_member_id(step, cast),
        share_session_epoch=_session_epoch(step, cast),
        is_renew_ack=step.options.get("renew") == "true",
        topics=_topics_said(
            step,
            cast,
            acknowledging.AcknowledgeTopic,
            acknowledging.AcknowledgePartition,
            acknowledging.AcknowledgementBatch,
        ),
    )


def _describe_offsets(step: Step, cast: Cast, version: int) -> Request[Any]:
    topics = tuple(
        describing.DescribeShareGroupOffsetsRequestTopic(
            topic_name=topic, partitions=tuple(index for index, _ in found)
        )
        for topic, found in options.partitions(step, cast).items()
    )
    group = describing.DescribeShareGroupOffsetsRequestGroup(
        group_id=cast.group_id(step), topics=None if "all" in step.words else topics
    )
    return describing.DescribeShareGroupOffsetsRequest(groups=(group,))


def _alter_offsets(step: Step, cast: Cast, version: int) -> Request[Any]:
    topics = tuple(
        altering.AlterShareGroupOffsetsRequestTopic(
            topic_name=topic,
            partitions=tuple(
                altering.AlterShareGroupOffsetsRequestPartition(partition_index=index, start_offset=int(offset))
                for index, offset in found
            ),
        )
        for topic, found in options.partitions(step, cast).items()
    )
    return altering.AlterShareGroupOffsetsRequest(group_id=cast.group_id(step), topics=topics)


def _delete_offsets(step: Step, cast: Cast, version: int) -> Request[Any]:
    topics = tuple(forgetting.DeleteShareGroupOffsetsRequestTopic(topic_name=cast.topic(name)) for name in step.words)
    return forgetting.DeleteShareGroupOffsetsRequest(group_id=cast.group_id(step), topics=topics)


def _produce(step: Step, cast: Cast, version: int) -> Request[Any]:
    """A batch each of `t-0=5` records, without timestamps."""
    return ProduceRequest(
        transactional_id=None,
        acks=-1,
        timeout_ms=10_000,
        topic_data=tuple(
            TopicProduceData(
                name=topic,
                partition_data=tuple(
                    PartitionProduceData(
                        index=index,
                        records=build_batch(Record(None, b"%d" % at, (), -1) for at in range(int(count))),
                    )
                    for index, count in found
                ),
            )
            for topic, found in options.partitions(step, cast, default="1").items()
        ),
    )


BUILDERS: dict[str, Callable[[Step, Cast, int], Request[Any]]] = {
    "share-heartbeat": _heartbeat,
    "share-describe": lambda step, cast, _: ShareGroupDescribeRequest(
        group_ids=(cast.group_id(step),), include_authorized_operations=False
    ),
    "share-fetch": _fetch,
    "share-acknowledge": _acknowledge,
    "share-offsets": _describe_offsets,
    "share-alter-offsets": _alter_offsets,
    "share-delete-offsets": _delete_offsets,
    "produce": _produce,
}
"""By verb."""


# Answers

_Read = tuple[int, dict[str, str]]


def _read_heartbeat(step: Step, response: Any, version: int, cast: Cast) -> _Read:
    if response.error_code == ErrorCode.NONE:
        cast.actor(step.actor).generation_id = response.member_epoch
    assignment = response.assignment
    count = sum(len(topic.partitions) for topic in assignment.topic_partitions) if assignment else 0
    return response.error_code, {**assigned_fields(response, cast), "count": str(count)}


def _read_describe(step: Step, response: Any, version: int, cast: Cast) -> _Read:
    (group,) = response.groups
    return group.error_code, described_fields(group, cast)


def _go_on(step: Step, error: int, cast: Cast) -> None:
    """The epoch that the session has next; the broker does not go on after an error."""
    if error == ErrorCode.NONE:
        actor = cast.actor(step.actor)
        sent = actor.sent_session_epoch
        actor.session_epoch = 0 if sent == -1 else 1 if sent == _LAST_SESSION_EPOCH else sent + 1


def _read_fetch(step: Step, response: Any, version: int, cast: Cast) -> _Read:
    _go_on(step, response.error_code, cast)
    fields = {"lock": str(response.acquisition_lock_timeout_ms), "message": cast.plain(response.error_message)}
    answered = []
    for topic in response.responses:
        for one in topic.partitions:
            name = f"{cast.topic_of('', topic.topic_id)}-{one.partition_index}"
            answered.append(name)
            ranges = [
                f"{_range(got.first_offset, got.last_offset)}x{got.delivery_count}" for got in one.acquired_records
            ]
            headers = [parse_batch_header(batch) for batch in iter_batches(one.records)]
            fields |= {
                name: ",".join(ranges) or "-",
                f"{name}.sent": ",".join(_range(each.base_offset, each.last_offset) for each in headers) or "-",
                f"{name}.error": error_name(one.error_code),
                f"{name}.message": cast.plain(one.error_message),
                f"{name}.acknowledged": error_name(one.acknowledge_error_code),
                f"{name}.acknowledged-message": cast.plain(one.acknowledge_error_message),
            }
    fields["partitions"] = ",".join(sorted(answered)) or "-"
    return response.error_code, fields


def _range(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}-{last}"


def _read_acknowledge(step: Step, response: Any, version: int, cast: Cast) -> _Read:
    _go_on(step, response.error_code, cast)
    rows = {
        f"{cast.topic_of('', topic.topic_id)}-{one.partition_index}": one
        for topic in response.responses
        for one in topic.partitions
    }
    error, fields = common_error({name: one.error_code for name, one in rows.items()})
    fields |= {f"{name}.message": cast.plain(one.error_message) for name, one in rows.items()}
    fields |= {
        "lock": str(response.acquisition_lock_timeout_ms),
        "message": cast.plain(response.error_message),
        "partitions": ",".join(sorted(rows)) or "-",
    }
    return response.error_code or error, fields


def _read_offsets(step: Step, response: Any, version: int, cast: Cast) -> _Read:
    (group,) = response.groups
    fields = {"message": cast.plain(group.error_message)}
    answered = []
    for topic in group.topics:
        for one in topic.partitions:
            name = f"{cast.plain_topic(topic.topic_name)}-{one.partition_index}"
            answered.append(name)
            fields |= {
                name: str(one.start_offset),
                f"{name}.lag": str(one.lag),
                f"{name}.error": error_name(one.error_code),
                f"{name}.message": cast.plain(one.error_message),
            }
    fields["partitions"] = ",".join(sorted(answered)) or "-"
    return group.error_code, fields


def _read_altered(step: Step, response: Any, version: int, cast: Cast) -> _Read:
    rows = {
        f"{cast.plain_topic(topic.topic_name)}-{one.partition_index}": one
        for topic in response.responses
        for one in topic.partitions
    }
    return _read_rows(response, rows, cast)


def _read_deleted(step: Step, response: Any, version: int, cast: Cast) -> _Read:
    return _read_rows(response, {cast.plain_topic(topic.topic_name): topic for topic in response.responses}, cast)


def _read_rows(response: Any, rows: dict[str, Any], cast: Cast) -> _Read:
    error, fields = common_error({name: one.error_code for name, one in rows.items()})
    fields |= {f"{name}.message": cast.plain(one.error_message) for name, one in rows.items()}
    fields["message"] = cast.plain(response.error_message)
    return response.error_code or error, fields


def _read_produce(step: Step, response: Any, version: int, cast: Cast) -> _Read:
    return common_error(
        {
            f"{cast.plain_topic(topic.name)}-{one.index}": one.error_code
            for topic in response.responses
            for one in topic.partition_responses
        }
    )


READERS: dict[str, Callable[[Step, Any, int, Cast], _Read]] = {
    "share-heartbeat": _read_heartbeat,
    "share-describe": _read_describe,
    "share-fetch": _read_fetch,
    "share-acknowledge": _read_acknowledge,
    "share-offsets": _read_offsets,
    "share-alter-offsets": _read_altered,
    "share-delete-offsets": _read_deleted,
    "produce": _read_produce,
}
"""By verb."""
