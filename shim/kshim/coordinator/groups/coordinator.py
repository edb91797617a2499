"""The group coordinator as the broker sees it: its APIs, and what its shards do."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from kshim.coordinator.catalog import TopicCatalog
from kshim.coordinator.deadlines import Key
from kshim.coordinator.groups import delete_groups, describe_groups, list_groups
from kshim.coordinator.groups.classic import join_group, leave_group, rebalance, sync_group
from kshim.coordinator.groups.classic.heartbeat import heartbeat
from kshim.coordinator.groups.classic.lost_members import tell_if_lost
from kshim.coordinator.groups.config import GroupConfig, SettingsOf, ShareSettingsOf, StreamsSettingsOf
from kshim.coordinator.groups.consumer import consumer_group_describe, consumer_group_heartbeat, removal
from kshim.coordinator.groups.consumer.lookups import expressions_resolved
from kshim.coordinator.groups.expiry import expire, forget_topics
from kshim.coordinator.groups.loading import finish_load, release_parked
from kshim.coordinator.groups.offsets import offset_commit, offset_delete, offset_fetch
from kshim.coordinator.groups.replay import Replay
from kshim.coordinator.groups.shard import Shard
from kshim.coordinator.groups.share import share_offsets
from kshim.coordinator.groups.share.group import ShareGroup
from kshim.coordinator.groups.share.initialization import forget_deleted_topics
from kshim.coordinator.groups.share.share_group_describe import share_group_describe
from kshim.coordinator.groups.share.share_group_heartbeat import share_group_heartbeat, share_session_expired
from kshim.coordinator.groups.streams.group import INITIAL_DELAY, StreamsGroup
from kshim.coordinator.groups.streams.streams_group_describe import streams_group_describe
from kshim.coordinator.groups.streams.streams_group_heartbeat import (
    initial_delay_over,
    remove_expired,
    streams_group_heartbeat,
)
from kshim.coordinator.runtime import CoordinatorRuntime, in_all_shards, in_many_shards, in_one_shard
from kshim.coordinator.step import OFFSETS_TOPIC, Append, Lookup, Now, RequestContext, Step, Ticket
from kshim_protocol.errors import ErrorCode, KafkaError
from kshim_protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kshim_protocol.messages.join_group import JoinGroupRequest
from kshim_protocol.messages.leave_group import LeaveGroupRequest
from kshim_protocol.messages.offset_commit import OffsetCommitRequest
from kshim_protocol.messages.offset_delete import OffsetDeleteRequest
from kshim_protocol.messages.sync_group import SyncGroupRequest
from kshim_protocol.records.control import ControlType, EndTransactionMarker, build_end_transaction_batch

if TYPE_CHECKING:
    from kshim_protocol.messages.alter_share_group_offsets import AlterShareGroupOffsetsRequest
    from kshim_protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
    from kshim_protocol.messages.delete_share_group_offsets import DeleteShareGroupOffsetsRequest
    from kshim_protocol.messages.describe_share_group_offsets import DescribeShareGroupOffsetsRequest
    from kshim_protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
    from kshim_protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
    from kshim_protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest
    from kshim_protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
    from kshim_protocol.schema import Request

    GroupRequest = (
        ConsumerGroupHeartbeatRequest
        | JoinGroupRequest
        | SyncGroupRequest
        | LeaveGroupRequest
        | OffsetCommitRequest
        | OffsetDeleteRequest
        | ShareGroupHeartbeatRequest
        | StreamsGroupHeartbeatRequest
        | AlterShareGroupOffsetsRequest
        | DeleteShareGroupOffsetsRequest
    )

Verify = Callable[[int], ErrorCode]
"""Whether a transaction may write to a partition of the offsets topic."""


def _group_id(_coordinator: GroupCoordinator, request: GroupRequest) -> str:
    return request.group_id


class GroupCoordinator(CoordinatorRuntime[Shard]):
    """Groups and their offsets, by partition of the offsets topic. `new_id` makes the UUID part of member ids.

    `settings_of`: those of groups of the new protocol that have some of their own; None: no group has.
    `require_expression` raises KafkaError for what is no regular expression of topics.
    """

    def __init__(
        self,
        config: GroupConfig,
        *,
        topics: TopicCatalog,
        new_id: Callable[[], str],
        settings_of: SettingsOf | None = None,
        share_settings_of: ShareSettingsOf | None = None,
        streams_settings_of: StreamsSettingsOf | None = None,
        require_expression: Callable[[str], None] = lambda expression: None,
    ) -> None:
        super().__init__(OFFSETS_TOPIC, config.offsets_topic_num_partitions)
        self.config = config
        self._topics = topics
        self._new_id = new_id
        self._settings_of = settings_of or config.consumer_settings
        self._share_settings_of = share_settings_of
        self._streams_settings_of = streams_settings_of
        self._require_expression = require_expression

    # APIs; each is described by the function that answers it

    join_group: Final = in_one_shard(_group_id, join_group.join_group)
    sync_group: Final = in_one_shard(_group_id, sync_group.sync_group)
    leave_group: Final = in_one_shard(_group_id, leave_group.leave_group)
    offset_commit: Final = in_one_shard(_group_id, offset_commit.offset_commit)
    offset_delete: Final = in_one_shard(_group_id, offset_delete.offset_delete)
    offset_fetch: Final = in_many_shards(offset_fetch.offset_fetch)
    describe_groups: Final = in_many_shards(describe_groups.describe_groups)
    delete_groups: Final = in_many_shards(delete_groups.delete_groups)
    list_groups: Final = in_all_shards(list_groups.list_groups)

    consumer_group_describe: Final = in_many_shards(consumer_group_describe.consumer_group_describe)
    consumer_group_heartbeat: Final = in_one_shard(_group_id, consumer_group_heartbeat.consumer_group_heartbeat)

    share_group_describe: Final = in_many_shards(share_group_describe)
    share_group_heartbeat: Final = in_one_shard(_group_id, share_group_heartbeat)
    alter_share_group_offsets: Final = in_one_shard(_group_id, share_offsets.alter_share_group_offsets)
    delete_share_group_offsets: Final = in_one_shard(_group_id, share_offsets.delete_share_group_offsets)

    streams_group_describe: Final = in_many_shards(streams_group_describe)
    streams_group_heartbeat: Final = in_one_shard(_group_id, streams_group_heartbeat)

    def refuse(
        self, error: KafkaError, request: Request[Any], context: RequestContext, ticket: Ticket, step: Step
    ) -> None:
        """As any coordinator does. That a member which was lost is still there is told once."""
        super().refuse(error, request, context, ticket, step)
        if isinstance(request, HeartbeatRequest | SyncGroupRequest):
            shard = self._homes.get(request.group_id)
            if shard is not None:
                tell_if_lost(shard, request, error, context, step)

    def describe_share_group_offsets(
        self,
        request: DescribeShareGroupOffsetsRequest,
        context: RequestContext,
        ticket: Ticket,
        end_offset: share_offsets.EndOffset,
    ) -> Step:
        """See `share_offsets.py`."""
        step = self.begin()

        def find(group_id: str) -> Shard:
            return self.find(group_id, context, step)

        share_offsets.describe_share_group_offsets(find, end_offset, request, context, ticket, step)
        return step

    def heartbeat(self, request: HeartbeatRequest, context: RequestContext, ticket: Ticket) -> Step:
        """See `heartbeat.py`. What `in_one_shard` does, without hashing the group id: most requests are Heartbeats."""
        step = self.step = Step()
        shard = self._homes.get(request.group_id)
        try:
            if shard is None or context.leads_shard is not None:
                shard = self.find(request.group_id, context, step)
            else:
                step.at_work = shard.partition
                step.partitions = shard.alone
            step.replies.append((ticket, heartbeat(shard, request, context.now)))
        except KafkaError as error:
            self.refuse(error, request, context, ticket, step)
        return step

    def heartbeat_at_home(self, request: HeartbeatRequest, now: Now) -> HeartbeatResponse | None:
        """The same where a node leads all shards, without a Step; None: it has to be asked by `heartbeat`.

        Raises KafkaError as `heartbeat.py` does.
        """
        shard = self._homes.get(request.group_id)
        return None if shard is None else heartbeat(shard, request, now)

    def offset_fetch_at_home(self, request: OffsetFetchRequest, api_version: int) -> OffsetFetchResponse:
        """What `offset_fetch` answers where a node leads all shards, without a Step.

        Raises KeyError for a group that is not in use or not loaded, and KafkaError as `offset_fetch.py` does: nothing is done.
        """
        return offset_fetch.fetched(self._homes.__getitem__, request, api_version)

    def home_of(self, group_id: str) -> Shard | None:
        """The shard of a group that is in use, where that is loaded."""
        return self._homes.get(group_id)

    def txn_offset_commit(
        self, request: TxnOffsetCommitRequest, context: RequestContext, ticket: Ticket, verify: Verify
    ) -> Step:
        """See `txn_offset_commit.py`. `verify` is asked whether the producer's transaction has that partition."""
        from kshim.coordinator.groups.offsets import txn_offset_commit as commit
        from kshim.coordinator.groups.offsets.requested_topics import any_exists

        step = self.begin()
        try:
            shard = self.find(request.group_id, context, step)
        except KafkaError as error:
            self.refuse(error, request, context, ticket, step)
            return step
        topics = commit.topics_of(shard.topics, request, context.api_version)
        try:
            if any_exists(topics):
                if not request.group_id:
                    raise KafkaError(ErrorCode.INVALID_GROUP_ID)
                shard.require_loaded()
                error_code = verify(shard.partition)
                if error_code is not ErrorCode.NONE:
                    raise KafkaError(error_code)
                commit.txn_offset_commit(shard, request, topics, context, ticket, step)
            else:
                step.reply(ticket, commit.response_of(topics, ErrorCode.NONE, context.api_version))
        except KafkaError as error:
            step.reply(ticket, commit.response_of(topics, error.code, context.api_version))
        return step

    # From within the broker

    def end_transaction(
        self,
        partition: int,
        *,
        producer_id: int,
        producer_epoch: int,
        is_commit: bool,
        coordinator_epoch: int,
        now: Now,
        ended: Callable[[ErrorCode], None],
    ) -> Step:
        """End a producer's transaction in a partition of the offsets topic; the pending offsets there go with it.

        `ended` is called when the marker was written, or with the error of the append. Raises KafkaError:
        COORDINATOR_LOAD_IN_PROGRESS, and the error that `unload` was given.
        """
        shard = self._serving(partition, now)
        shard.require_loaded()
        step = self.begin()
        step.works_on(partition)
        batch = build_end_transaction_batch(
            EndTransactionMarker(ControlType.COMMIT if is_commit else ControlType.ABORT, coordinator_epoch),
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            timestamp_ms=now.wall_ms,
        )

        def written(_base_offset: int, _step: Step) -> None:
            if is_commit:
                shard.offsets.commit_transaction(producer_id)
            else:
                shard.offsets.abort_transaction(producer_id)
            ended(ErrorCode.NONE)

        def failed(error: ErrorCode, _step: Step) -> None:
            ended(error)

        step.appends.append(Append(partition, batch, written, failed, now_ms=now.wall_ms))
        return step

    def expressions_resolved(self, lookup: Lookup, found: Mapping[str, frozenset[str]]) -> Step:
        """What the broker found for a `Lookup` of an earlier Step: topics by expression. Those it has not were not found."""
        step = self.begin()
        shard = self._homes.get(lookup.group_id)
        if shard is not None:
            step.works_on(shard.partition)
            expressions_resolved(shard, lookup, found, step)
        return step

    def topics_deleted(self, names: Iterable[str], now: Now) -> Iterator[Step]:
        """Topics are gone: forget what was committed for them, in Steps of about a millisecond's work.

        Each must be applied before the next is asked for; other inputs may come in between. As in Kafka, a shard that
        is loading keeps them, and what is left of them in a shard that is unloaded meanwhile stays.
        """
        deleted = frozenset(names)
        for partition in sorted(self._shards):
            shard = self._shards.get(partition)
            if shard is None or shard.is_loading:
                continue
            begin = partial(self._begin_in, partition)
            for step in chain(forget_topics(shard, deleted, now, begin), forget_deleted_topics(shard, now, begin)):
                yield step
                if self._shards.get(partition) is not shard:
                    break  # it was given up meanwhile

    def _begin_in(self, partition: int) -> Step:
        step = self.begin()
        step.works_on(partition)
        return step

    def shard_of(self, group_id: str) -> Shard | None:
        """The shard a group lives or would live in, for inspection; None when it has not been used yet."""
        home = self._homes.get(group_id)
        return home if home is not None else self._shards.get(self.partition_for(group_id))

    def group_ids(self) -> list[str]:
        """The groups of the shards that are loaded, for inspection."""
        return list(self._homes)

    # Shards

    def _new_shard(self, partition: int, *, is_loading: bool) -> Shard:
        return Shard(
            partition,
            config=self.config,
            topics=self._topics,
            new_id=self._new_id,
            settings_of=self._settings_of,
            share_settings_of=self._share_settings_of,
            streams_settings_of=self._streams_settings_of,
            require_expression=self._require_expression,
            deadlines=self._deadlines,
            homes=self._homes,
            is_loading=is_loading,
        )

    def _new_replay(self, shard: Shard) -> Replay:
        return Replay(shard)

    def _activated(self, shard: Shard, now: Now) -> None:
        self._homes.update(dict.fromkeys(shard.groups, shard))
        self._schedule_expiry(shard, now)

    def _loaded(self, shard: Shard, now: Now, step: Step) -> None:
        finish_load(shard, now, step)

    def _unload(self, shard: Shard, error: ErrorCode, step: Step) -> None:
        release_parked(shard, error, step)
        self._deadlines.cancel_where(lambda key: self._is_of(key, shard))

    def _is_of(self, key: Key, shard: Shard) -> bool:
        """Whether a deadline belongs to `shard`."""
        if key[0] == "expiry":
            return int(key[1]) == shard.partition
        home = self._homes.get(key[1])
        return home is shard or (home is None and self.partition_for(key[1]) == shard.partition)

    # Time

    def _schedule_expiry(self, shard: Shard, now: Now) -> None:
        key = ("expiry", f"{shard.partition:05}")
        self._deadlines.set(key, self.next_check(now.mono_ms, self.config.offsets_retention_check_interval_ms))

    def _shard_of_deadline(self, key: Key) -> Shard | None:
        return self._shards.get(int(key[1])) if key[0] == "expiry" else self._homes.get(key[1])

    def _fire(self, key: Key, shard: Shard, now: Now, step: Step) -> None:
        if key[0] == "expiry":
            self._schedule_expiry(shard, now)
            expire(shard, now, step)
            return
        classic = shard.classic_groups.get(key[1])
        match key:
            case ("join", _) if classic is not None:
                rebalance.join_timer_fired(shard, classic, now, step)
            case ("sync", _) if classic is not None:
                rebalance.sync_timer_fired(shard, classic, now, step)
            case ("session", _, member_id) if classic is not None:
                rebalance.session_expired(shard, classic, member_id, now, step)
            case (name, group_id) if name == INITIAL_DELAY:
                initial_delay_over(shard, group_id, now, step)
            case (("session" | "rebalance") as timer, group_id, member_id) if isinstance(
                shard.groups[group_id], StreamsGroup
            ):
                remove_expired(shard, shard.streams_group(group_id), member_id, timer, now, step)
            case ("session", group_id, member_id) if isinstance(shard.groups[group_id], ShareGroup):
                share_session_expired(shard, shard.share_group(group_id), member_id, now, step)
            case ("session", group_id, member_id):
                removal.session_expired(shard, shard.consumer_group(group_id), member_id, now, step)
            case ("rebalance", group_id, member_id):
                removal.rebalance_expired(shard, shard.consumer_group(group_id), member_id, now, step)
            case ("join", group_id, member_id):
                removal.join_expired(shard, shard.consumer_group(group_id), member_id, now, step)
            case ("sync", group_id, member_id):
                removal.sync_expired(shard, shard.consumer_group(group_id), member_id, now, step)
            case _:
                raise AssertionError(f"deadline of nothing: {key}")
