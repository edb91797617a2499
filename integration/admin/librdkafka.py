"""librdkafka's admin client, through confluent-kafka. It has neither OffsetDelete nor the removal of members."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar

import confluent_kafka
from confluent_kafka import ConsumerGroupState, ConsumerGroupTopicPartitions, ConsumerGroupType, KafkaException
from confluent_kafka.admin import AdminClient

from integration.admin.admin import NONE, AdminError, Committed, GroupDescription, GroupListing, MemberDescription
from integration.support.client import TopicPartition
from kshim_protocol.errors import ErrorCode

_TIMEOUT_S = 30

T = TypeVar("T")


class LibrdkafkaAdmin:
    """An `AdminClient`."""

    def __init__(self, bootstrap: str) -> None:
        """Connect."""
        self._admin: Any = AdminClient({"bootstrap.servers": bootstrap})

    def list_groups(self, *, states: Collection[str] = (), types: Collection[str] = ()) -> dict[str, GroupListing]:
        """ListGroups with both filters."""
        filters: dict[str, set[Any]] = {}
        if states:
            filters["states"] = {_STATES[state] for state in states}
        if types:
            filters["types"] = {ConsumerGroupType[each.upper()] for each in types}
        listed = _value(lambda: self._admin.list_consumer_groups(**filters).result(_TIMEOUT_S))
        assert listed.errors == [], listed.errors
        return {
            group.group_id: GroupListing(
                _state_name(group.state), group.type.name.lower(), group.is_simple_consumer_group
            )
            for group in listed.valid
        }

    def describe(self, *group_ids: str) -> dict[str, GroupDescription]:
        """DescribeGroups."""
        futures = self._admin.describe_consumer_groups(list(group_ids))
        return {group_id: _description(_result(future)) for group_id, future in futures.items()}

    def list_offsets(
        self, groups: Mapping[str, Collection[TopicPartition] | None]
    ) -> dict[str, dict[TopicPartition, Committed]]:
        """One OffsetFetch a group: the client takes no more at a time. It gives None for empty metadata."""
        return {group_id: self._offsets(group_id, partitions) for group_id, partitions in groups.items()}

    def _offsets(self, group_id: str, partitions: Collection[TopicPartition] | None) -> dict[TopicPartition, Committed]:
        theirs = None if partitions is None else [confluent_kafka.TopicPartition(*each) for each in partitions]
        asked = ConsumerGroupTopicPartitions(group_id, theirs)
        listed = _result(self._admin.list_consumer_group_offsets([asked])[group_id])
        found = {}
        for each in listed.topic_partitions:
            assert each.error is None, each.error
            if each.offset != confluent_kafka.OFFSET_INVALID:
                found[TopicPartition(each.topic, each.partition)] = Committed(each.offset, each.metadata or "")
        return found

    def alter_offsets(self, group_id: str, offsets: Mapping[TopicPartition, Committed]) -> dict[TopicPartition, str]:
        """OffsetCommit without a member."""
        theirs = [
            confluent_kafka.TopicPartition(topic, partition, offset, metadata)
            for (topic, partition), (offset, metadata) in offsets.items()
        ]
        asked = ConsumerGroupTopicPartitions(group_id, theirs)
        altered = _result(self._admin.alter_consumer_group_offsets([asked])[group_id])
        return {TopicPartition(each.topic, each.partition): _name(each.error) for each in altered.topic_partitions}

    def delete_groups(self, *group_ids: str) -> dict[str, str]:
        """DeleteGroups."""
        answers = {}
        for group_id, future in self._admin.delete_consumer_groups(list(group_ids)).items():
            try:
                _result(future)
                answers[group_id] = NONE
            except AdminError as error:
                answers[group_id] = str(error)
        return answers


def _value(ask: Callable[[], T]) -> T:
    try:
        return ask()
    except KafkaException as error:
        raise AdminError(_name(error.args[0])) from error


def _result(future: Any) -> Any:
    return _value(lambda: future.result(_TIMEOUT_S))


def _name(error: Any) -> str:
    """Kafka's name; librdkafka has names of its own for some. An error of the client itself keeps its own."""
    if error is None:
        return NONE
    return ErrorCode(error.code()).name if error.code() > 0 else str(error.name())


_STATES = {"".join(map(str.capitalize, state.name.split("_"))): state for state in ConsumerGroupState}


def _state_name(state: Any) -> str:
    return "".join(map(str.capitalize, state.name.split("_")))


def _description(group: Any) -> GroupDescription:
    members = [
        MemberDescription(
            member.member_id,
            member.group_instance_id,
            member.client_id,
            member.host,
            frozenset(TopicPartition(each.topic, each.partition) for each in member.assignment.topic_partitions),
        )
        for member in group.members
    ]
    coordinator = f"{group.coordinator.host}:{group.coordinator.port}"
    return GroupDescription(_state_name(group.state), group.partition_assignor, coordinator, tuple(members))
