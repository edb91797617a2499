"""Share sessions: which partitions a member of a share group reads from a node, without naming them each time.

Source: Kafka's SharePartitionManager.newContext and ShareSessionCache.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kshim_protocol.errors import ErrorCode, KafkaError

OPEN_EPOCH: Final = 0
CLOSE_EPOCH: Final = -1
_LAST_EPOCH: Final = 2**31 - 1

Place = tuple[bytes, int]
"""Id of a topic, index of a partition."""


def next_epoch(epoch: int) -> int:
    """The epoch of the request behind one.

    >>> next_epoch(1), next_epoch(2**31 - 1)
    (2, 1)
    """
    return 1 if epoch == _LAST_EPOCH else epoch + 1


class ShareSession:
    """One member's. `partitions` is in the order in which they are read next; the value says whether the next answer has to
    name one although there is nothing to say: it was added since the session began, or there was an error.
    """

    def __init__(self, group_id: str, member_id: str, connection: object) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.connection = connection
        self.epoch = 1  # that of the next request
        self.partitions: dict[Place, bool] = {}

    def add(self, place: Place, *, is_new: bool) -> None:
        """The member reads a partition, too. `is_new`: it has to hear of it, which is so unless the session begins."""
        self.partitions.setdefault(place, is_new)

    def forget(self, place: Place) -> None:
        """The member does not read a partition any more."""
        self.partitions.pop(place, None)

    def answers(self, place: Place, *, has_records: bool, has_failed: bool) -> bool:
        """Whether the answer has to name a partition. One with records comes last from then on."""
        is_due = self.partitions.get(place)
        if is_due is None:
            return False
        if has_records:
            del self.partitions[place]
        self.partitions[place] = has_failed
        return is_due or has_records or has_failed


def rotated(places: Sequence[Place], epoch: int) -> list[Place]:
    """Partitions, beginning with another one in each epoch, so that none is always the last."""
    begin = epoch % len(places) if places else 0
    return [*places[begin:], *places[:begin]]


class ShareSessions:
    """All sessions of a node. A session ends with the connection that opened it.

    As in Kafka a connection takes only that session with it which it opened last, and none if one of those that it has
    opened was closed or opened again since.
    """

    def __init__(self) -> None:
        self._sessions: dict[tuple[str, str], ShareSession] = {}
        self._last_of: dict[object, tuple[str, ShareSession | None]] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def open(self, group_id: str, member_id: str, connection: object) -> ShareSession:
        """A new session; an older one of the member ends."""
        older = self._sessions.get((group_id, member_id))
        if older is not None:
            self._ends(older)
        session = self._sessions[group_id, member_id] = ShareSession(group_id, member_id, connection)
        self._last_of[connection] = group_id, session
        return session

    def has(self, group_id: str, member_id: str) -> bool:
        """Whether the member has one."""
        return (group_id, member_id) in self._sessions

    def find(self, group_id: str, member_id: str) -> ShareSession:
        """The session of a member. Raises KafkaError: SHARE_SESSION_NOT_FOUND."""
        session = self._sessions.get((group_id, member_id))
        if session is None:
            raise KafkaError(ErrorCode.SHARE_SESSION_NOT_FOUND)
        return session

    def resume(self, group_id: str, member_id: str, epoch: int) -> ShareSession:
        """The session of a member that goes on. Raises KafkaError: SHARE_SESSION_NOT_FOUND, INVALID_SHARE_SESSION_EPOCH."""
        session = self.find(group_id, member_id)
        if epoch != session.epoch:
            raise KafkaError(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
        session.epoch = next_epoch(epoch)
        return session

    def close(self, group_id: str, member_id: str) -> None:
        """A member ends its session. Raises KafkaError: SHARE_SESSION_NOT_FOUND."""
        self._ends(self.find(group_id, member_id))

    def closed(self, connection: object) -> tuple[ShareSession | None, str | None]:
        """A connection is gone: the session that ends with it, and the group of which nobody has a session any more."""
        if connection not in self._last_of:
            return None, None
        group_id, session = self._last_of.pop(connection)
        if session is not None:
            del self._sessions[session.group_id, session.member_id]
        is_empty = all(one.group_id != group_id for one in self._sessions.values())
        return session, group_id if is_empty else None

    def _ends(self, session: ShareSession) -> None:
        del self._sessions[session.group_id, session.member_id]
        if session.connection in self._last_of:
            self._last_of[session.connection] = self._last_of[session.connection][0], None
