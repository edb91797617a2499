"""Random topologies of streams applications, with the topics that may be there, and what Kafka's classes make of them."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any, NamedTuple

from integration.assignors.kafka_classes import KafkaClasses
from kshim.coordinator.groups.streams.configured_topology import configure
from kshim.coordinator.groups.streams.topology import CopartitionGroup, Subtopology, TopicInfo, Topology
from kshim_protocol.errors import ErrorCode, KafkaError

_NAMES = ("orders", "Aa", "BB", "clicks", "users", "payments-2026")  # the second and third have one hash
_CONFIGS = (("cleanup.policy", "compact"), ("retention.ms", "-1"), ("segment.bytes", "52428800"))


class Question(NamedTuple):
    """A topology, and the number of partitions of each topic that exists."""

    topology: Topology
    partition_counts: dict[str, int]


def random_question(source: random.Random) -> Question:
    """A topology that an application may have in most cases, and often topics that fit."""
    size = source.choice((1, 1, 2, 3, 5, 13))
    counts = {name: source.choice((1, 2, 2, 4)) for name in _NAMES}
    topics = [f"app-{name}-repartition" for name in ("map", "join", "count", "Aa", "BB", *map(str, range(size)))]
    fixed = {topic: source.choice((0, 0, 0, 0, 2, 3, -1 if source.random() < 0.05 else 2)) for topic in topics}
    subtopologies = [_subtopology(source, number, topics, fixed) for number in range(size)]
    read = {topic.name for each in subtopologies for topic in each.repartition_source_topics}
    if source.random() < 0.9:  # somebody writes to what is read, and in most cases there is no loop
        for topic in sorted(read.difference(*(each.repartition_sink_topics for each in subtopologies))):
            writer = source.randrange(len(subtopologies)) if source.random() < 0.2 else 0
            each = subtopologies[writer]
            sinks = (*each.repartition_sink_topics, topic)
            sources = each.source_topics or (source.choice(_NAMES),)
            subtopologies[writer] = replace(each, source_topics=sources, repartition_sink_topics=sinks)
    if source.random() < 0.05:
        subtopologies.append(source.choice(subtopologies))
    source.shuffle(subtopologies)
    topology = Topology(source.randint(0, 3), tuple(subtopologies))
    existing = {name: count for name, count in counts.items() if source.random() < 0.97}
    return Question(topology, _with_internal_topics(source, topology, existing))


def _subtopology(source: random.Random, number: int, topics: list[str], fixed: dict[str, int]) -> Subtopology:
    external = tuple(source.sample(_NAMES, source.choice((0, 1, 1, 2))))
    upstream = [_topic(source, name, fixed[name]) for name in source.sample(topics, source.choice((0, 0, 1, 1, 2)))]
    changelogs = [_topic(source, f"app-store-{number}-{index}-changelog") for index in range(source.choice((0, 1, 2)))]
    if source.random() < 0.03 and changelogs:
        changelogs.append(changelogs[0])
    return Subtopology(
        str(number),
        external,
        (),
        tuple(changelogs),
        tuple(source.sample(topics, source.choice((0, 1, 1, 2)))),
        tuple(upstream),
        tuple(_copartition_group(source, len(external), len(upstream)) for _ in range(source.choice((0, 0, 1, 2)))),
    )


def _topic(source: random.Random, name: str, partitions: int = 0) -> TopicInfo:
    configs = tuple(source.sample(_CONFIGS, source.randint(0, 3)))
    if source.random() < 0.01:
        configs = (*configs, ("retention.ms", "1"), ("retention.ms", "2"))
    return TopicInfo(name, partitions, source.choice((0, 0, 1, 3)), configs)


def _copartition_group(source: random.Random, external_count: int, upstream_count: int) -> CopartitionGroup:
    external = source.sample(range(external_count), source.randint(0, external_count))
    upstream = source.sample(range(upstream_count), source.randint(0, upstream_count))
    if source.random() < 0.02:
        upstream.append(source.choice((-1, upstream_count)))
    return CopartitionGroup(tuple(external), (), tuple(upstream))


def _with_internal_topics(source: random.Random, topology: Topology, existing: dict[str, int]) -> dict[str, int]:
    """Nothing was created yet, or a part, or all; now and then with another number of partitions."""
    share = source.choice((0.0, 0.5, 1.0))
    try:
        missing = configure(topology, existing).missing_internal_topics
    except KafkaError:
        return existing
    created = {topic.name: topic.partitions for topic in missing if source.random() < share}
    for name in created:
        if source.random() < 0.05:
            created[name] += 1
    return existing | created


def ours(question: Question) -> dict[str, Any]:
    """What kshim makes of it, as `theirs` says it."""
    try:
        found = configure(*question)
    except KafkaError as error:
        return {"error": error.code, "message": error.message}
    return {
        "status": found.status,
        "detail": found.detail,
        "tasks": found.subtopologies and {name: each.task_count for name, each in found.subtopologies.items()},
        "missing": [
            (topic.name, topic.partitions, topic.replication_factor or -1, dict(topic.topic_configs))
            for topic in found.missing_internal_topics
        ],
    }


def theirs(kafka: KafkaClasses, question: Question) -> dict[str, Any]:
    """What Kafka makes of it."""
    topology, counts = question
    record = {
        "epoch": topology.epoch,
        "subtopologies": [
            {
                "subtopologyId": each.subtopology_id,
                "sourceTopics": each.source_topics,
                "sourceTopicRegex": [],
                "stateChangelogTopics": list(map(_topic_json, each.state_changelog_topics)),
                "repartitionSinkTopics": each.repartition_sink_topics,
                "repartitionSourceTopics": list(map(_topic_json, each.repartition_source_topics)),
                "copartitionGroups": [
                    {
                        "sourceTopics": group.source_topics,
                        "sourceTopicRegex": [],
                        "repartitionSourceTopics": group.repartition_source_topics,
                    }
                    for group in each.copartition_groups
                ],
            }
            for each in topology.subtopologies
        ],
    }
    answer = kafka.ask({"about": "topology", "topology": record, "topics": counts})
    if "error" in answer:
        if answer["error"] == "StreamsInvalidTopologyException":
            return {"error": ErrorCode.STREAMS_INVALID_TOPOLOGY, "message": answer["message"]}
        return {"error": ErrorCode.UNKNOWN_SERVER_ERROR, "message": None}  # not an exception of the API: no text
    return {
        "status": answer.get("status"),
        "detail": answer.get("detail", ""),
        "tasks": answer.get("tasks"),
        "missing": [
            (topic["name"], topic["partitions"], topic["replicas"], dict(topic["configs"]))
            for topic in answer["missing"]
        ],
    }


def _topic_json(topic: TopicInfo) -> dict[str, Any]:
    return {
        "name": topic.name,
        "partitions": topic.partitions,
        "replicationFactor": topic.replication_factor,
        "topicConfigs": [{"key": key, "value": value} for key, value in topic.topic_configs],
    }
