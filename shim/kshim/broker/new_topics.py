"""Topics that are made because a client, or a coordinator, asks for them: checks, defaults and results of CreateTopics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kshim.config.entries import topic_entries
from kshim.partitions.topic_validator import (
    MAX_PARTITIONS_PER_REQUEST,
    METADATA_TOPIC,
    check_assignment,
    check_new_topic,
    check_partition_count,
    check_replication_factor,
)
from kshim.partitions.topics import NewTopic, Topics
from kshim.storage.log import LogError
from kshim_protocol.errors import ErrorCode, KafkaError
from kshim_protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kshim_protocol.schema import ZERO_UUID

if TYPE_CHECKING:
    from kshim.config.broker_config import BrokerConfig
    from kshim.coordinator.step import TopicsWanted
    from kshim.partitions.partition import Topic


DEFAULT = -1
_TIMEOUT_MS = 30_000


class TopicPlace(NamedTuple):
    """Where topics are made: among which, by which defaults, on which nodes. `report` takes what storage could not do."""

    topics: Topics
    config: BrokerConfig
    node_ids: Sequence[int]
    report: Callable[[BaseException, object], None]


def make_topics(where: TopicPlace, request: CreateTopicsRequest) -> CreateTopicsResponse:
    """See the handler, which answers so."""
    counts = Counter(topic.name for topic in request.topics)
    single = [topic for topic in request.topics if counts[topic.name] == 1]
    is_too_large = len(single) + sum(map(_partitions_asked, single)) > MAX_PARTITIONS_PER_REQUEST
    checked = [(topic.name, _checked(where, topic, is_too_large=is_too_large)) for topic in single]
    failure = None
    topics: dict[str, Topic] = {}
    if not request.validate_only:
        try:
            made = where.topics.create_all([new for _, new in checked if isinstance(new, NewTopic)])
            topics = {topic.name: topic for topic in made}
        except LogError as error:
            where.report(error, request)
            failure = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error))
    results = [
        _refused(name, outcome)
        if isinstance(outcome, KafkaError)
        else _refused(name, failure)
        if failure is not None
        else _accepted(where, outcome, topics[name].topic_id if topics else ZERO_UUID)
        for name, outcome in checked
    ]
    duplicate = KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
    results.extend(_refused(name, duplicate) for name, count in counts.items() if count > 1)
    return CreateTopicsResponse(topics=tuple(results))


def _partitions_asked(topic: CreatableTopic) -> int:
    return len(topic.assignments) or max(topic.num_partitions, 1)


def _checked(where: TopicPlace, topic: CreatableTopic, *, is_too_large: bool) -> NewTopic | KafkaError:
    try:
        return _check(where, topic, is_too_large=is_too_large)
    except KafkaError as error:
        return error


def _check(where: TopicPlace, topic: CreatableTopic, *, is_too_large: bool) -> NewTopic:
    """Raises KafkaError."""
    if is_too_large and topic.name != METADATA_TOPIC:
        raise KafkaError(
            ErrorCode.POLICY_VIOLATION,
            f"a request may create at most {MAX_PARTITIONS_PER_REQUEST} topics and partitions",
        )
    configs = check_new_topic(where.topics, topic.name, ((config.name, config.value) for config in topic.configs))
    partition_count = _partition_count(where, topic)
    leaders = {assignment.partition_index: assignment.broker_ids[0] for assignment in topic.assignments}
    return NewTopic(topic.name, partition_count, configs, [leaders[index] for index in sorted(leaders)] or None)


def _partition_count(where: TopicPlace, topic: CreatableTopic) -> int:
    """Raises KafkaError."""
    node_ids = where.node_ids
    if topic.assignments:
        if topic.replication_factor != DEFAULT:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, "the replication factor must be -1 if an assignment is specified"
            )
        if topic.num_partitions != DEFAULT:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, "the number of partitions must be -1 if an assignment is specified"
            )
        _check_assignments(topic, node_ids)
        return len(topic.assignments)
    if topic.replication_factor < 1:
        check_replication_factor(topic.replication_factor, len(node_ids))
    if topic.num_partitions != DEFAULT:
        check_partition_count(topic.num_partitions)
    check_replication_factor(topic.replication_factor, len(node_ids))
    return where.config.num_partitions if topic.num_partitions == DEFAULT else topic.num_partitions


def _check_assignments(topic: CreatableTopic, node_ids: Sequence[int]) -> None:
    """Raises KafkaError INVALID_REPLICA_ASSIGNMENT."""
    for assignment in topic.assignments:
        check_assignment(assignment.broker_ids, node_ids)
    indexes = sorted(assignment.partition_index for assignment in topic.assignments)
    if indexes != list(range(len(indexes))):
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"assigned partitions must be numbered from 0 without gaps, not {indexes}",
        )
    if len({len(assignment.broker_ids) for assignment in topic.assignments}) > 1:
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "all partitions must have the same number of replicas")


def _accepted(where: TopicPlace, new: NewTopic, topic_id: bytes = ZERO_UUID) -> CreatableTopicResult:
    return CreatableTopicResult(
        name=new.name,
        topic_id=topic_id,
        error_code=ErrorCode.NONE,
        error_message=None,
        num_partitions=new.partition_count,
        replication_factor=1,
        configs=tuple(
            CreatableTopicConfigs(
                name=entry.name,
                # Kafka repeats the client's own text here and tidies it up in DescribeConfigs.
                value=new.configs.get(entry.name, entry.value),
                read_only=False,
                config_source=entry.source,
                is_sensitive=False,
            )
            for entry in topic_entries(where.config, new.configs)
        ),
    )


def _refused(name: str, error: KafkaError) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, error_code=error.code, error_message=error.message)


# What a coordinator wants


def make_wanted(where: TopicPlace, wanted: TopicsWanted) -> None:
    """Make what can be made, and say what could not. Whoever wanted them has asked whether it may."""
    request = CreateTopicsRequest(
        topics=tuple(
            CreatableTopic(
                name=topic.name,
                num_partitions=topic.partition_count,
                replication_factor=topic.replication_factor or DEFAULT,
                assignments=(),
                configs=tuple(CreatableTopicConfig(name=key, value=value) for key, value in topic.configs),
            )
            for topic in wanted.topics
        ),
        timeout_ms=_TIMEOUT_MS,
    )
    wanted.settle(
        {
            result.name: result.error_message or ErrorCode(result.error_code).name
            for result in make_topics(where, request).topics
            if result.error_code != ErrorCode.NONE
        }
    )
