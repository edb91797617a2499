"""What consumers fetch again and again, remembered so that neither side names it each time (KIP-227).

A session holds the partitions of its full request. Incremental requests name what has changed, and incremental answers
what is new. Kafka: FetchSession, FetchSessionCache.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from kshim_protocol.errors import ErrorCode, KafkaError
from kshim_protocol.messages.fetch import FetchTopic
from kshim_protocol.schema import ZERO_UUID

if TYPE_CHECKING:
    from kshim_protocol.messages.fetch import (
        FetchableTopicResponse,
        FetchPartition,
        FetchRequest,
        PartitionData,
    )


MAX_PARTITIONS: Final = 10_000
"""A consumer of more partitions gets no session, because sessions are kept in memory."""
MAX_ALL_PARTITIONS: Final = 200_000
"""Of all sessions of a node, some 100 MB."""
_MAX_NAME_LENGTH: Final = 249  # no topic has a longer one
IDLE_MS: Final = 120_000
"""A session that was not used for so long may be replaced."""
_MAX_EPOCH: Final = 0x7FFFFFFF

Key = tuple[str | bytes, int]
"""Topic (its id where the request has ids, else its name) and partition."""


class FetchSession:
    """One consumer's partitions, in the order in which they are answered: one that had records goes to the end."""

    __slots__ = ("_grouped", "_reported", "by_id", "epoch", "names", "partitions", "session_id", "used_ms")

    def __init__(self, session_id: int, *, by_id: bool, now_ms: int) -> None:
        self.session_id = session_id
        self.epoch = 1
        """That of the next request."""
        self.by_id = by_id
        self.used_ms = now_ms
        self.partitions: dict[Key, FetchPartition] = {}
        self.names: dict[bytes, str] = {}
        """What the topics of a session with ids were called when they were found; distinguishes deleted from re-created topics."""
        self._reported: dict[Key, tuple[int, int]] = {}  # high watermark and log start offset
        self._grouped: list[FetchTopic] | None = None

    def update(self, request: FetchRequest) -> None:
        """Take over what a request names, and drop what it forgets."""
        for topic in request.topics:
            name = topic.topic_id if self.by_id else topic.topic
            for partition in topic.partitions:
                self.partitions[name, partition.partition] = partition
                self._grouped = None
        for forgotten in request.forgotten_topics_data:
            name = forgotten.topic_id if self.by_id else forgotten.topic
            for index in forgotten.partitions:
                self.partitions.pop((name, index), None)
                self._reported.pop((name, index), None)
                self._grouped = None

    def replace(self, key: Key, partition: FetchPartition) -> None:
        """The same for a partition that it has already."""
        self.partitions[key] = partition
        self._grouped = None

    def topics(self) -> list[FetchTopic]:
        """All partitions as a full request would name them."""
        if self._grouped is None:
            self._grouped = []
            last: str | bytes | None = None
            run: list[FetchPartition] = []
            for (name, _), partition in self.partitions.items():
                if name != last:
                    if last is not None:
                        self._grouped.append(_topic(last, run))
                    last, run = name, []
                run.append(partition)
            if last is not None:
                self._grouped.append(_topic(last, run))
            for topic_id in self.names.keys() - {topic.topic_id for topic in self._grouped}:
                del self.names[topic_id]
        return self._grouped

    def is_news(self, key: Key, high_watermark: int, log_start_offset: int) -> bool:
        """Whether a partition without records has to be in the answer."""
        return self._reported.get(key) != (high_watermark, log_start_offset)

    def answered(self, responses: Iterable[FetchableTopicResponse]) -> None:
        """These were sent: their positions need not be sent again, unless they had an error."""
        for topic in responses:
            name = topic.topic_id if self.by_id else topic.topic
            for data in topic.partitions:
                self._note(name, data)

    def note(self, key: Key, high_watermark: int, log_start_offset: int) -> None:
        """These positions of a partition are in an answer."""
        self._reported[key] = high_watermark, log_start_offset

    def _note(self, name: str | bytes, data: PartitionData) -> None:
        key = name, data.partition_index
        if data.error_code != ErrorCode.NONE:
            self._reported.pop(key, None)
            return
        self.note(key, data.high_watermark, data.log_start_offset)
        if data.records and self.epoch > 1:  # the answer to the full request moves nothing
            partition = self.partitions.pop(key, None)
            if partition is not None:
                self.partitions[key] = partition
                self._grouped = None


class FetchSessions:
    """The sessions of one node, `slots` at most.

    `first_id` gives a random number, so that sessions of an earlier run are not taken for those of this one.
    """

    def __init__(self, slots: int, first_id: Callable[[], int]) -> None:
        self._slots = slots
        self._first_id = first_id
        self._next_id = 0
        self._partition_count = 0
        self._sessions: dict[int, FetchSession] = {}  # in the order of their last use

    def __len__(self) -> int:
        return len(self._sessions)

    def topics_of(self, session_id: int) -> list[FetchTopic]:
        """What an incremental request is for besides what it names; nothing, if there is no such session."""
        session = self._sessions.get(session_id)
        return [] if session is None else session.topics()

    def begin(self, request: FetchRequest, *, by_id: bool, now_ms: int) -> FetchSession | None:
        """A session with the partitions of a full request; None when all places are taken. `now_ms` is monotonic."""
        count = sum(len(topic.partitions) for topic in request.topics)
        if not self._slots or count > MAX_PARTITIONS or self._partition_count + count > MAX_ALL_PARTITIONS:
            return None
        if _has_long_names(request):
            return None
        if len(self._sessions) >= self._slots:
            oldest = next(iter(self._sessions.values()))
            if now_ms - oldest.used_ms <= IDLE_MS:
                return None
            self.end(oldest.session_id)
        if not self._next_id:
            self._next_id = self._first_id() & _MAX_EPOCH
        while not self._next_id or self._next_id in self._sessions:
            self._next_id = (self._next_id + 1) & _MAX_EPOCH
        session = self._sessions[self._next_id] = FetchSession(self._next_id, by_id=by_id, now_ms=now_ms)
        self._next_id = (self._next_id + 1) & _MAX_EPOCH
        session.update(request)
        self._partition_count += len(session.partitions)
        return session

    def resume(self, request: FetchRequest, *, by_id: bool, now_ms: int) -> FetchSession:
        """The session of an incremental request, brought up to date.

        One that has become empty, or too large, ends with this request: its id is 0 from now on.
        Raises KafkaError: FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH, FETCH_SESSION_TOPIC_ID_ERROR.
        """
        session = self._sessions.get(request.session_id)
        if session is None:
            raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != request.session_epoch:
            raise KafkaError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.by_id != by_id:
            raise KafkaError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        self.use(session, now_ms)
        count = len(session.partitions)
        session.update(request)
        self._partition_count += len(session.partitions) - count
        if (
            not 0 < len(session.partitions) <= MAX_PARTITIONS
            or self._partition_count > MAX_ALL_PARTITIONS
            or _has_long_names(request)
        ):
            self.end(session.session_id)
            session.session_id = 0
        return session

    def find(self, session_id: int) -> FetchSession | None:
        """The session of that id."""
        return self._sessions.get(session_id)

    def use(self, session: FetchSession, now_ms: int) -> None:
        """Its next request has come."""
        session.epoch = 1 if session.epoch == _MAX_EPOCH else session.epoch + 1
        session.used_ms = now_ms
        self._sessions[session.session_id] = self._sessions.pop(session.session_id)

    def end(self, session_id: int) -> None:
        """The client does not want it any more."""
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self._partition_count -= len(session.partitions)


def _has_long_names(request: FetchRequest) -> bool:
    return any(len(topic.topic) > _MAX_NAME_LENGTH for topic in request.topics)


def _topic(name: str | bytes, partitions: list[FetchPartition]) -> FetchTopic:
    if isinstance(name, bytes):
        return FetchTopic(topic="", topic_id=name, partitions=tuple(partitions))
    return FetchTopic(topic=name, topic_id=ZERO_UUID, partitions=tuple(partitions))
