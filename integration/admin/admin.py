"""What the admin suite needs of an admin client. One adapter a client, in this folder."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple, Protocol

from integration.support.client import TopicPartition
from kshim_protocol.errors import ErrorCode

NONE = ErrorCode.NONE.name


class AdminError(Exception):
    """A request that the broker refused as a whole. Its text is Kafka's name of the error (`GROUP_ID_NOT_FOUND`)."""


class GroupListing(NamedTuple):
    """A group as ListGroups shows it."""

    state: str
    """`Stable`, `Empty`, ..."""
    type: str
    """`classic` or `consumer`."""
    is_simple: bool
    """Whether it has no protocol type: it commits offsets and has never had a member."""


class MemberDescription(NamedTuple):
    """A member as DescribeGroups shows it."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    host: str
    assignment: frozenset[TopicPartition]


class GroupDescription(NamedTuple):
    """A group as DescribeGroups shows it."""

    state: str
    protocol: str
    """The assignor; empty where there is none."""
    coordinator: str | None
    """`host:port`; None if this client does not tell."""
    members: tuple[MemberDescription, ...]


class Committed(NamedTuple):
    """A committed offset."""

    offset: int
    metadata: str


class Admin(Protocol):
    """An admin client, connected to one broker. Error names are Kafka's; `NONE` is success."""

    def list_groups(self, *, states: Collection[str] = (), types: Collection[str] = ()) -> Mapping[str, GroupListing]:
        """All groups by id, or those in one of these states and of one of these types."""
        ...

    def describe(self, *group_ids: str) -> Mapping[str, GroupDescription]:
        """Groups by id. Raises AdminError for a group that the client reports as an error."""
        ...

    def list_offsets(
        self, groups: Mapping[str, Collection[TopicPartition] | None]
    ) -> Mapping[str, Mapping[TopicPartition, Committed]]:
        """The committed offsets of each group: of these partitions, or of all (None). Without one: left out."""
        ...

    def alter_offsets(self, group_id: str, offsets: Mapping[TopicPartition, Committed]) -> Mapping[TopicPartition, str]:
        """Commit in the place of the group. The error name of each partition."""
        ...

    def delete_groups(self, *group_ids: str) -> Mapping[str, str]:
        """Delete empty groups. The error name of each."""
        ...


class OffsetDeletingAdmin(Admin, Protocol):
    """An admin client that has OffsetDelete."""

    def delete_offsets(self, group_id: str, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, str]:
        """Forget committed offsets. The error name of each partition, which may be that of the whole request."""
        ...


class MemberRemovingAdmin(Admin, Protocol):
    """An admin client that has LeaveGroup for members that are not its own."""

    def remove_all_members(self, group_id: str) -> None:
        """Remove every member that the group has."""
        ...

    def remove_instance(self, group_id: str, group_instance_id: str) -> str:
        """Remove a static member. Its error name."""
        ...
