"""Share sessions: which partitions a member of a share group reads from a node, without naming them each time.

Source: Kafka's SharePartitionManager.newContext and ShareSessionCache.
"""

from __future__ import annotations

from typing import Final

from kshim_protocol.errors import ErrorCode, KafkaError

OPEN_EPOCH: Final = 0
CLOSE_EPOCH: Final = -1
_LAST_EPOCH: Final = 2**31 - 1

Place = tuple[bytes, int]
"""Id of a topic, index of a partition."""


class ShareSession:
    """One member's. `partitions` is in the order in which they are read next; the value says whether one was answered yet."""

    def __init__(self, group_id: str, member_id: str, connection: object) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.connection = connection
        self.epoch = 1  # that of the next request
        self.partitions: dict[Place, bool] = {}

    def add(self, place: Place) -> None:
        """The member reads a partition, too."""
        self.partitions.setdefault(place, False)

    def forget(self, place: Place) -> None:
        """The member does not read a partition any more."""
        self.partitions.pop(place, None)

    def rotate(self) -> list[Place]:
        """The partitions, beginning with another one in each epoch, so that none is always the last."""
        places = list(self.partitions)
        begin = self.epoch % len(places) if places else 0
        return places[begin:] + places[:begin]


class ShareSessions:
    """All sessions of a node. A session ends with the connection that opened it.

    As in Kafka a connection takes only that session with it which it opened last, and none if one of those that it has
    opened was closed or opened again since.
    """

    def __init__(self) -> None:
        self._sessions: dict[tuple[str, str], ShareSession] = {}
        self._last_of: dict[object, ShareSession | None] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def open(self, group_id: str, member_id: str, connection: object) -> ShareSession:
        """A new session; an older one of the member ends."""
        older = self._sessions.get((group_id, member_id))
        if older is not None:
            self._ends(older)
        session = self._sessions[group_id, member_id] = ShareSession(group_id, member_id, connection)
        self._last_of[connection] = session
        return session

    def has(self, group_id: str, member_id: str) -> bool:
        """Whether the member has one."""
        return (group_id, member_id) in self._sessions

    def resume(self, group_id: str, member_id: str, epoch: int) -> ShareSession:
        """The session of a member that goes on. Raises KafkaError: SHARE_SESSION_NOT_FOUND, INVALID_SHARE_SESSION_EPOCH."""
        session = self._require(group_id, member_id)
        if epoch != session.epoch:
            raise KafkaError(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
        session.epoch = 1 if epoch == _LAST_EPOCH else epoch + 1
        return session

    def close(self, group_id: str, member_id: str) -> ShareSession:
        """The session of a member that ends it. Raises KafkaError: SHARE_SESSION_NOT_FOUND."""
        session = self._require(group_id, member_id)
        self._ends(session)
        return session

    def closed(self, connection: object) -> list[ShareSession]:
        """A connection is gone: the sessions that end with it, which are one or none."""
        session = self._last_of.pop(connection, None)
        if session is None:
            return []
        del self._sessions[session.group_id, session.member_id]
        return [session]

    def _ends(self, session: ShareSession) -> None:
        del self._sessions[session.group_id, session.member_id]
        if session.connection in self._last_of:
            self._last_of[session.connection] = None

    def _require(self, group_id: str, member_id: str) -> ShareSession:
        session = self._sessions.get((group_id, member_id))
        if session is None:
            raise KafkaError(ErrorCode.SHARE_SESSION_NOT_FOUND)
        return session
