"""The history of all groups: fed with the coordinator's events, held in a ring, written to a topic when asked."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Final

from kshim.coordinator.groups.classic.group import Group
from kshim.coordinator.groups.classic.state import GroupState
from kshim.coordinator.groups.classic.subscriptions import subscribed_topics
from kshim.coordinator.groups.events import (
    EpochRaised,
    GroupLoaded,
    JoinCompleted,
    MemberAdded,
    MemberRemoved,
    MemberReplaced,
    Offer,
    Transition,
)
from kshim.coordinator.groups.kinds import CONSUMER_PROTOCOL_TYPE
from kshim.history.emitter import InjectedFault
from kshim.history.ring import Ring
from kshim.history.subscription import topics_of
from kshim.history.topic import EventsTopic
from kshim.history.topic_changes import TopicChange, TopicChanges
from kshim.history.tracker import BrokerStopping, Tracker
from kshim.partitions.internal_topics import EVENTS_TOPIC

if TYPE_CHECKING:
    from kshim.config.broker_config import BrokerConfig
    from kshim.coordinator.groups.kinds import AnyGroup
    from kshim.coordinator.step import Event, Now
    from kshim.history.activity import Activities, Activity
    from kshim.history.event import HistoryEvent
    from kshim.partitions.topics import Topics
    from kshim.scheduling.timers import Timers


PENDING_MAX_EVENTS: Final = 32
"""So many events of the coordinator wait to be followed: some rebalances, which the processor's caches still hold."""

_OF_PROCESSES: Final = (MemberAdded, MemberReplaced, MemberRemoved)
"""Events after which somebody may ask what the process did before."""

_TELLING: Final = (JoinCompleted, GroupLoaded, EpochRaised)
"""Events after which a group may read other topics than before."""


class History:
    """`observe` takes the coordinator's events, in order, after what they report has been done.

    They are followed later, many at a time: code that runs only now and then runs with cold caches, at several times its cost.
    `ring` always returns all of them. `find_group` looks into the coordinator; `topic` is written to from now on if `is_told`, else when
    somebody asks (`tell`); `on_defect(error, event)` is called with an event that could not be followed, `broker_of(partition)` is the node id of that
    coordinator, `activities` knows what members' processes did. See `Tracker` for the others.
    """

    def __init__(
        self,
        ring: Ring,
        topic: EventsTopic,
        *,
        is_told: bool,
        run: str,
        broker_of: Callable[[int], int],
        initial_delay_ms: int,
        find_group: Callable[[str], AnyGroup | None],
        activities: Activities,
        on_defect: Callable[[BaseException, object], None],
    ) -> None:
        self._ring = ring
        self._topic = topic
        self.is_told = is_told
        """Whether events are written to the topic."""
        self.run = run
        self.followed_count = 0
        """Events of the coordinator that were followed so far."""
        self._find_group = find_group
        self._on_defect = on_defect
        self._broker_of = broker_of
        self._activities = activities
        self._topic_changes = TopicChanges()
        self._pending: list[tuple[Event | InjectedFault, int, Activity | None, tuple[TopicChange, ...]]] = []
        self._readers: set[str] = set()  # groups that read the topic, so that nothing of them may go there
        self._tracker = Tracker(self._emit, run=run, initial_delay_ms=initial_delay_ms)
        topic.before_writing = self._follow

    @property
    def ring(self) -> Ring:
        """The newest events."""
        self._follow()
        return self._ring

    @classmethod
    def configured(
        cls,
        config: BrokerConfig,
        topics: Topics,
        timers: Timers,
        *,
        run: str,
        broker_of: Callable[[int], int],
        find_group: Callable[[str], AnyGroup | None],
        activities: Activities,
        on_defect: Callable[[BaseException, object], None],
    ) -> History:
        """The history that a configuration asks for; `run` identifies this life of the process."""
        return cls(
            Ring(max_events=config.kshim_history_max_events, max_bytes=config.kshim_history_max_bytes),
            EventsTopic(
                lambda: topics.named(EVENTS_TOPIC),
                partial(timers.after, name="history"),
                lambda error: on_defect(error, EVENTS_TOPIC),
            ),
            is_told=config.kshim_history_topic_enable == "true",
            run=run,
            broker_of=broker_of,
            initial_delay_ms=config.group_initial_rebalance_delay_ms,
            find_group=find_group,
            activities=activities,
            on_defect=on_defect,
        )

    def observe(self, event: Event) -> None:
        """Take in an event of the coordinator."""
        if type(event) not in self._tracker.followers:
            return
        activity = self._activity(event) if isinstance(event, _OF_PROCESSES) else None
        changes = self._changes_before(event) if self._topic_changes else ()
        self._pending.append((event, self._broker_of(event.partition), activity, changes))
        if self.is_told:
            self._topic.expect()
            self._learn(event)
        if len(self._pending) >= PENDING_MAX_EVENTS:
            self._follow()

    def fault_injected(self, group_id: str, name: str) -> None:
        """A fault acted on a request of a group: its next events name it."""
        self._pending.append((InjectedFault(group_id, name), -1, None, ()))
        if len(self._pending) >= PENDING_MAX_EVENTS:
            self._follow()

    def topic_changed(self, topic: str, partitions_before: int, partitions: int, now: Now) -> None:
        """A topic was created (0 before), deleted (0 now) or got partitions."""
        self._topic_changes.add(topic, partitions_before, partitions, now)

    def stopping(self, groups: Iterable[AnyGroup], now: Now) -> None:
        """The broker is being stopped in good order: say so in the topic of each group that has members."""
        if not self.is_told:
            return
        for group in groups:
            if group.member_count:
                self.observe(
                    BrokerStopping(
                        **group.event(now),
                        state=group.state,
                        member_count=group.member_count,
                        protocol_type=group.protocol_type,
                    )
                )

    def tell(self, *, is_new: bool) -> None:
        """Write to the topic all that is known, and from now on what comes, too. `is_new`: the topic has nothing yet."""
        self._follow()
        if is_new or not self.is_told:
            self._readers = {
                name for name in self._tracker.groups if (group := self._find_group(name)) and is_reader(group)
            }
            self._topic.begin_again(event for event in self._ring if event.group_id not in self._readers)
        self.is_told = True
        self._topic.write_all()

    def close(self) -> None:
        """Write what still waits."""
        self._follow()
        self._topic.write_all()

    def _follow(self) -> None:
        pending, self._pending = self._pending, []
        self.followed_count += len(pending)
        for event, broker, activity, changes in pending:
            try:
                self._tracker.observe(event, broker, activity, changes)
            except Exception as error:  # one event that cannot be followed must not cost the others
                self._on_defect(error, event)

    def _activity(self, event: MemberAdded | MemberReplaced | MemberRemoved) -> Activity | None:
        """Of the process that an event is about: the one that came or went, not the one that replaces it."""
        member = event.member
        member_id = event.replaced_member_id if isinstance(event, MemberReplaced) else member.member_id
        activity = self._activities.of(member_id, member.client_id, member.client_host)
        if not isinstance(event, MemberAdded):
            self._activities.forget(member_id)
        return activity

    def _changes_before(self, event: Event) -> tuple[TopicChange, ...]:
        """Of topics that the group reads, or the member that joined again, if the event begins a rebalance."""
        if not isinstance(event, (Transition, EpochRaised)):
            return ()
        if isinstance(event, Transition) and event.new is not GroupState.PREPARING_REBALANCE:
            return ()
        group = self._find_group(event.group_id)
        wanted = (topics_of(event.offer) if isinstance(event.offer, Offer) else None) or ()
        return self._topic_changes.until(
            event.now, lambda topic: topic in wanted or (group is not None and group.is_subscribed_to(topic))
        )

    def _learn(self, event: Event) -> None:
        """Check whether the group of an event reads the topic, while its members still exist."""
        if isinstance(event, _TELLING) or (
            isinstance(event, MemberAdded) and event.group_id not in self._tracker.groups
        ):
            group_id = event.group_id
        else:
            return
        group = self._find_group(group_id)
        if group is None or not group.member_count:
            return
        if is_reader(group):
            self._readers.add(group_id)
        else:
            self._readers.discard(group_id)

    def _emit(self, event: HistoryEvent) -> None:
        self._ring.append(event)
        if self.is_told and event.group_id not in self._readers:
            self._topic.add(event)
        if event.type == "group_dead":
            self._readers.discard(event.group_id)


def is_reader(group: AnyGroup) -> bool:
    """Whether a member subscribes to the topic of the history; members by pattern name what they have found.

    Before the first vote every protocol that a member of a classic group offers counts.
    """
    if not isinstance(group, Group):
        return group.is_subscribed_to(EVENTS_TOPIC)
    if group.topics is not None:
        return EVENTS_TOPIC in group.topics
    if group.protocol_type != CONSUMER_PROTOCOL_TYPE:
        return False
    offered = [metadata for member in group.members.values() for metadata in member.protocols.values()]
    return any(EVENTS_TOPIC in (subscribed_topics([metadata]) or ()) for metadata in offered)
