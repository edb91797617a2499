"""kafka-python's admin client."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import kafka
from kafka.admin import MemberToRemove
from kafka.errors import KafkaError
from kafka.structs import OffsetAndMetadata

from integration.admin.admin import NONE, AdminError, Committed, GroupDescription, GroupListing, MemberDescription
from integration.support.client import TopicPartition
from kshim_protocol.errors import ErrorCode


class KafkaPythonAdmin:
    """A `KafkaAdminClient`."""

    def __init__(self, bootstrap: str) -> None:
        """Connect."""
        self._admin = kafka.KafkaAdminClient(bootstrap_servers=bootstrap)

    def close(self) -> None:
        """Close the client."""
        self._admin.close()

    def list_groups(self, *, states: Collection[str] = (), types: Collection[str] = ()) -> dict[str, GroupListing]:
        """ListGroups with both filters."""
        groups = self._admin.list_groups(states_filter=list(states), types_filter=list(types))
        return {
            group["group_id"]: GroupListing(group["group_state"], group["group_type"], group["protocol_type"] == "")
            for group in groups
        }

    def describe(self, *group_ids: str) -> dict[str, GroupDescription]:
        """DescribeGroups v6; the text of an error begins with its number."""
        described = self._admin.describe_groups(list(group_ids))
        for group in described.values():
            if group["error"] is not None:
                raise AdminError(f"{group['error']} in state {group['group_state']}")
        return {group_id: _description(group) for group_id, group in described.items()}

    def list_offsets(
        self, groups: Mapping[str, Collection[TopicPartition] | None]
    ) -> dict[str, dict[TopicPartition, Committed]]:
        """All groups in one OffsetFetch. kafka-python gives -1 where there is no offset."""
        listed = self._admin.list_group_offsets(
            {group_id: partitions and _theirs(partitions) for group_id, partitions in groups.items()}
        )
        return {
            group_id: {
                TopicPartition(*partition): Committed(offset.offset, offset.metadata)
                for partition, offset in offsets.items()
                if offset.offset != -1
            }
            for group_id, offsets in listed.items()
        }

    def alter_offsets(self, group_id: str, offsets: Mapping[TopicPartition, Committed]) -> dict[TopicPartition, str]:
        """OffsetCommit without a member."""
        theirs = {
            kafka.TopicPartition(*partition): OffsetAndMetadata(committed.offset, committed.metadata, None)
            for partition, committed in offsets.items()
        }
        return _by_partition(self._admin.alter_group_offsets(group_id, theirs))

    def delete_groups(self, *group_ids: str) -> dict[str, str]:
        """DeleteGroups; kafka-python answers with the names of its exception classes."""
        deleted = self._admin.delete_groups(list(group_ids))
        return {
            group_id: NONE if answer == "OK" else _name(getattr(kafka.errors, answer))
            for group_id, answer in deleted.items()
        }

    def delete_offsets(self, group_id: str, partitions: Collection[TopicPartition]) -> dict[TopicPartition, str]:
        """OffsetDelete; kafka-python raises an error of the whole request."""
        try:
            return _by_partition(self._admin.delete_group_offsets(group_id, _theirs(partitions)))
        except KafkaError as error:
            return dict.fromkeys(partitions, _name(error))

    def remove_all_members(self, group_id: str) -> None:
        """One LeaveGroup with the ids that DescribeGroups told."""
        (group,) = self._admin.describe_groups([group_id]).values()
        leaving = [MemberToRemove(member_id=member["member_id"]) for member in group["members"]]
        removed = self._admin.remove_group_members(group_id, leaving)
        assert {_name(error) for error in removed.values()} == {NONE}, removed

    def remove_instance(self, group_id: str, group_instance_id: str) -> str:
        """LeaveGroup by instance id alone."""
        leaving = MemberToRemove(group_instance_id=group_instance_id)
        (error,) = self._admin.remove_group_members(group_id, [leaving]).values()
        return _name(error)


def _name(error: Any) -> str:
    return ErrorCode(error.errno).name


def _theirs(partitions: Collection[TopicPartition]) -> list[Any]:
    return [kafka.TopicPartition(*partition) for partition in partitions]


def _by_partition(errors: Mapping[Any, Any]) -> dict[TopicPartition, str]:
    return {TopicPartition(*partition): _name(error) for partition, error in errors.items()}


def _description(group: Any) -> GroupDescription:
    members = [
        MemberDescription(
            member["member_id"],
            member["group_instance_id"],
            member["client_id"],
            member["client_host"],
            _assignment(member["member_assignment"]),
        )
        for member in group["members"]
    ]
    return GroupDescription(group["group_state"], group["protocol_data"], None, tuple(members))


def _assignment(decoded: Any) -> frozenset[TopicPartition]:
    """Of the decoded ConsumerProtocolAssignment; empty bytes stay as they are."""
    topics = decoded["assigned_partitions"] if decoded else ()
    return frozenset(TopicPartition(topic["topic"], part) for topic in topics for part in topic["partitions"])
