"""One partition of the offsets topic in memory: its groups, its offsets, and how records change them."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kshim.coordinator.catalog import TopicCatalog
from kshim.coordinator.deadlines import Deadlines
from kshim.coordinator.groups.classic.group import Group
from kshim.coordinator.groups.classic.state import GroupState
from kshim.coordinator.groups.config import GroupConfig, SettingsOf
from kshim.coordinator.groups.offsets.committed_offsets import CommittedOffset, Offsets
from kshim.coordinator.runtime import CoordinatorShard
from kshim.coordinator.step import OFFSETS_TOPIC, Append, Now, Step
from kshim_protocol.errors import ErrorCode
from kshim_protocol.internal.group_metadata import GroupMetadataValue
from kshim_protocol.records.batch import build_key_value_batch

Pair = tuple[bytes, bytes | None]
"""Key and value of a record; a value of None is a tombstone."""


class Shard(CoordinatorShard):
    """Groups and offsets of one offsets partition.

    The `put_` and `forget_` methods are what records mean: replay calls them, and so does a live append once it is in
    the log. Nothing else changes what they change.
    """

    topic = OFFSETS_TOPIC

    def __init__(
        self,
        partition: int,
        *,
        config: GroupConfig,
        topics: TopicCatalog,
        new_id: Callable[[], str],
        deadlines: Deadlines,
        homes: dict[str, Shard],
        is_loading: bool,
        settings_of: SettingsOf | None = None,
    ) -> None:
        super().__init__(partition, deadlines, is_loading=is_loading)
        self.config = config
        self.topics = topics
        self.new_id = new_id
        self.settings_of = settings_of or config.consumer_settings
        self.homes = homes  # the coordinator's way from a group id to its shard; loading shards are not in there
        self.groups: dict[str, Group] = {}
        self.offsets = Offsets()

    def append(
        self,
        step: Step,
        pairs: Iterable[Pair],
        now: Now,
        *,
        written: Callable[[int, Step], None],
        failed: Callable[[ErrorCode, Step], None],
        producer: tuple[int, int] = (-1, -1),
    ) -> None:
        """Have `pairs` (at least one) written as one batch, stamped with `now`.

        With a `producer` (id, epoch) it is part of that one's transaction.
        """
        producer_id, producer_epoch = producer
        batch = build_key_value_batch(
            pairs,
            now.wall_ms,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            is_transactional=producer_id >= 0,
        )
        step.appends.append(Append(self.partition, batch, written, failed))

    # What records mean

    def put_group(self, group_id: str, value: GroupMetadataValue) -> None:
        """A group record: the group is what it says, whatever it was before. Its offsets stay."""
        group = Group(group_id, self.partition, GroupState.STABLE if value.members else GroupState.EMPTY)
        group.apply_metadata(value)
        group.read_topics()
        self._add(group)

    def forget_group(self, group_id: str) -> None:
        """A group tombstone. Offsets have their own."""
        group = self.groups.pop(group_id, None)
        if group is None:
            return
        self.homes.pop(group_id, None)
        for key in (group.join_key, group.sync_key):
            self.deadlines.cancel(key)
        for member_id in (*group.members, *group.pending_joins):
            self.deadlines.cancel(("session", group_id, member_id))

    def require_group(self, group_id: str) -> None:
        """There was an offset record for the group: if it is not known yet it is made, Empty and without protocol type."""
        if group_id not in self.groups:
            self._add(Group(group_id, self.partition))

    def put_offset(self, group_id: str, topic: str, partition: int, offset: CommittedOffset) -> None:
        """An offset record."""
        self.require_group(group_id)
        self.offsets.put(group_id, topic, partition, offset)

    def put_pending_offset(
        self, producer_id: int, group_id: str, topic: str, partition: int, offset: CommittedOffset
    ) -> None:
        """An offset record inside a transaction."""
        self.require_group(group_id)
        self.offsets.put_pending(producer_id, group_id, topic, partition, offset)

    def forget_offset(self, group_id: str, topic: str, partition: int) -> None:
        """An offset tombstone."""
        self.offsets.remove(group_id, topic, partition)

    def _add(self, group: Group) -> None:
        self.groups[group.group_id] = group
        if not self.is_loading:
            self.homes[group.group_id] = self
