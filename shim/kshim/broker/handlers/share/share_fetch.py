"""ShareFetch: what became of records, and more of them, at once or when there are some.

Source: Kafka's SharePartitionManager and DelayedShareFetch; what is answered when is that of a live 4.4.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from kshim.broker.features import SHARE_VERSION
from kshim.broker.handlers.share.acknowledgements import Result, acknowledge_all, require_member, require_partition
from kshim.broker.handlers.share.reading import Run, read_batches
from kshim.broker.leader_checks import endpoints
from kshim.broker.request import PendingReply, answered, handles, needs_feature
from kshim.coordinator.step import RequestContext, Step
from kshim.partitions.fetch_purgatory import WaitingFetch
from kshim.share_partitions.share_partition import Limits
from kshim.share_partitions.share_sessions import CLOSE_EPOCH, OPEN_EPOCH, Place, ShareSession
from kshim.storage.log import LogError
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
_ANY = Limits(max_records=1, batch_size=1, max_in_flight=2**31)


@needs_feature(SHARE_VERSION)
@handles(ShareFetchRequest)
def share_fetch(node: Node, request: ShareFetchRequest, context: RequestContext, ticket: PendingReply) -> Step:
    """Take acknowledgements, then acquire records for the member; wait up to `max_wait_ms` where there are none.

    Errors: INVALID_REQUEST (null group, bad member id, acknowledgements in a first request, a renewal that fetches),
    SHARE_SESSION_NOT_FOUND, INVALID_SHARE_SESSION_EPOCH, SHARE_SESSION_LIMIT_REACHED (after `max_wait_ms`).
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
    writes = acknowledge_all(
        node,
        group_id,
        member_id,
        request.topics,
        context,
        is_renewal=request.is_renew_ack,
        then=fetch.acknowledged,
    )
    fetch.begin()  # what is released by the same request is there for the next one, or if there is nothing else
    for write in writes:
        write()
    return Step()


def _after(
    node: Node, ticket: PendingReply, request: ShareFetchRequest, context: RequestContext, answer: Callable[[], None]
) -> None:
    """Answer when the time of a request is over, whatever happens until then."""
    deadline_ms = context.real_ms + request.max_wait_ms
    node.cluster.fetch_purgatory.add(WaitingFetch(ticket.connection, (), 1, deadline_ms, answer))


def _session(
    node: Node, request: ShareFetchRequest, group_id: str, member_id: str, ticket: PendingReply
) -> ShareSession:
    """The session that a request opens, goes on with or ends. Raises KafkaError."""
    sessions = node.share_sessions
    if request.is_renew_ack and (request.max_bytes or request.min_bytes or request.max_records or request.max_wait_ms):
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    if request.share_session_epoch == OPEN_EPOCH:
        if any(one.acknowledgement_batches for topic in request.topics for one in topic.partitions):
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        if len(sessions) >= node.cluster.config.group_share_max_share_sessions and not sessions.has(
            group_id, member_id
        ):
            raise KafkaError(ErrorCode.SHARE_SESSION_LIMIT_REACHED)
        session = sessions.open(group_id, member_id, ticket.connection)
    elif request.share_session_epoch == CLOSE_EPOCH:
        return sessions.close(group_id, member_id)
    else:
        session = sessions.resume(group_id, member_id, request.share_session_epoch)
    for topic in request.topics:
        for one in topic.partitions:
            session.add((topic.topic_id, one.partition_index))
    for forgotten in request.forgotten_topics_data:
        for index in forgotten.partitions:
            session.forget((forgotten.topic_id, index))
    return session


class _Found(NamedTuple):
    """What there is to say of one partition."""

    records: bytes = b""
    acquired: tuple[AcquiredRecords, ...] = ()
    error: ErrorCode = ErrorCode.NONE

    @property
    def is_nothing(self) -> bool:
        """Whether it was looked at in vain."""
        return not self.acquired and self.error is ErrorCode.NONE


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
        self._results: dict[Place, Result] | None = None  # of what the member said, when it is written
        self._found: dict[Place, _Found] | None = None  # when that is all
        self._errors: dict[Place, ErrorCode] = {}
        self._deliveries: dict[Place, Delivery] = {}
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
        if not request.max_bytes or not request.max_records or not places:
            self._has_found({place: _Found(error=error) for place, error in self._errors.items()})
        elif request.share_acquire_mode not in (_BY_BATCH, _EXACT):
            self._ticket.complete(request.error_response(ErrorCode.UNKNOWN_SERVER_ERROR, self._context.api_version))
        else:
            self._read_states(places)

    def _find_partitions(self) -> dict[Place, Partition]:
        """Those of the session that are here; the others are in `_errors`."""
        places = {}
        for place in self._session.rotate():
            try:
                places[place] = require_partition(self._node, place, self._context)
            except KafkaError as error:
                self._errors[place] = error.code
        return places

    def _has_found(self, found: dict[Place, _Found]) -> None:
        self._found = found
        self._reply_if_done()

    def _reply_if_done(self) -> None:
        if self._found is not None and self._results is not None:
            self._reply(self._found, self._results)

    def _read_states(self, places: dict[Place, Partition]) -> None:
        """Find the share partitions; some may have to be read first."""
        missing = []
        for place, partition in places.items():
            delivery = self._cluster.share_partitions.find(self._session.group_id, partition, self._context.now)
            self._deliveries[place] = delivery
            if delivery.share is None and delivery.error is ErrorCode.NONE:
                missing.append(delivery)
        if not missing:
            self._fetch()
            return
        left = len(missing)

        def one_is_read() -> None:
            nonlocal left
            left -= 1
            if not left:
                self._fetch()

        for delivery in missing:
            delivery.waiting.append(one_is_read)

    def _fetch(self) -> None:
        """Acquire what there is if that is enough to answer; wait for more if not."""
        if self._ticket.connection.is_closed:
            return  # the session has ended with it: nobody would give back what is acquired now before its lock ends
        request = self._request
        found = {place: _Found(error=error) for place, error in self._errors.items()}
        readable = {}
        for place, delivery in self._deliveries.items():
            if delivery.share is None:
                found[place] = _Found(error=delivery.error)
            else:
                readable[place] = delivery, delivery.share
        error_count = len(found)
        found |= {place: _Found() for place, two in readable.items() if self._begins_later(*two)}
        limits = self._limits(request.max_records)
        acquirable = {
            place: (delivery, share)
            for place, (delivery, share) in readable.items()
            if place not in found and share.may_acquire(limits)
        }
        if request.max_bytes < 0:
            found |= dict.fromkeys(acquirable, _Found(error=ErrorCode.UNKNOWN_SERVER_ERROR))
            acquirable = {}
        runs = {}
        for place, (delivery, share) in acquirable.items():
            run = self._read(delivery, share, request.max_bytes // len(acquirable), found, place)
            if run is not None:
                runs[place] = run
        read_bytes = sum(len(run.data) for run in runs.values())
        is_enough = bool(acquirable) and read_bytes >= request.min_bytes
        is_over = request.max_wait_ms <= 0 or (self._wait is not None and self._wait.is_over)
        # Errors of some partitions are told when there is something to say of the others.
        if is_enough or is_over or not readable or len(found) > error_count:
            left = request.max_records
            for place, run in runs.items():
                found[place] = _Found()
                if left > 0 and (one := self._acquire(*acquirable[place], run, left)) is not None:
                    found[place] = one
                    left -= sum(range_.last_offset - range_.first_offset + 1 for range_ in one.acquired)
            self._has_found(found)
            return
        deadline_ms = self._context.real_ms + request.max_wait_ms if self._wait is None else self._wait.deadline_ms
        waits_for = [part for one in self._deliveries.values() for part in (one.partition, one)]
        missing_bytes = max(1, request.min_bytes - read_bytes)
        self._wait = WaitingFetch(
            self._ticket.connection,
            waits_for,
            missing_bytes,
            deadline_ms,
            self._woken,
            reads_committed=self._reads_committed,
        )
        self._cluster.fetch_purgatory.add(self._wait)

    @property
    def _reads_committed(self) -> bool:
        settings = self._cluster.share_partitions.settings(self._session.group_id)
        return settings.isolation_level == "read_committed"

    def _woken(self) -> None:
        """There may be records now, or the time is over."""
        try:
            self._errors, self._deliveries = {}, {}
            self._read_states(self._find_partitions())
        except Exception as error:  # must not become the error of the producer whose records woke this
            self._cluster.report(error, self._request)
            self._ticket.refuse(ErrorCode.UNKNOWN_SERVER_ERROR)

    def _limits(self, max_records: int) -> Limits:
        request = self._request
        return self._cluster.share_partitions.limits(
            self._session.group_id,
            max_records=max_records,
            batch_size=max(1, request.batch_size),
            is_exact=request.share_acquire_mode == _EXACT,
        )

    @staticmethod
    def _begins_later(delivery: Delivery, share: SharePartition) -> bool:
        """Whether the next record is in the log no more: the group goes on behind it, from the next request on."""
        log_start = delivery.partition.log.start_offset
        if share.next_offset >= log_start or not share.may_acquire(_ANY):
            return False
        share.log_begins(log_start)
        return True

    def _read(
        self, delivery: Delivery, share: SharePartition, max_bytes: int, found: dict[Place, _Found], place: Place
    ) -> Run | None:
        """What a partition has; None if that cannot be read."""
        try:
            return read_batches(delivery.partition, share, max_bytes, reads_committed=self._reads_committed)
        except KafkaError as error:
            found[place] = _Found(error=error.code)
        except LogError as failure:
            self._cluster.report(failure, self._request)
            found[place] = _Found(error=ErrorCode.KAFKA_STORAGE_ERROR)
        return None

    def _acquire(self, delivery: Delivery, share: SharePartition, run: Run, max_records: int) -> _Found | None:
        """Records of one partition for the member; None: none now."""
        now = self._cluster.now(self._context.now)
        ranges = share.acquire(self._session.member_id, run.offsets, self._limits(max_records), now.mono_ms)
        if run.aborted:
            for first, last in run.aborted:
                share.archive(first, last)
            ranges = run.without_aborted(ranges)
        self._cluster.share_partitions.rearm(delivery)
        if not ranges:
            return None
        acquired = tuple(AcquiredRecords(**one._asdict()) for one in ranges)
        return _Found(run.batches_between(ranges[0].first_offset, ranges[-1].last_offset), acquired)

    def _reply(self, found: dict[Place, _Found], results: dict[Place, Result]) -> None:
        """Partitions with something to say, and those that are looked at for the first time in the session."""
        session = self._session
        by_topic: dict[bytes, list[PartitionData]] = {}
        leader_ids = []
        is_last = self._request.share_session_epoch == CLOSE_EPOCH
        places = [place for place in session.partitions if not is_last]
        for place in dict.fromkeys((*places, *results)):
            one, result = found.get(place), results.get(place)
            if result is None and (one is None or (one.is_nothing and session.partitions[place])):
                continue
            if place in session.partitions and one is not None:
                session.partitions[place] = True
            data = self._data(place, one or _Found(), result or Result(ErrorCode.NONE))
            by_topic.setdefault(place[0], []).append(data)
            if data.current_leader.leader_id:
                leader_ids.append(data.current_leader.leader_id)
        self._ticket.complete(
            ShareFetchResponse(
                error_code=ErrorCode.NONE,
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
