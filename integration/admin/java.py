"""The Java `Admin`, on a JVM through py4j."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from py4j.protocol import Py4JJavaError

from integration.admin.admin import NONE, AdminError, Committed, GroupDescription, GroupListing, MemberDescription
from integration.support.client import TopicPartition
from integration.support.jvm import Jvm


class JavaAdmin:
    """An `Admin`. Where Java has an older and a newer call for the same, the older one: `describeConsumerGroups`."""

    def __init__(self, jvm: Jvm, bootstrap: str) -> None:
        """Connect."""
        self.java = jvm.classes
        self._kafka = jvm.classes.org.apache.kafka
        self._classes = self._kafka.clients.admin
        self.admin = self._classes.Admin.create({"bootstrap.servers": bootstrap})

    def close(self) -> None:
        """Close the client."""
        self.admin.close()

    def list_groups(self, *, states: Collection[str] = (), types: Collection[str] = ()) -> dict[str, GroupListing]:
        """`listGroups` with both filters."""
        options = self._classes.ListGroupsOptions()
        options.inGroupStates({self._kafka.common.GroupState.parse(state) for state in states})
        options.withTypes({self._kafka.common.GroupType.parse(each) for each in types})
        return {
            group.groupId(): GroupListing(
                group.groupState().get().toString(), group.type().get().toString().lower(), group.protocol() == ""
            )
            for group in self.get(self.admin.listGroups(options).all())
        }

    def list_consumer_groups(self) -> dict[str, GroupListing]:
        """`listConsumerGroups`, which Java has deprecated."""
        return {
            group.groupId(): GroupListing(
                group.groupState().get().toString(),
                group.type().get().toString().lower(),
                group.isSimpleConsumerGroup(),
            )
            for group in self.get(self.admin.listConsumerGroups().all())
        }

    def describe(self, *group_ids: str) -> dict[str, GroupDescription]:
        """`describeConsumerGroups`: ConsumerGroupDescribe where the broker has it, and DescribeGroups."""
        described = self.get(self.admin.describeConsumerGroups(list(group_ids)).all())
        return {
            group_id: _description(group, group.groupState(), group.partitionAssignor())
            for group_id, group in described.items()
        }

    def describe_classic(self, *group_ids: str) -> dict[str, GroupDescription]:
        """`describeClassicGroups`: DescribeGroups alone."""
        described = self.get(self.admin.describeClassicGroups(list(group_ids)).all())
        return {
            group_id: _description(group, group.state(), group.protocolData()) for group_id, group in described.items()
        }

    def list_offsets(
        self, groups: Mapping[str, Collection[TopicPartition] | None]
    ) -> dict[str, dict[TopicPartition, Committed]]:
        """All groups in one OffsetFetch. Java gives null where there is no offset."""
        specs = {group_id: self._spec(partitions) for group_id, partitions in groups.items()}
        listed = self.get(self.admin.listConsumerGroupOffsets(specs).all())
        return {
            group_id: {
                _ours(partition): Committed(offset.offset(), offset.metadata())
                for partition, offset in offsets.items()
                if offset is not None
            }
            for group_id, offsets in listed.items()
        }

    def _spec(self, partitions: Collection[TopicPartition] | None) -> Any:
        spec = self._classes.ListConsumerGroupOffsetsSpec()
        return spec if partitions is None else spec.topicPartitions([self._theirs(each) for each in partitions])

    def alter_offsets(self, group_id: str, offsets: Mapping[TopicPartition, Committed]) -> dict[TopicPartition, str]:
        """`alterConsumerGroupOffsets`."""
        offset_class = self._kafka.clients.consumer.OffsetAndMetadata
        theirs = {self._theirs(partition): offset_class(*committed) for partition, committed in offsets.items()}
        result = self.admin.alterConsumerGroupOffsets(group_id, theirs)
        return {each: self._error_of(result.partitionResult(self._theirs(each))) for each in offsets}

    def delete_groups(self, *group_ids: str) -> dict[str, str]:
        """`deleteConsumerGroups`."""
        deleted = self.admin.deleteConsumerGroups(list(group_ids)).deletedGroups()
        return {group_id: self._error_of(future) for group_id, future in deleted.items()}

    def delete_offsets(self, group_id: str, partitions: Collection[TopicPartition]) -> dict[TopicPartition, str]:
        """`deleteConsumerGroupOffsets`. Java repeats an error of the whole request for each partition."""
        result = self.admin.deleteConsumerGroupOffsets(group_id, {self._theirs(each) for each in partitions})
        return {each: self._error_of(result.partitionResult(self._theirs(each))) for each in partitions}

    def remove_all_members(self, group_id: str) -> None:
        """`removeMembersFromConsumerGroup` without naming any: Java describes the group to learn who there is."""
        options = self._classes.RemoveMembersFromConsumerGroupOptions()
        self.get(self.admin.removeMembersFromConsumerGroup(group_id, options).all())

    def remove_instance(self, group_id: str, group_instance_id: str) -> str:
        """`removeMembersFromConsumerGroup` with one instance id."""
        member = self._classes.MemberToRemove(group_instance_id)
        options = self._classes.RemoveMembersFromConsumerGroupOptions([member])
        return self._error_of(self.admin.removeMembersFromConsumerGroup(group_id, options).memberResult(member))

    def get(self, future: Any) -> Any:
        """The value of a KafkaFuture. Raises AdminError."""
        try:
            return future.get()
        except Py4JJavaError as error:
            cause = error.java_exception.getCause()
            raise AdminError(self._kafka.common.protocol.Errors.forException(cause).name()) from error

    def _error_of(self, future: Any) -> str:
        try:
            self.get(future)
        except AdminError as error:
            return str(error)
        return NONE

    def _theirs(self, partition: TopicPartition) -> Any:
        return self._kafka.common.TopicPartition(*partition)


def _ours(partition: Any) -> TopicPartition:
    return TopicPartition(partition.topic(), partition.partition())


def _description(group: Any, state: Any, protocol: str) -> GroupDescription:
    members = [
        MemberDescription(
            member.consumerId(),
            member.groupInstanceId().orElse(None),
            member.clientId(),
            member.host(),
            frozenset(_ours(each) for each in member.assignment().topicPartitions()),
        )
        for member in group.members()
    ]
    coordinator = f"{group.coordinator().host()}:{group.coordinator().port()}"
    return GroupDescription(state.toString(), protocol, coordinator, tuple(members))
