"""The history of all groups: fed with the coordinator's events, held in a ring, written to a topic when asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from kshim.broker.history.names import EVENTS_TOPIC
from kshim.broker.history.ring import Ring
from kshim.broker.history.topic import EventsTopic
from kshim.broker.history.tracker import GroupHistory, Tracker
from kshim.coordinator.subscriptions import CONSUMER_PROTOCOL_TYPE, subscribed_topics

if TYPE_CHECKING:
    from kshim.broker.history.event import HistoryEvent
    from kshim.coordinator.events import Event
    from kshim.coordinator.group import Group

__all__ = ["History", "is_reader"]

_TELLING: Final = frozenset({"join_completed", "coordinator_loaded"})
"""Events after which a group may read other topics than before."""


class History:
    """`observe` takes the coordinator's events, in order, once what they tell of is done.

    `find_group` looks into the coordinator; `topic` None: the events stay in memory. See `Tracker` for the others.
    """

    def __init__(
        self,
        ring: Ring,
        topic: EventsTopic | None,
        *,
        run: str,
        broker_of: Callable[[int], int],
        initial_delay_ms: int,
        find_group: Callable[[str], Group | None],
    ) -> None:
        self.ring = ring
        self.topic = topic
        self.run = run
        self._find_group = find_group
        self._tracker = Tracker(self._emit, run=run, broker_of=broker_of, initial_delay_ms=initial_delay_ms)
        self.observe: Callable[[Event], None] = self._tracker.observe

    def close(self) -> None:
        """Write what still waits."""
        if self.topic is not None:
            self.topic.close()

    def _emit(self, event: HistoryEvent, group: GroupHistory) -> None:
        self.ring.append(event)
        if self.topic is None:
            return
        if event.type in _TELLING or event.seq == 1:
            found = self._find_group(event.group_id)
            if found is not None and found.members:
                group.is_left_out = is_reader(found)
        self.topic.add(event, group)


def is_reader(group: Group) -> bool:
    """Whether a member subscribes to the topic of the history; members by pattern name what they have found.

    Before the first vote every protocol that a member offers counts.
    """
    if group.topics is not None:
        return EVENTS_TOPIC in group.topics
    if group.protocol_type != CONSUMER_PROTOCOL_TYPE:
        return False
    offered = [metadata for member in group.members.values() for metadata in member.protocols.values()]
    return any(EVENTS_TOPIC in (subscribed_topics([metadata]) or ()) for metadata in offered)
