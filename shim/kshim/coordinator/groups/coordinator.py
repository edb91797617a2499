"""The group coordinator as the broker sees it: one method an API, time, loading and unloading of shards."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, TypeVar

from kshim.coordinator.catalog import TopicCatalog
from kshim.coordinator.deadlines import Deadlines, Key
from kshim.coordinator.groups.classic import rebalance
from kshim.coordinator.groups.classic.heartbeat import heartbeat
from kshim.coordinator.groups.classic.join_group import join_group
from kshim.coordinator.groups.classic.leave_group import leave_group
from kshim.coordinator.groups.classic.sync_group import sync_group
from kshim.coordinator.groups.config import GroupConfig
from kshim.coordinator.groups.delete_groups import delete_groups
from kshim.coordinator.groups.describe_groups import describe_groups
from kshim.coordinator.groups.expiry import expire, forget_topics
from kshim.coordinator.groups.list_groups import list_groups
from kshim.coordinator.groups.loading import finish_load, release_parked
from kshim.coordinator.groups.offsets.offset_commit import offset_commit
from kshim.coordinator.groups.offsets.offset_delete import offset_delete
from kshim.coordinator.groups.offsets.offset_fetch import offset_fetch
from kshim.coordinator.groups.replay import Replay, replay
from kshim.coordinator.groups.shard import Shard
from kshim.coordinator.partitioner import partition_for
from kshim.coordinator.step import Append, Now, RequestContext, Step, Ticket
from kshim_protocol.errors import ErrorCode, KafkaError
from kshim_protocol.messages.delete_groups import DeleteGroupsRequest
from kshim_protocol.messages.describe_groups import DescribeGroupsRequest
from kshim_protocol.messages.heartbeat import HeartbeatRequest
from kshim_protocol.messages.join_group import JoinGroupRequest
from kshim_protocol.messages.leave_group import LeaveGroupRequest
from kshim_protocol.messages.list_groups import ListGroupsRequest
from kshim_protocol.messages.offset_commit import OffsetCommitRequest
from kshim_protocol.messages.offset_delete import OffsetDeleteRequest
from kshim_protocol.messages.offset_fetch import OffsetFetchRequest
from kshim_protocol.messages.sync_group import SyncGroupRequest
from kshim_protocol.records.control import ControlType, EndTransactionMarker, build_end_transaction_batch

if TYPE_CHECKING:
    from kshim_protocol.messages.txn_offset_commit import TxnOffsetCommitRequest


R = TypeVar("R", JoinGroupRequest, SyncGroupRequest, LeaveGroupRequest, OffsetCommitRequest, OffsetDeleteRequest)
Work = Callable[[Shard, R, RequestContext, Ticket, Step], None]
Verify = Callable[[int], ErrorCode]
"""Whether a transaction may write to a partition of the offsets topic."""


def _nothing(_partition: int) -> None:
    pass


class GroupCoordinator:
    """All shards of the offsets topic and their timers.

    Every input is synchronous and returns a `Step`, which must be applied before the next input. Errors are answered,
    never raised: an exception that does come out is a defect, after which `partition_at_work` names the shard to
    unload and load again (None: none is touched). Whoever applies a Step sets it to each append's partition.
    `new_id` makes the UUID part of member ids.

    A shard exists from its first use on and is then active at once, unless `begin_load` was called for it.
    `on_load_wanted(partition)` is called when somebody asks for one that is still loading.
    """

    def __init__(self, config: GroupConfig, *, topics: TopicCatalog, new_id: Callable[[], str]) -> None:
        self.config = config
        self.partition_at_work: int | None = None
        self.on_load_wanted: Callable[[int], object] = _nothing
        self._topics = topics
        self._new_id = new_id
        self._deadlines = Deadlines()
        self._shards: dict[int, Shard] = {}
        self._unloaded: dict[int, ErrorCode] = {}
        self._homes: dict[str, Shard] = {}

    # Groups

    def join_group(self, request: JoinGroupRequest, context: RequestContext, ticket: Ticket) -> Step:
        """See `join_group.py`. Parked until the join phase ends."""
        return self._of_its_shard(join_group, request, context, ticket)

    def sync_group(self, request: SyncGroupRequest, context: RequestContext, ticket: Ticket) -> Step:
        """See `sync_group.py`. Parked until the leader's assignments are written."""
        return self._of_its_shard(sync_group, request, context, ticket)

    def heartbeat(self, request: HeartbeatRequest, context: RequestContext, ticket: Ticket) -> Step:
        """See `heartbeat.py`."""
        step = Step()
        shard = self._homes.get(request.group_id)  # the hot path: no hash of the group id
        try:
            if shard is None or context.leads_group_shard is not None:
                shard = self._shard(request.group_id, context, step)
            self.partition_at_work = shard.partition
            step.partitions = shard.alone
            step.replies.append((ticket, heartbeat(shard, request, context.now)))
        except KafkaError as error:
            step.reply(ticket, request.error_response(error.code, context.api_version))
        return step

    def leave_group(self, request: LeaveGroupRequest, context: RequestContext, ticket: Ticket) -> Step:
        """See `leave_group.py`."""
        return self._of_its_shard(leave_group, request, context, ticket)

    # Offsets

    def offset_commit(self, request: OffsetCommitRequest, context: RequestContext, ticket: Ticket) -> Step:
        """See `offset_commit.py`."""
        return self._of_its_shard(offset_commit, request, context, ticket)

    def offset_fetch(self, request: OffsetFetchRequest, context: RequestContext, ticket: Ticket) -> Step:
        """See `offset_fetch.py`."""
        step = Step()
        try:
            step.reply(ticket, offset_fetch(self._finder(context, step), request, context))
        except KafkaError as error:
            step.reply(ticket, request.error_response(error.code, context.api_version))
        return step

    def offset_delete(self, request: OffsetDeleteRequest, context: RequestContext, ticket: Ticket) -> Step:
        """See `offset_delete.py`."""
        return self._of_its_shard(offset_delete, request, context, ticket)

    def txn_offset_commit(
        self, request: TxnOffsetCommitRequest, context: RequestContext, ticket: Ticket, verify: Verify
    ) -> Step:
        """See `txn_offset_commit.py`. `verify` is asked whether the producer's transaction has that partition."""
        from kshim.coordinator.groups.offsets import txn_offset_commit as commit

        step = Step()
        try:
            shard = self._shard(request.group_id, context, step)
        except KafkaError as error:
            step.reply(ticket, request.error_response(error.code, context.api_version))
            return step
        try:
            if commit.exists(shard, request):
                if not request.group_id:
                    raise KafkaError(ErrorCode.INVALID_GROUP_ID)
                shard.require_loaded()
                error_code = verify(shard.partition)
                if error_code is not ErrorCode.NONE:
                    raise KafkaError(error_code)
                commit.txn_offset_commit(shard, request, context, ticket, step)
            else:
                step.reply(ticket, commit.response_of(shard, request, ErrorCode.NONE, context.api_version))
        except KafkaError as error:
            step.reply(ticket, commit.response_of(shard, request, error.code, context.api_version))
        return step

    def end_transaction(
        self,
        partition: int,
        *,
        producer_id: int,
        producer_epoch: int,
        is_commit: bool,
        coordinator_epoch: int,
        now: Now,
    ) -> Append:
        """What to write to end a producer's transaction in a partition; the pending offsets there go with it.

        Raises KafkaError: COORDINATOR_LOAD_IN_PROGRESS, and what `unload` was told.
        """
        if partition in self._unloaded:
            raise KafkaError(self._unloaded[partition])
        shard = self._shards.get(partition)
        if shard is None:
            shard = self._make(partition, is_loading=False)
            self._schedule_expiry(shard, now)
        elif shard.is_loading:
            self.on_load_wanted(partition)
        shard.require_loaded()
        batch = build_end_transaction_batch(
            EndTransactionMarker(ControlType.COMMIT if is_commit else ControlType.ABORT, coordinator_epoch),
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            timestamp_ms=now.wall_ms,
        )
        offsets = shard.offsets

        def written(_base_offset: int, _step: Step) -> None:
            if is_commit:
                offsets.commit_transaction(producer_id)
            else:
                offsets.abort_transaction(producer_id)

        def failed(_error: ErrorCode, _step: Step) -> None:
            pass  # whoever asked for it asks again

        return Append(partition, batch, written, failed)

    # Administration

    def describe_groups(self, request: DescribeGroupsRequest, context: RequestContext, ticket: Ticket) -> Step:
        """See `describe_groups.py`."""
        step = Step()
        step.reply(ticket, describe_groups(self._finder(context, step), request, context))
        return step

    def list_groups(self, request: ListGroupsRequest, context: RequestContext, ticket: Ticket) -> Step:
        """See `list_groups.py`."""
        step = Step()
        leads = context.leads_group_shard
        indexes = sorted(self._shards if leads is None else filter(leads, self._shards))
        step.partitions = frozenset(indexes)
        try:
            step.reply(ticket, list_groups((self._shards[index] for index in indexes), request))
        except KafkaError as error:
            step.reply(ticket, request.error_response(error.code, context.api_version))
        return step

    def delete_groups(self, request: DeleteGroupsRequest, context: RequestContext, ticket: Ticket) -> Step:
        """See `delete_groups.py`."""
        step = Step()
        delete_groups(self._finder(context, step), request, context.now, ticket, step)
        return step

    def topics_deleted(self, names: Iterable[str], now: Now) -> Step:
        """Topics are gone: forget what was committed for them."""
        step = Step()
        deleted = tuple(names)
        for shard in self._active():
            forget_topics(shard, deleted, now, step)
        return step

    # Time

    def next_deadline(self) -> int | None:
        """When `advance` is next due, in monotonic ms: never too late, perhaps too early. None: nothing runs."""
        return self._deadlines.earliest()

    def advance(self, now: Now) -> Step:
        """Fire what is due, by (deadline, key), up to the first thing that has to be written.

        What follows depends on how that write ends. A step ends before another shard's timer, too, so that no shard
        waits for what another one wrote. So after applying it ask `next_deadline` again: it may still be in the past.
        """
        step = Step()
        self.partition_at_work = None
        while not step.appends:
            key = self._deadlines.first_due(now.mono_ms)
            if key is None:
                break
            shard = self._shards[int(key[1])] if key[0] == "expiry" else self._homes[key[1]]
            if step.partitions and step.partitions is not shard.alone:
                break
            self._deadlines.pop_due(now.mono_ms)
            self.partition_at_work = shard.partition
            step.partitions = shard.alone
            self._fire(key, shard, now, step)
        return step

    def _fire(self, key: Key, shard: Shard, now: Now, step: Step) -> None:
        if key[0] == "expiry":
            self._schedule_expiry(shard, now)
            expire(shard, now, step)
            return
        group = shard.groups[key[1]]
        match key:
            case ("join", _):
                rebalance.join_timer_fired(shard, group, now, step)
            case ("sync", _):
                rebalance.sync_timer_fired(shard, group, now, step)
            case ("session", _, member_id):
                rebalance.session_expired(shard, group, member_id, now, step)
            case _:
                raise AssertionError(f"deadline of nothing: {key}")

    # Shards

    def partition_for(self, group_id: str) -> int:
        """Partition of the offsets topic that holds `group_id`."""
        return partition_for(group_id, self.config.offsets_topic_num_partitions)

    def shard_of(self, group_id: str) -> Shard | None:
        """The shard a group lives or would live in, for inspection; None when it has not been used yet."""
        home = self._homes.get(group_id)
        return home if home is not None else self._shards.get(self.partition_for(group_id))

    def has_shard(self, partition: int) -> bool:
        """Whether a shard is there, loading ones included."""
        return partition in self._shards

    def begin_load(self, partition: int) -> None:
        """Refuse requests to this shard (COORDINATOR_LOAD_IN_PROGRESS) until `finish_load`. It must not be there."""
        assert partition not in self._shards, f"shard {partition} is there already"
        self._unloaded.pop(partition, None)
        self._make(partition, is_loading=True)

    def replay(self, partition: int, batches: Iterable[bytes]) -> None:
        """Feed a loading shard whole batches in offset order; may be called several times. Raises ProtocolError."""
        replay(self._loading(partition), batches)

    def begin_replay(self, partition: int) -> Replay:
        """The same in slices: what is returned is to be fed the log and then finished, before `finish_load`."""
        return Replay(self._loading(partition))

    def _loading(self, partition: int) -> Shard:
        shard = self._shards[partition]
        assert shard.is_loading, f"shard {partition} is not loading"
        return shard

    def finish_load(self, partition: int, now: Now) -> Step:
        """The shard has seen its whole log: it serves requests from now on."""
        step = Step()
        shard = self._loading(partition)
        shard.is_loading = False
        self._homes.update(dict.fromkeys(shard.groups, shard))
        self._schedule_expiry(shard, now)
        finish_load(shard, now, step)
        return step

    def unload(self, partition: int, error: ErrorCode = ErrorCode.NOT_COORDINATOR) -> Step:
        """Give a shard up; who waits in it is answered `error`, and so is everybody until `begin_load`.

        Works on a shard that a defect has left half changed.
        """
        step = Step()
        self._unloaded[partition] = error
        shard = self._shards.pop(partition, None)
        if shard is not None:
            release_parked(shard, error, step)
            self._deadlines.cancel_where(lambda key: self._is_of(key, shard))
            for group_id in [group_id for group_id, home in self._homes.items() if home is shard]:
                del self._homes[group_id]
        return step

    def _is_of(self, key: Key, shard: Shard) -> bool:
        """Whether a deadline belongs to `shard`."""
        if key[0] == "expiry":
            return int(key[1]) == shard.partition
        home = self._homes.get(key[1])
        return home is shard or (home is None and self.partition_for(key[1]) == shard.partition)

    def _of_its_shard(self, work: Work[R], request: R, context: RequestContext, ticket: Ticket) -> Step:
        """What `work` makes of a request in the shard of its group; a KafkaError is answered to all of the request."""
        step = Step()
        try:
            work(self._shard(request.group_id, context, step), request, context, ticket, step)
        except KafkaError as error:
            step.reply(ticket, request.error_response(error.code, context.api_version))
        return step

    def _shard(self, group_id: str, context: RequestContext, step: Step) -> Shard:
        """The shard of a group, made on first use; the step is of this shard. Raises KafkaError as `_found` does."""
        shard = self._found(group_id, context)
        step.partitions = shard.alone
        return shard

    def _finder(self, context: RequestContext, step: Step) -> Callable[[str], Shard]:
        """Finds shards; the step is of all that were found."""
        partitions: set[int] = set()
        step.partitions = partitions

        def find(group_id: str) -> Shard:
            shard = self._found(group_id, context)
            partitions.add(shard.partition)
            return shard

        return find

    def _found(self, group_id: str, context: RequestContext) -> Shard:
        """Raises KafkaError: NOT_COORDINATOR where another node leads it, and what `unload` was told."""
        shard = self._homes.get(group_id)
        leads = context.leads_group_shard
        if leads is not None and not leads(self.partition_for(group_id) if shard is None else shard.partition):
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        if shard is None:
            partition = self.partition_for(group_id)
            if partition in self._unloaded:
                raise KafkaError(self._unloaded[partition])
            shard = self._shards.get(partition)
            if shard is None:
                shard = self._make(partition, is_loading=False)
                self._schedule_expiry(shard, context.now)
            elif shard.is_loading:
                self.on_load_wanted(partition)
        self.partition_at_work = shard.partition
        return shard

    def _active(self) -> Iterator[Shard]:
        """Shards that are not loading, by partition."""
        for partition in sorted(self._shards):
            shard = self._shards[partition]
            if not shard.is_loading:
                self.partition_at_work = partition
                yield shard

    def _make(self, partition: int, *, is_loading: bool) -> Shard:
        shard = self._shards[partition] = Shard(
            partition,
            config=self.config,
            topics=self._topics,
            new_id=self._new_id,
            deadlines=self._deadlines,
            homes=self._homes,
            is_loading=is_loading,
        )
        return shard

    def _schedule_expiry(self, shard: Shard, now: Now) -> None:
        key = ("expiry", f"{shard.partition:05}")
        self._deadlines.set(key, now.mono_ms + self.config.offsets_retention_check_interval_ms)
