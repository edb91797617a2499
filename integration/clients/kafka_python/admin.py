"""The admin commands with kafka-python's `KafkaAdminClient`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import kafka
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.structs import OffsetAndMetadata

from integration.clients.kafka_python.settings import error_name
from kshim_protocol.errors import ErrorCode


class Admin:
    """One admin client, made on the first command."""

    def __init__(self) -> None:
        self.connection: dict[str, Any] = {}
        self._made: Any = None

    @property
    def _admin(self) -> Any:
        if self._made is None:
            self._made = kafka.KafkaAdminClient(**self.connection)
        return self._made

    def forget_admin(self) -> None:
        """The connection has changed."""
        if self._made is not None:
            self._made.close()
            self._made = None

    def create_topics(self, topics: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        new = {
            each["name"]: {"num_partitions": each["partitions"], "configs": each.get("configs", {})} for each in topics
        }
        answer = self._admin.create_topics(new, raise_errors=False)
        return {"topics": {each["name"]: ErrorCode(each["error_code"]).name for each in answer["topics"]}}

    def create_partitions(self, topic: str, count: int) -> None:
        self._admin.create_partitions({topic: count})

    def delete_topics(self, topics: list[str]) -> dict[str, Any]:
        answer = self._admin.delete_topics(topics, raise_errors=False)
        return {"topics": {each["name"]: ErrorCode(each["error_code"]).name for each in answer["topics"]}}

    def list_topics(self) -> dict[str, Any]:
        return {"topics": list(self._admin.list_topics())}

    def describe_topic(self, topic: str) -> dict[str, Any]:
        (described,) = self._admin.describe_topics([topic])
        if described["error_code"]:
            raise kafka.errors.for_code(described["error_code"])
        partitions = [
            {
                "partition": each["partition_index"],
                "leader": each["leader_id"],
                "replicas": each["replica_nodes"],
                "isr": each["isr_nodes"],
            }
            for each in described["partitions"]
        ]
        return {"partitions": partitions}

    def describe_cluster(self) -> dict[str, Any]:
        brokers = self._admin.describe_cluster()["brokers"]
        return {"nodes": [{"id": each["broker_id"], "host": each["host"], "port": each["port"]} for each in brokers]}

    def describe_configs(self, topic: str) -> dict[str, Any]:
        described = self._admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)], config_filter="all")
        configs = described["topic"][topic]
        return {"configs": {name: each["value"] for name, each in configs.items()}}

    def alter_configs(self, topic: str, set: Mapping[str, str], delete: list[str]) -> None:  # noqa: A002
        changes = {name: ("SET", value) for name, value in set.items()} | dict.fromkeys(delete, ("DELETE", None))
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, changes)
        answer = self._admin.alter_configs([resource], raise_on_unknown=False)["topic"][topic]
        if answer != "OK":  # "[Error 40] InvalidConfigurationError: ..."
            raise kafka.errors.for_code(int(answer.removeprefix("[Error ").partition("]")[0]))(answer)

    def delete_records(self, offsets: Iterable[Sequence[Any]]) -> dict[str, Any]:
        answer = self._admin.delete_records({kafka.TopicPartition(topic, part): at for topic, part, at in offsets})
        return {"low_watermarks": [[tp.topic, tp.partition, each["low_watermark"]] for tp, each in answer.items()]}

    def list_groups(self) -> dict[str, Any]:
        return {"groups": [each["group_id"] for each in self._admin.list_groups()]}

    def describe_group(self, group: str) -> dict[str, Any]:
        (described,) = self._admin.describe_groups([group]).values()
        members = [
            {
                "member_id": each["member_id"],
                "instance_id": each["group_instance_id"],
                "client_id": each["client_id"],
                "partitions": _assignment(each["member_assignment"]),
            }
            for each in described["members"]
        ]
        return {"state": described["group_state"], "assignor": described["protocol_data"], "members": members}

    def group_offsets(self, group: str) -> dict[str, Any]:
        offsets = self._admin.list_group_offsets({group: None})[group]
        return {"offsets": [[*partition, each.offset] for partition, each in offsets.items() if each.offset >= 0]}

    def alter_group_offsets(self, group: str, offsets: Iterable[Sequence[Any]]) -> None:
        theirs = {
            kafka.TopicPartition(topic, part): OffsetAndMetadata(offset, "", -1) for topic, part, offset in offsets
        }
        _raise_first(self._admin.alter_group_offsets(group, theirs).values())

    def delete_group_offsets(self, group: str, partitions: Iterable[Sequence[Any]]) -> None:
        theirs = [kafka.TopicPartition(*partition) for partition in partitions]
        _raise_first(self._admin.delete_group_offsets(group, theirs).values())

    def delete_groups(self, groups: list[str]) -> dict[str, Any]:
        answers = self._admin.delete_groups(groups)
        names = {
            group: "NONE" if answer == "OK" else error_name(getattr(kafka.errors, answer))
            for group, answer in answers.items()
        }
        return {"groups": names}


def _raise_first(errors: Iterable[Any]) -> None:
    for error in errors:
        if error_name(error) != "NONE":
            raise error


def _assignment(decoded: Any) -> list[list[Any]]:
    """Of the decoded ConsumerProtocolAssignment; empty bytes stay as they are."""
    topics = decoded["assigned_partitions"] if decoded else ()
    return [[topic["topic"], partition] for topic in topics for partition in topic["partitions"]]
