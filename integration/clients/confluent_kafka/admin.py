"""The admin commands with confluent-kafka's `AdminClient`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import confluent_kafka
from confluent_kafka import ConsumerGroupTopicPartitions, TopicCollection, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # re-exported without saying so
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from integration.clients.confluent_kafka.settings import error_name
from integration.clients.driver import Unsupported

_TIMEOUT_S = 40


class Admin:
    """One admin client, made on the first command."""

    def __init__(self) -> None:
        self.connection: dict[str, Any] = {}
        self._made: Any = None

    @property
    def _admin(self) -> Any:
        if self._made is None:
            self._made = AdminClient(self.connection)
        return self._made

    def forget_admin(self) -> None:
        """The connection has changed."""
        self._made = None

    def create_topics(self, topics: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        new = [NewTopic(each["name"], each["partitions"], config=each.get("configs", {})) for each in topics]
        return {"topics": _names(self._admin.create_topics(new))}

    def create_partitions(self, topic: str, count: int) -> None:
        _all(self._admin.create_partitions([NewPartitions(topic, count)]))

    def delete_topics(self, topics: list[str]) -> dict[str, Any]:
        return {"topics": _names(self._admin.delete_topics(topics))}

    def list_topics(self) -> dict[str, Any]:
        return {"topics": list(self._admin.list_topics(timeout=_TIMEOUT_S).topics)}

    def describe_topic(self, topic: str) -> dict[str, Any]:
        described = _result(self._admin.describe_topics(TopicCollection([topic]))[topic])
        partitions = [
            {
                "partition": each.id,
                "leader": each.leader.id,
                "replicas": [node.id for node in each.replicas],
                "isr": [node.id for node in each.isr],
            }
            for each in described.partitions
        ]
        return {"partitions": partitions}

    def describe_cluster(self) -> dict[str, Any]:
        nodes = _result(self._admin.describe_cluster()).nodes
        return {"nodes": [{"id": each.id, "host": each.host, "port": each.port} for each in nodes]}

    def describe_configs(self, topic: str) -> dict[str, Any]:
        (future,) = self._admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]).values()
        return {"configs": {name: entry.value for name, entry in _result(future).items()}}

    def alter_configs(self, topic: str, set: Mapping[str, str], delete: list[str]) -> None:  # noqa: A002
        entries = [ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in set.items()]
        entries += [ConfigEntry(name, None, incremental_operation=AlterConfigOpType.DELETE) for name in delete]
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
        _all(self._admin.incremental_alter_configs([resource]))

    def delete_records(self, offsets: Iterable[Sequence[Any]]) -> dict[str, Any]:
        answers = self._admin.delete_records([TopicPartition(*each) for each in offsets])
        return {
            "low_watermarks": [
                [each.topic, each.partition, _result(future).low_watermark] for each, future in answers.items()
            ]
        }

    def list_groups(self) -> dict[str, Any]:
        return {"groups": [each.group_id for each in _result(self._admin.list_consumer_groups()).valid]}

    def describe_group(self, group: str) -> dict[str, Any]:
        described = _result(self._admin.describe_consumer_groups([group])[group])
        members = [
            {
                "member_id": each.member_id,
                "instance_id": each.group_instance_id,
                "client_id": each.client_id,
                "partitions": [[tp.topic, tp.partition] for tp in each.assignment.topic_partitions],
            }
            for each in described.members
        ]
        state = "".join(map(str.capitalize, described.state.name.split("_")))
        return {"state": state, "assignor": described.partition_assignor, "members": members}

    def group_offsets(self, group: str) -> dict[str, Any]:
        asked = ConsumerGroupTopicPartitions(group)
        listed = _result(self._admin.list_consumer_group_offsets([asked])[group])
        return {
            "offsets": [
                [each.topic, each.partition, each.offset] for each in listed.topic_partitions if each.offset >= 0
            ]
        }

    def alter_group_offsets(self, group: str, offsets: Iterable[Sequence[Any]]) -> None:
        asked = ConsumerGroupTopicPartitions(group, [TopicPartition(*each) for each in offsets])
        altered = _result(self._admin.alter_consumer_group_offsets([asked])[group])
        for each in altered.topic_partitions:
            if each.error is not None:
                raise confluent_kafka.KafkaException(each.error)

    def delete_group_offsets(self, group: str, partitions: Iterable[Sequence[Any]]) -> None:
        raise Unsupported("confluent-kafka's AdminClient has no call for OffsetDelete")

    def delete_groups(self, groups: list[str]) -> dict[str, Any]:
        return {"groups": _names(self._admin.delete_consumer_groups(groups))}


def _result(future: Any) -> Any:
    return future.result(_TIMEOUT_S)


def _all(futures: Mapping[Any, Any]) -> None:
    for future in futures.values():
        _result(future)


def _names(futures: Mapping[str, Any]) -> dict[str, str]:
    names = {}
    for name, future in futures.items():
        try:
            _result(future)
            names[name] = "NONE"
        except confluent_kafka.KafkaException as error:
            names[name] = error_name(error)
    return names
