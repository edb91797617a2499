"""All topics of a cluster: what exists, under which name and id."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from kshim.partitions.operations import Operations
from kshim.partitions.partition import Partition, PartitionServices, Topic
from kshim.storage.log import LogError
from kshim.storage.topic_spec import PartitionLeader, TopicSpec

if TYPE_CHECKING:
    from kshim.partitions.leadership import Leadership
    from kshim.scheduling.background_tasks import BackgroundTask
    from kshim.storage.storage import Storage


class NewTopic(NamedTuple):
    """A topic to be made, every check passed. `leader_ids` names a node for each partition; None: in turn."""

    name: str
    partition_count: int
    configs: dict[str, str]
    leader_ids: Sequence[int] | None = None


class Topics:
    """All topics, by name and by id. Also the coordinator's `TopicCatalog`.

    `start` is given background tasks. `unlisted` are names that only those see who know them.
    """

    def __init__(
        self,
        storage: Storage,
        new_topic_id: Callable[[], bytes],
        leadership: Leadership,
        services: PartitionServices,
        *,
        start: Callable[[BackgroundTask], None],
        report: Callable[[BaseException, object], None],
        unlisted: frozenset[str] = frozenset(),
    ) -> None:
        self._storage = storage
        self._unlisted = unlisted
        self._services = services
        self._start = start
        self._report = report
        self._new_topic_id = new_topic_id
        self._by_name: dict[str, Topic] = {}
        self._by_id: dict[bytes, Topic] = {}
        self._alike: dict[str, list[str]] = {}
        self.version = 0
        """Another one after each change of what topics and partitions there are."""
        self.on_changed: Callable[[str, int, int], None] = lambda name, partitions_before, partitions: None
        """Called after a topic was created (0 partitions before), deleted (0 now) or got partitions."""
        self._leadership = leadership
        self.operation = Operations()
        """Those of the cluster: each is done by calling this."""
        is_changed = False
        for spec in storage.load_topics():
            topic = self._add(spec)
            is_changed = is_changed or self._spec(topic).leaders != spec.leaders
        if is_changed:
            self._save()

    def __iter__(self) -> Iterator[Topic]:
        return iter(list(self._by_name.values()))

    def __len__(self) -> int:
        return len(self._by_name)

    def __contains__(self, name: str) -> bool:
        return name in self._by_name

    def listed(self) -> list[Topic]:
        """Those that a client sees who asks for all."""
        return [topic for name, topic in self._by_name.items() if name not in self._unlisted]

    def named(self, name: str) -> Topic | None:
        """The topic of that name."""
        return self._by_name.get(name)

    def with_id(self, topic_id: bytes) -> Topic | None:
        """The topic of that id (16 bytes)."""
        return self._by_id.get(topic_id)

    def partition(self, name: str, index: int) -> Partition | None:
        """One partition, or None when topic or index do not exist."""
        topic = self._by_name.get(name)
        if topic is None or not 0 <= index < len(topic.partitions):
            return None
        return topic.partitions[index]

    def create(
        self,
        name: str,
        partition_count: int,
        configs: dict[str, str] | None = None,
        leader_ids: Sequence[int] | None = None,
    ) -> Topic:
        """Make a topic. The caller has checked name, count and that it does not exist. Raises LogError.

        `leader_ids` names a node for each partition; None: nodes get them in turn.
        """
        (topic,) = self.create_all([NewTopic(name, partition_count, configs or {}, leader_ids)])
        return topic

    def create_all(self, new_topics: Sequence[NewTopic]) -> list[Topic]:
        """`create` many, or none. All topics are written down each time, so many are made together. Raises LogError."""
        arguments = {"topics": [_described(new) for new in new_topics]}
        return self.operation("create-topics", arguments, lambda: self._create_all(new_topics))

    def _create_all(self, new_topics: Sequence[NewTopic]) -> list[Topic]:
        topics = [
            self._add(TopicSpec(new.name, self._new_topic_id(), new.partition_count, new.configs), new.leader_ids)
            for new in new_topics
        ]
        if topics:
            try:
                self._save()
            except LogError:
                for topic in topics:
                    self._drop(topic)
                raise
        for topic in topics:
            self.on_changed(topic.name, 0, len(topic.partitions))
        return topics

    def alike(self, name: str) -> Iterable[str]:
        """Names of topics that differ from `name` in '.' and '_' at most."""
        return self._alike.get(name.replace(".", "_"), ())

    def grow(self, topic: Topic, partition_count: int, leader_ids: Sequence[int] | None = None) -> None:
        """Add partitions up to `partition_count`; `leader_ids` as in `create`, of the new ones. Raises LogError."""
        old_count = len(topic.partitions)
        self._extend(topic, self._leaders_of_new(partition_count - old_count, leader_ids))
        try:
            self._save()
        except LogError:
            del topic.partitions[old_count:]
            raise
        self.on_changed(topic.name, old_count, partition_count)

    def delete_all(self, topics: Sequence[Topic]) -> None:
        """Remove topics and their records, or none; waiting Fetches are answered. Raises LogError.

        Space is freed by a background task. Whatever fails after the topics were saved is reported.
        """
        for topic in topics:
            self._drop(topic)
        try:
            self._save()
        except LogError:
            for topic in topics:
                self._enter(topic)
            raise
        for topic in topics:
            self.on_changed(topic.name, len(topic.partitions), 0)
        for topic in topics:
            for partition in topic.partitions:
                partition.forget()
        remove = self._storage.delete_topics({topic.name for topic in topics})
        if remove is not None:
            self._start(self._remove(remove))
        for topic in topics:
            for partition in topic.partitions:
                partition.release_fetches()

    def _remove(self, remove: Callable[[], None]) -> BackgroundTask:
        try:
            yield remove
        except LogError as error:
            self._report(error, None)

    def save(self) -> None:
        """Remember topics whose configuration changed. Raises LogError."""
        self._save()

    def close(self) -> None:
        """Close every log. Raises LogError, when all are closed."""
        failure = None
        for topic in self._by_name.values():
            for partition in topic.partitions:
                try:
                    partition.close()
                except LogError as error:
                    failure = failure or error
        if failure is not None:
            raise failure

    def partition_count(self, name: str) -> int | None:
        """Number of partitions, or None when there is no such topic."""
        topic = self._by_name.get(name)
        return None if topic is None else len(topic.partitions)

    def topic_id(self, name: str) -> bytes | None:
        """Id (16 bytes) of a topic."""
        topic = self._by_name.get(name)
        return None if topic is None else topic.topic_id

    def topic_name(self, topic_id: bytes) -> str | None:
        """Name of a topic."""
        topic = self._by_id.get(topic_id)
        return None if topic is None else topic.name

    def _add(self, spec: TopicSpec, leader_ids: Sequence[int] | None = None) -> Topic:
        topic = Topic(spec.name, spec.topic_id, dict(spec.configs))
        if spec.leaders:
            self._extend(topic, map(self._leadership.restored, spec.leaders))
        else:
            self._extend(topic, self._leaders_of_new(spec.partition_count, leader_ids))
        self._enter(topic)
        return topic

    def _enter(self, topic: Topic) -> None:
        self.version += 1
        self._by_name[topic.name] = topic
        self._by_id[topic.topic_id] = topic
        self._alike.setdefault(topic.name.replace(".", "_"), []).append(topic.name)

    def _drop(self, topic: Topic) -> None:
        self.version += 1
        del self._by_name[topic.name]
        del self._by_id[topic.topic_id]
        self._alike[topic.name.replace(".", "_")].remove(topic.name)
        if not self._alike[topic.name.replace(".", "_")]:
            del self._alike[topic.name.replace(".", "_")]

    def _leaders_of_new(self, count: int, leader_ids: Sequence[int] | None) -> Iterable[PartitionLeader]:
        return map(self._leadership.of_new, [None] * count if leader_ids is None else leader_ids)

    def _extend(self, topic: Topic, leaders: Iterable[PartitionLeader]) -> None:
        self.version += 1
        for leader in leaders:
            topic.partitions.append(Partition(topic, len(topic.partitions), self._services, leader))

    def _spec(self, topic: Topic) -> TopicSpec:
        """What to remember of a topic. Of a node that was alone all along nothing need be said."""
        leaders = tuple(partition.leader for partition in topic.partitions)
        if not self._leadership.is_spread and not any(leader.leader_epoch for leader in leaders):
            leaders = ()
        return TopicSpec(topic.name, topic.topic_id, len(topic.partitions), topic.configs, leaders)

    def _save(self) -> None:
        self._storage.save_topics([self._spec(topic) for topic in self._by_name.values()])


def _described(new: NewTopic) -> dict[str, Any]:
    return {
        "name": new.name,
        "partitions": new.partition_count,
        "configs": new.configs,
        "leaders": None if new.leader_ids is None else list(new.leader_ids),
    }
