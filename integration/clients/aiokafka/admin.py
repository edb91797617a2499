"""The admin commands with aiokafka's `AIOKafkaAdminClient`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import aiokafka
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment
from aiokafka.errors import UnknownTopicOrPartitionError, for_code

from integration.clients.aiokafka.settings import wait
from integration.clients.driver import Unsupported
from kshim_protocol.errors import ErrorCode


class Admin:
    """One admin client, made on the first command."""

    def __init__(self) -> None:
        self.connection: dict[str, Any] = {}
        self._made: Any = None

    @property
    def _admin(self) -> Any:
        if self._made is None:
            self._made = wait(self._make())
        return self._made

    async def _make(self) -> Any:
        admin = AIOKafkaAdminClient(**self.connection)
        await admin.start()
        return admin

    def forget_admin(self) -> None:
        """The connection has changed."""
        if self._made is not None:
            wait(self._made.close())
            self._made = None

    def create_topics(self, topics: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        new = [NewTopic(each["name"], each["partitions"], 1, topic_configs=each.get("configs", {})) for each in topics]
        answer = wait(self._admin.create_topics(new))
        return {"topics": {topic: ErrorCode(code).name for topic, code, *_ in answer.topic_errors}}

    def create_partitions(self, topic: str, count: int) -> None:
        wait(self._admin.create_partitions({topic: NewPartitions(count)}))

    def delete_topics(self, topics: list[str]) -> dict[str, Any]:
        answer = wait(self._admin.delete_topics(topics))
        return {"topics": {topic: ErrorCode(code).name for topic, code in answer.topic_error_codes}}

    def list_topics(self) -> dict[str, Any]:
        return {"topics": wait(self._admin.list_topics())}

    def describe_topic(self, topic: str) -> dict[str, Any]:
        # Asked for one topic by name, aiokafka would have it created.
        described = {each["topic"]: each for each in wait(self._admin.describe_topics())}.get(topic)
        if described is None:
            raise UnknownTopicOrPartitionError(topic)
        names = ("partition", "leader", "replicas", "isr")
        return {"partitions": [{name: each[name] for name in names} for each in described["partitions"]]}

    def describe_cluster(self) -> dict[str, Any]:
        brokers = wait(self._admin.describe_cluster())["brokers"]
        return {"nodes": [{"id": each["node_id"], "host": each["host"], "port": each["port"]} for each in brokers]}

    def describe_configs(self, topic: str) -> dict[str, Any]:
        (answer,) = wait(self._admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)]))
        ((code, message, _, _, entries),) = answer.resources
        _require(code, message)
        return {"configs": {name: value for name, value, *_ in entries}}

    def alter_configs(self, topic: str, set: Mapping[str, str], delete: list[str]) -> None:  # noqa: A002
        raise Unsupported("aiokafka alters configs by AlterConfigs alone, which sets back all that is not named")

    def delete_records(self, offsets: Iterable[Sequence[Any]]) -> dict[str, Any]:
        theirs = {aiokafka.TopicPartition(topic, part): RecordsToDelete(offset) for topic, part, offset in offsets}
        answer = wait(self._admin.delete_records(theirs))
        return {"low_watermarks": [[*partition, low] for partition, low in answer.items()]}

    def list_groups(self) -> dict[str, Any]:
        return {"groups": [group for group, *_ in wait(self._admin.list_consumer_groups())]}

    def describe_group(self, group: str) -> dict[str, Any]:
        (answer,) = wait(self._admin.describe_consumer_groups([group]))
        ((code, _, state, _, assignor, members, *_),) = answer.groups
        _require(code)
        return {
            "state": state,
            "assignor": assignor,
            "members": [
                {
                    "member_id": member_id,
                    "instance_id": None,
                    "client_id": client_id,
                    "partitions": _assignment(assignment),
                }
                for member_id, client_id, _, _, assignment in members
            ],
        }

    def group_offsets(self, group: str) -> dict[str, Any]:
        offsets = wait(self._admin.list_consumer_group_offsets(group))
        return {"offsets": [[*partition, each.offset] for partition, each in offsets.items() if each.offset >= 0]}

    def alter_group_offsets(self, group: str, offsets: Iterable[Sequence[Any]]) -> None:
        """The admin client has no such call; a consumer that assigns itself partitions does the same."""
        theirs = {aiokafka.TopicPartition(topic, part): offset for topic, part, offset in offsets}

        async def alter() -> None:
            consumer = aiokafka.AIOKafkaConsumer(group_id=group, enable_auto_commit=False, **self.connection)
            await consumer.start()
            try:
                consumer.assign(list(theirs))
                await consumer.commit(theirs)
            finally:
                await consumer.stop()

        wait(alter())

    def delete_group_offsets(self, group: str, partitions: Iterable[Sequence[Any]]) -> None:
        raise Unsupported("aiokafka has no call for OffsetDelete")

    def delete_groups(self, groups: list[str]) -> dict[str, Any]:
        raise Unsupported("aiokafka has no call for DeleteGroups")


def _require(code: int, message: str = "") -> None:
    if code:
        raise for_code(code)(message)


def _assignment(data: bytes) -> list[list[Any]]:
    if not data:
        return []
    decoded = ConsumerProtocolMemberAssignment.decode(data)
    return [[topic, partition] for topic, partitions in decoded.assignment for partition in partitions]
