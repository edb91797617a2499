"""ShareFetch: what became of records, and more of them, at once or when there are some.

Source: Kafka's SharePartitionManager and DelayedShareFetch; what is answered when is that of a live 4.4.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kshim.broker.features import SHARE_VERSION
from kshim.broker.handlers.share.acknowledgements import Result, acknowledge_all, require_member, require_partition
from kshim.broker.handlers.share.reading import NOTHING, Run, end_of, read_batches
from kshim.broker.leader_checks import endpoints
from kshim.broker.request import PendingReply, answered, handles, needs_feature
from kshim.coordinator.step import RequestContext, Step
from kshim.partitions.fetch_purgatory import WaitingFetch
from kshim.share_partitions.acquisition import Limits
from kshim.share_partitions.share_sessions import CLOSE_EPOCH, OPEN_EPOCH, Place, ShareSession, next_epoch, rotated
from kshim.storage.log import LogError, OffsetOutOfRange
from kshim_protocol.errors import ErrorCode, KafkaError
from kshim_protocol.messages.share_fetch import (
    AcquiredRecords,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchRequest,
    ShareFetchResponse,
)

if TYPE_CHECKING:
    from kshim.broker.node import Node
    from kshim.partitions.partition import Partition
    from kshim.share_partitions.share_partition import SharePartition
    from kshim.share_partitions.share_partitions import Delivery

_BY_BATCH, _EXACT = 0, 1


@needs_feature(SHARE_VERSION)
@handles(ShareFetchRequest)
def share_fetch(node: Node, request: ShareFetchRequest, context: RequestContext, ticket: PendingReply) -> Step:
    """Take acknowledgements, then acquire records for the member; wait up to `max_wait_ms` where there are none.

    Errors: INVALID_REQUEST (null group, bad member id, acknowledgements in a first request, a renewal that fetches),
    SHARE_SESSION_NOT_FOUND, INVALID_SHARE_SESSION_EPOCH, SHARE_SESSION_LIMIT_REACHED (after `max_wait_ms`),
    UNKNOWN_SERVER_ERROR (as in `acknowledge_all`).
    """
    try:
        group_id, member_id = require_member(request.group_id, request.member_id)
        session = _session(node, request, group_id, member_id, ticket)
    except KafkaError as error:
        response = request.error_response(error.code, context.api_version)
        if error.code is ErrorCode.SHARE_SESSION_LIMIT_REACHED:
            _after(node, ticket, request, context, lambda: ticket.complete(response))
            return Step()
        return answered(ticket, response)
    fetch = _ShareFetch(node, request, context, ticket, session)
    try:
        writes = acknowledge_all(
            node,
            group_id,
            member_id,
            request.topics if _says_something(request) else (),
            context,
            is_renewal=request.is_renew_ack,
            then=fetch.acknowledged,
        )
    except KafkaError as error:
        return answered(ticket, request.error_response(error.code, context.api_version))
    if request.share_session_epoch == CLOSE_EPOCH:
        node.share_sessions.close(group_id, member_id)
    fetch.begin()  # what is released by the same request is there for the next one, or if there is nothing else
    for write in writes:
        write()
    return Step()


def _says_something(request: ShareFetchRequest) -> bool:
    return any(one.acknowledgement_batches for topic in request.topics for one in topic.partitions)


def _after(
    node: Node, ticket: PendingReply, request: ShareFetchRequest, context: RequestContext, answer: Callable[[], None]
) -> None:
    """Answer when the time of a request is over, whatever happens until then."""
    deadline_ms = context.real_ms + request.max_wait_ms
    node.cluster.fetch_purgatory.add(WaitingFetch(ticket.connection, (), 1, deadline_ms, answer))


def _session(
    node: Node, request: ShareFetchRequest, group_id: str, member_id: str, ticket: PendingReply
) -> ShareSession:
    """The session that a request opens, goes on with, or is to end. Raises KafkaError."""
    sessions = node.share_sessions
    if request.is_renew_ack and (request.max_bytes or request.min_bytes or request.max_records or request.max_wait_ms):
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    if request.share_session_epoch == OPEN_EPOCH:
        if _says_something(request):
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        if len(sessions) >= node.cluster.config.group_share_max_share_sessions and not sessions.has(
            group_id, member_id
        ):
            raise KafkaError(ErrorCode.SHARE_SESSION_LIMIT_REACHED)
        session = sessions.open(group_id, member_id, ticket.connection)
    elif request.share_session_epoch == CLOSE_EPOCH:
        return sessions.find(group_id, member_id)
    else:
        session = sessions.resume(group_id, member_id, request.share_session_epoch)
    for topic in request.topics:
        for one in topic.partitions:
            session.add((topic.topic_id, one.partition_index), is_new=request.share_session_epoch != OPEN_EPOCH)
    for forgotten in request.forgotten_topics_data:
        for index in forgotten.partitions:
            session.forget((forgotten.topic_id, index))
    return session


_Acquirable = Mapping[Place, tuple["Delivery", "SharePartition"]]


class _Found(NamedTuple):
    """What there is to say of one partition."""

    records: bytes = b""
    acquired: tuple[AcquiredRecords, ...] = ()
    error: ErrorCode = ErrorCode.NONE


class _ShareFetch:
    """One request on its way: acknowledgements, states that are read, records, and perhaps a wait for them."""

    def __init__(
        self,
        node: Node,
        request: ShareFetchRequest,
        context: RequestContext,
        ticket: PendingReply,
        session: ShareSession,
    ) -> None:
        self._node = node
        self._cluster = node.cluster
        self._request = request
        self._context = context
        self._ticket = ticket
        self._session = session
        settings = self._cluster.share_partitions.settings(session.group_id)
        self._reads_committed = settings.isolation_level == "read_committed"  # as long as it waits, as in Kafka
        self._results: dict[Place, Result] | None = None  # of what the member said, when it is written
        self._found: dict[Place, _Found] | None = None  # when that is all
        self._errors: dict[Place, ErrorCode] = {}
        self._deliveries: dict[Place, Delivery] = {}  # those of the request, whatever its session names meanwhile
        self._wait: WaitingFetch | None = None

    def acknowledged(self, results: dict[Place, Result]) -> None:
        """All that the member said is written."""
        self._results = results
        if self._request.share_session_epoch == CLOSE_EPOCH:
            self._cluster.share_partitions.release(self._session, self._context.now)
        self._reply_if_done()

    def begin(self) -> None:
        """Look for records, unless none are wanted."""
        request = self._request
        if request.share_session_epoch == CLOSE_EPOCH or request.is_renew_ack:
            self._has_found({})
            return
        places = self._find_partitions()
        if places and request.share_acquire_mode not in (_BY_BATCH, _EXACT):
            self._ticket.complete(request.error_response(ErrorCode.UNKNOWN_SERVER_ERROR, self._context.api_version))
        elif not request.max_bytes or not request.max_records or not places:
            self._has_found({place: _Found(error=error) for place, error in self._errors.items()})
        else:
            self._read_states(places)

    def _find_partitions(self) -> dict[Place, Partition]:
        """Those of the session that are here, in the order in which they have their turn; the others are in `_errors`."""
        places = {}
        for place in self._session.partitions:
            try:
                places[place] = require_partition(self._node, place, self._context)
            except KafkaError as error:
                self._errors[place] = error.code
        return {place: places[place] for place in rotated(tuple(places), self._request.share_session_epoch)}

    def _has_found(self, found: dict[Place, _Found]) -> None:
        self._found = found
        self._reply_if_done()

    def _reply_if_done(self) -> None:
        if self._found is not None and self._results is not None:
            self._reply(self._found, self._results)

    def _read_states(self, places: dict[Place, Partition]) -> None:
        """Find the share partitions, of which some have to be read first; acquire what there is, or wait.

        As in Kafka a request is answered as soon as those are enough that were known or are read by then. A session that
        begins hears nothing of the others.
        """
        share_partitions, group_id = self._cluster.share_partitions, self._session.group_id
        ready = {place for place in places if share_partitions.has_read(group_id, *place)}
        self._deliveries = {
            place: share_partitions.find(group_id, partition, self._context.now) for place, partition in places.items()
        }
        missing_bytes = self._fetch(ready)
        for place, delivery in self._deliveries.items():
            if missing_bytes is None:
                return
            if place in ready or delivery.is_pending:
                continue
            ready.add(place)
            acquirable = self._acquirable([place])
            if acquirable:
                missing_bytes -= self._wanted_bytes - self._missing_bytes(acquirable, ())
                if missing_bytes <= 0:
                    missing_bytes = self._fetch(ready)
                else:
                    delivery.looked_at = acquirable[place][1].next_offset
        if missing_bytes is None:
            return
        if self._request.max_wait_ms <= 0 and len(ready) == len(places):
            self._fetch(ready, is_over=True)
        else:
            self._await()

    def _acquirable(self, places: Iterable[Place]) -> _Acquirable:
        limits = self._limits(self._request.max_records)
        found = {}
        for place in places:
            delivery = self._deliveries[place]
            if delivery.is_active and delivery.share is not None and delivery.share.may_acquire(limits):
                found[place] = delivery, delivery.share
        return found

    def _fetch(self, places: Collection[Place], *, is_over: bool = False) -> int | None:
        """Acquire what there is if that is enough to answer, or if the time is over. Returns how much there is too little of,
        in bytes; None if it was answered.
        """
        if self._ticket.connection.is_closed:
            # The session has ended with it: nobody would give back what is acquired now before its lock ends.
            return None
        acquirable = self._acquirable(place for place in self._deliveries if place in places)
        fresh = [place for place, (delivery, share) in acquirable.items() if delivery.looked_at != share.next_offset]
        if not is_over:
            missing_bytes = self._missing_bytes(acquirable, fresh) if acquirable else self._wanted_bytes
            if missing_bytes > 0 or not acquirable:
                return missing_bytes
        found = {place: _Found(error=error) for place, error in self._errors.items()}
        found |= {
            place: _Found(error=one.error) for place, one in self._deliveries.items() if one.error and place in places
        }
        if self._request.max_bytes < 0:
            self._has_found(found | dict.fromkeys(acquirable, _Found(error=ErrorCode.UNKNOWN_SERVER_ERROR)))
            return None
        if is_over:
            runs = self._read(acquirable, list(acquirable))
        else:  # As in Kafka those come first of which somebody who waited knew already that there are records.
            known = [place for place in acquirable if place not in fresh]
            runs = self._read(acquirable, known) | self._read(acquirable, fresh)
        self._has_found(found | self._acquire_all(acquirable, runs))
        for place, run in runs.items():
            if isinstance(run, Run) and run.data:
                self._cluster.share_partitions.has_given(*place)
        return None

    def _missing_bytes(self, acquirable: _Acquirable, fresh: Collection[Place]) -> int:
        """How much there is too little of, by what partitions say whose records can be acquired; 0 also if one cannot be read.

        One that was looked at before at the same offset is not looked at again, even if that does not exist any more.
        """
        missing_bytes = self._wanted_bytes
        for place, (delivery, share) in acquirable.items():
            offset = share.next_offset
            end_offset = end_of(delivery.partition, reads_committed=self._reads_committed)
            if offset > end_offset:  # it is gone, or its transaction is open, which the group did not care for before
                return 0
            try:
                if offset < end_offset:
                    size_bytes = delivery.partition.readable_bytes(offset, end_offset)
                    missing_bytes -= min(size_bytes, self._max_bytes // len(acquirable))
            except (OffsetOutOfRange, LogError, KafkaError):
                return 0
            if place in fresh:
                delivery.looked_at = offset
        return missing_bytes

    @property
    def _wanted_bytes(self) -> int:
        return min(self._request.min_bytes, self._max_bytes)

    @property
    def _max_bytes(self) -> int:
        return min(self._request.max_bytes, self._cluster.config.fetch_max_bytes)

    def _await(self) -> None:
        """Look again whenever there is more, of records that were released as well, or when the time is over."""
        wait = self._wait
        deadline_ms = self._context.real_ms + max(0, self._request.max_wait_ms) if wait is None else wait.deadline_ms
        waits_for = [part for one in self._deliveries.values() for part in (one.partition, one)]
        self._wait = WaitingFetch(self._ticket.connection, waits_for, 1, deadline_ms, self._woken, follows=wait)
        self._cluster.fetch_purgatory.add(self._wait)

    def _woken(self) -> None:
        """There may be records now, or the time is over."""
        try:
            if self._fetch(self._deliveries, is_over=self._wait is not None and self._wait.is_over) is not None:
                self._await()
        except Exception as error:  # must not become the error of the producer whose records woke this
            self._cluster.report(error, self._request)
            self._ticket.refuse(ErrorCode.UNKNOWN_SERVER_ERROR)

    def _limits(self, max_records: int) -> Limits:
        request = self._request
        return self._cluster.share_partitions.limits(
            self._session.group_id,
            max_records=max_records,
            batch_size=max(0, request.batch_size),
            is_exact=request.share_acquire_mode == _EXACT,
        )

    def _read(self, acquirable: _Acquirable, places: Sequence[Place]) -> dict[Place, Run | ErrorCode]:
        """What these partitions have, or why that cannot be read.

        All have the same part of the bytes; the first that has records gives at least one batch.
        """
        left_bytes, is_first = self._max_bytes, True
        found: dict[Place, Run | ErrorCode] = {}
        for place in places:
            delivery, share = acquirable[place]
            most_bytes = min(self._max_bytes // len(acquirable), left_bytes)
            try:
                run = read_batches(
                    delivery.partition,
                    share.next_offset,
                    most_bytes,
                    at_least_one_batch=is_first,
                    reads_committed=self._reads_committed,
                )
            except OffsetOutOfRange:  # the group goes on behind what is gone, from the next request on
                share.log_begins(delivery.partition.log.start_offset)
                run = NOTHING
            except KafkaError as error:
                found[place] = error.code
                continue
            except LogError as failure:
                self._cluster.report(failure, self._request)
                found[place] = ErrorCode.KAFKA_STORAGE_ERROR
                continue
            found[place] = run
            if run.data:
                is_first = False
                left_bytes = max(0, left_bytes - len(run.data))
        return found

    def _acquire_all(self, acquirable: _Acquirable, runs: Mapping[Place, Run | ErrorCode]) -> dict[Place, _Found]:
        found = {}
        left = self._request.max_records
        for place, run in runs.items():
            if isinstance(run, ErrorCode):
                found[place] = _Found(error=run)
                continue
            found[place] = self._acquire(*acquirable[place], run, left)
            left -= sum(one.last_offset - one.first_offset + 1 for one in found[place].acquired)
        return found

    def _acquire(self, delivery: Delivery, share: SharePartition, run: Run, max_records: int) -> _Found:
        """Records of one partition for the member."""
        now = self._cluster.now(self._context.now)
        ranges = share.acquire(self._session.member_id, run.offsets, self._limits(max_records), now.mono_ms)
        if run.aborted:
            for first, last in run.aborted:
                share.archive(first, last)
            ranges = run.without_aborted(ranges)
        self._cluster.share_partitions.rearm(delivery)
        if not ranges:
            return _Found()
        acquired = tuple(AcquiredRecords(**one._asdict()) for one in ranges)
        return _Found(run.batches_between(ranges[0].first_offset, ranges[-1].last_offset), acquired)

    def _reply(self, found: dict[Place, _Found], results: dict[Place, Result]) -> None:
        """All partitions that were looked at, if the session begins; else those with something to say."""
        session, epoch = self._session, self._request.share_session_epoch
        by_topic: dict[bytes, list[PartitionData]] = {}
        leader_ids = []
        is_stale = epoch > OPEN_EPOCH and session.epoch != next_epoch(epoch)  # another request went on with it
        if epoch > OPEN_EPOCH:
            found = {
                place: one
                for place, one in found.items()
                if not is_stale
                and session.answers(place, has_records=bool(one.records), has_failed=one.error is not ErrorCode.NONE)
            }
        for place in dict.fromkeys((*found, *results)):
            data = self._data(place, found.get(place, _Found()), results.get(place, Result(ErrorCode.NONE)))
            by_topic.setdefault(place[0], []).append(data)
            if data.current_leader.leader_id:
                leader_ids.append(data.current_leader.leader_id)
        self._ticket.complete(
            ShareFetchResponse(
                error_code=ErrorCode.INVALID_SHARE_SESSION_EPOCH if is_stale else ErrorCode.NONE,
                acquisition_lock_timeout_ms=self._cluster.share_partitions.settings(
                    session.group_id
                ).record_lock_duration_ms,
                responses=tuple(
                    ShareFetchableTopicResponse(topic_id=topic_id, partitions=tuple(rows))
                    for topic_id, rows in by_topic.items()
                ),
                node_endpoints=endpoints(self._node, self._ticket.connection.listener_name, leader_ids, NodeEndpoint),
            )
        )

    def _data(self, place: Place, found: _Found, result: Result) -> PartitionData:
        leader = LeaderIdAndEpoch()
        if ErrorCode.NOT_LEADER_OR_FOLLOWER in (found.error, result.error):
            topic = self._cluster.topics.with_id(place[0])
            if topic is not None:
                known = topic.partitions[place[1]].leader
                leader = LeaderIdAndEpoch(leader_id=known.leader_id, leader_epoch=known.leader_epoch)
        return PartitionData(
            partition_index=place[1],
            error_code=found.error,
            acknowledge_error_code=result.error,
            acknowledge_error_message=result.message,
            current_leader=leader,
            records=found.records,
            acquired_records=found.acquired,
        )
