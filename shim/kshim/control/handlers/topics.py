"""Topics over HTTP: list, create, look at, delete."""

from __future__ import annotations

from kshim.control.context import ControlContext
from kshim.control.documents import NewTopic, PageQuery, PartitionView, TopicName, TopicPage, TopicSummary, TopicView
from kshim.control.http import ProblemError
from kshim.control.routing import Table
from kshim.partitions.internal_topics import EVENTS_TOPIC
from kshim.partitions.partition import INTERNAL_TOPICS, Topic
from kshim.storage.log import LogError

TABLE = Table()


@TABLE.get("/v1/topics")
def list_topics(context: ControlContext, query: PageQuery) -> TopicPage:
    """List the topics, by name."""
    names = sorted(topic.name for topic in context.cluster.topics)
    later = [name for name in names if name > query.after]
    shown = later[: query.limit]
    return TopicPage(
        topics=[_summary(topic) for name in shown if (topic := context.cluster.topics.named(name)) is not None],
        next=shown[-1] if len(later) > len(shown) else None,
    )


@TABLE.post("/v1/topics", status=201, problems=(409, 422))
def create_topic(context: ControlContext, body: NewTopic) -> TopicView:
    """Create a topic.

    The rules are those of CreateTopics; the partitions are given to the live brokers in turn.
    """
    return _view(context.cluster.create_topic(body.name, body.partitions, dict(body.configs)))


@TABLE.get("/v1/topics/{topic}", problems=(404,))
def describe_topic(context: ControlContext, topic: TopicName) -> TopicView:
    """Look at one topic: its configuration, and the offsets and leader of each partition."""
    return _view(existing(context, topic))


@TABLE.delete("/v1/topics/{topic}", problems=(404, 409))
def delete_topic(context: ControlContext, topic: TopicName) -> None:
    """Delete a topic and its records."""
    found = existing(context, topic)
    if found.name in INTERNAL_TOPICS or found.name == EVENTS_TOPIC:
        raise ProblemError(409, f"{found.name} belongs to the broker")
    context.cluster.delete_topic(found, context.now())


def existing(context: ControlContext, name: str) -> Topic:
    """Raises ProblemError: 404."""
    found = context.cluster.topics.named(name)
    if found is None:
        raise ProblemError(404, f"topic {name} does not exist")
    return found


def _summary(topic: Topic) -> TopicSummary:
    return TopicSummary(name=topic.name, partitions=len(topic.partitions), is_internal=topic.name in INTERNAL_TOPICS)


def _view(topic: Topic) -> TopicView:
    partitions = []
    for partition in topic.partitions:
        try:
            start, end = partition.log.start_offset, partition.log.end_offset
        except LogError:
            start = end = -1
        partitions.append(
            PartitionView(
                partition=partition.index, leader=partition.leader.leader_id, start_offset=start, end_offset=end
            )
        )
    return TopicView(name=topic.name, topic_id=topic.topic_id.hex(), configs=dict(topic.configs), partitions=partitions)
