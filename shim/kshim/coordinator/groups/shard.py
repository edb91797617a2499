"""One partition of the offsets topic in memory: its groups, its offsets, and how records change them."""

from __future__ import annotations

from binascii import b2a_base64
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from kshim.coordinator.catalog import TopicCatalog
from kshim.coordinator.deadlines import Deadlines
from kshim.coordinator.groups.classic.group import Group
from kshim.coordinator.groups.classic.state import GroupState
from kshim.coordinator.groups.config import (
    GroupConfig,
    SettingsOf,
    ShareSettings,
    ShareSettingsOf,
    StreamsSettings,
    StreamsSettingsOf,
)
from kshim.coordinator.groups.consumer.group import ConsumerGroup
from kshim.coordinator.groups.consumer.updates import GroupEpoch, Update, is_tombstone
from kshim.coordinator.groups.kinds import AnyGroup, Pair
from kshim.coordinator.groups.metadata_hash import TopicHashes
from kshim.coordinator.groups.offsets.committed_offsets import CommittedOffset
from kshim.coordinator.groups.offsets.offset_rows import OffsetRows
from kshim.coordinator.groups.offsets.shard_offsets import Offsets
from kshim.coordinator.groups.share.group import ShareGroup
from kshim.coordinator.groups.share.updates import GroupEpoch as ShareGroupEpoch
from kshim.coordinator.groups.share.updates import ShareUpdate
from kshim.coordinator.groups.share.updates import is_tombstone as is_share_tombstone
from kshim.coordinator.groups.streams.group import StreamsGroup
from kshim.coordinator.groups.streams.updates import GroupEpoch as StreamsGroupEpoch
from kshim.coordinator.groups.streams.updates import StreamsUpdate
from kshim.coordinator.groups.streams.updates import is_tombstone as is_streams_tombstone
from kshim.coordinator.runtime import CoordinatorShard
from kshim.coordinator.step import OFFSETS_TOPIC, Append, Now, Step
from kshim_protocol.errors import ErrorCode, KafkaError
from kshim_protocol.internal.group_metadata import GroupMetadataValue
from kshim_protocol.records.batch import AlikeRecords, build_records_batch

_UUID_DIGITS: Final = 32
_URL_SAFE: Final = str.maketrans("+/", "-_")


def _defaults(_group_id: str) -> ShareSettings:
    return ShareSettings()


def _streams_defaults(_group_id: str) -> StreamsSettings:
    return StreamsSettings()


class Shard(CoordinatorShard):
    """Groups and offsets of one offsets partition.

    The `put_` and `forget_` methods and `apply_update` are what records mean: replay calls them, and so does a live
    append once it is in the log. Nothing else changes what they change.

    `classic_groups` are those of `groups` that are classic: what a Heartbeat looks its group up in.
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
        share_settings_of: ShareSettingsOf | None = None,
        streams_settings_of: StreamsSettingsOf | None = None,
        require_expression: Callable[[str], None] = lambda expression: None,
    ) -> None:
        super().__init__(partition, deadlines, is_loading=is_loading)
        self.config = config
        self.topics = topics
        self.new_id = new_id
        self.settings_of = settings_of or config.consumer_settings
        self.share_settings_of = share_settings_of or _defaults
        self.streams_settings_of = streams_settings_of or _streams_defaults
        self.require_expression = require_expression
        self.hash_of_topics = TopicHashes(topics, config.broker_rack).of_group
        self.homes = homes  # the coordinator's way from a group id to its shard; loading shards are not in there
        self.groups: dict[str, AnyGroup] = {}
        self.classic_groups: dict[str, Group] = {}
        self.offsets = Offsets()

    def append(
        self,
        step: Step,
        pairs: Sequence[Pair],
        now: Now,
        *,
        written: Callable[[int, Step], None],
        failed: Callable[[ErrorCode, Step], None],
    ) -> None:
        """Have `pairs` (at least one) written as one batch, stamped with `now`."""
        self.append_all(step, (pairs,), now, written=written, failed=failed)

    def append_all(
        self,
        step: Step,
        records: Sequence[Sequence[Pair] | AlikeRecords],
        now: Now,
        *,
        written: Callable[[int, Step], None],
        failed: Callable[[ErrorCode, Step], None],
        producer: tuple[int, int] | None = None,
    ) -> None:
        """The same for several runs of records. With a `producer` (id, epoch) they are part of that one's transaction."""
        if producer is None:
            batch = build_records_batch(records, now.wall_ms)
        else:
            producer_id, producer_epoch = producer
            batch = build_records_batch(
                records, now.wall_ms, producer_id=producer_id, producer_epoch=producer_epoch, is_transactional=True
            )
        step.appends.append(Append(self.partition, batch, written, failed))

    def consumer_group(self, group_id: str) -> ConsumerGroup:
        """A group of the new protocol. Raises KafkaError: GROUP_ID_NOT_FOUND."""
        group = self.groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            return group
        sentence = f"Group {group_id} not found." if group is None else f"Group {group_id} is not a consumer group."
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, sentence)

    def share_group(self, group_id: str) -> ShareGroup:
        """A share group. Raises KafkaError: GROUP_ID_NOT_FOUND."""
        group = self.groups.get(group_id)
        if isinstance(group, ShareGroup):
            return group
        sentence = f"Group {group_id} not found." if group is None else f"Group {group_id} is not a share group."
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, sentence)

    def streams_group(self, group_id: str) -> StreamsGroup:
        """A streams group. Raises KafkaError: GROUP_ID_NOT_FOUND."""
        group = self.groups.get(group_id)
        if isinstance(group, StreamsGroup):
            return group
        sentence = f"Group {group_id} not found." if group is None else f"Group {group_id} is not a streams group."
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, sentence)

    def new_short_id(self) -> str:
        """An id of a member that brings none, as Kafka makes it in groups of the new protocol: a UUID in URL-safe base64.

        None begins with a hyphen, so that no tool takes it for an option.
        """
        while True:
            text = self.new_id()
            digits = text.replace("-", "")
            if len(digits) != _UUID_DIGITS:
                return text
            short_id = b2a_base64(bytes.fromhex(digits), newline=False).decode().rstrip("=").translate(_URL_SAFE)
            if not short_id.startswith("-"):
                return short_id

    # What records mean

    def put_group(self, group_id: str, value: GroupMetadataValue) -> None:
        """A group record: the group is what it says, whatever it was before. Its offsets stay."""
        group = Group(group_id, self.partition, GroupState.STABLE if value.members else GroupState.EMPTY)
        group.apply_metadata(value)
        group.read_topics()
        self._add(group)

    def forget_group(self, group_id: str) -> None:
        """The tombstone of a classic group. Offsets have their own."""
        if group_id in self.classic_groups:
            self.end_group(group_id)

    def apply_update(self, group_id: str, update: Update) -> None:
        """A record of a group of the new protocol. Any of them may be the first that compaction left of it."""
        group = self.groups.get(group_id)
        if isinstance(update, GroupEpoch) and update.value is None:
            if isinstance(group, ConsumerGroup):
                self.end_group(group_id)
            return
        if not isinstance(group, ConsumerGroup):
            if is_tombstone(update):
                return
            group = ConsumerGroup(group_id, self.partition)
            self._add(group)
        group.apply(update)

    def apply_share_update(self, group_id: str, update: ShareUpdate) -> None:
        """A record of a share group. Any of them may be the first that compaction left of it."""
        group = self.groups.get(group_id)
        if isinstance(update, ShareGroupEpoch) and update.value is None:
            if isinstance(group, ShareGroup):
                self.end_group(group_id)
            return
        if not isinstance(group, ShareGroup):
            if is_share_tombstone(update):
                return
            group = ShareGroup(group_id, self.partition)
            self._add(group)
        group.apply(update)

    def apply_streams_update(self, group_id: str, update: StreamsUpdate) -> None:
        """A record of a streams group. Any of them may be the first that compaction left of it."""
        group = self.groups.get(group_id)
        if isinstance(update, StreamsGroupEpoch) and update.value is None:
            if isinstance(group, StreamsGroup):
                self.end_group(group_id)
            return
        if not isinstance(group, StreamsGroup):
            if is_streams_tombstone(update):
                return
            group = StreamsGroup(group_id, self.partition)
            self._add(group)
        group.apply(update)

    def end_group(self, group_id: str) -> None:
        """All tombstones of a group of any kind. Offsets have their own."""
        group = self.groups.pop(group_id)
        self.classic_groups.pop(group_id, None)
        self.homes.pop(group_id, None)
        for key in group.deadline_keys():
            self.deadlines.cancel(key)

    def require_group(self, group_id: str) -> None:
        """There was an offset record for the group: if it is not known yet it is made, Empty and without protocol type."""
        if group_id not in self.groups:
            self._add(Group(group_id, self.partition))

    def put_offset(self, group_id: str, topic: str, partition: int, offset: CommittedOffset) -> None:
        """An offset record."""
        self.require_group(group_id)
        self.offsets.put(group_id, topic, partition, offset)

    def put_offsets(self, group_id: str, topic: str, offsets: Mapping[int, CommittedOffset] | OffsetRows) -> None:
        """Offset records of one topic, by partition."""
        if group_id not in self.groups:
            self.require_group(group_id)
        self.offsets.put_all(group_id, topic, offsets)

    def put_pending_offset(
        self, producer_id: int, group_id: str, topic: str, partition: int, offset: CommittedOffset
    ) -> None:
        """An offset record inside a transaction."""
        self.require_group(group_id)
        self.offsets.put_pending(producer_id, group_id, topic, partition, offset)

    def forget_offset(self, group_id: str, topic: str, partition: int) -> None:
        """An offset tombstone."""
        self.offsets.remove(group_id, topic, partition)

    def _add(self, group: Group | ConsumerGroup | ShareGroup | StreamsGroup) -> None:
        group_id = group.group_id
        self.groups[group_id] = group
        if isinstance(group, Group):
            self.classic_groups[group_id] = group
        else:
            self.classic_groups.pop(group_id, None)
        if not self.is_loading:
            self.homes[group_id] = self
