"""What one input changes in a group: the updates, seen through as if they were applied, and why they are made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final

from kshim.coordinator.catalog import TopicCatalog
from kshim.coordinator.groups.classic.group import Group
from kshim.coordinator.groups.consumer.assignors.range import assign_ranges
from kshim.coordinator.groups.consumer.assignors.subscribers import Assignor, Subscriber
from kshim.coordinator.groups.consumer.assignors.uniform import assign_uniformly
from kshim.coordinator.groups.consumer.expressions import changes_topics
from kshim.coordinator.groups.consumer.group import JOIN_EPOCH, LEFT_FOR_NOW_EPOCH, ConsumerGroup, Member
from kshim.coordinator.groups.consumer.reconciliation import Owned, reconcile
from kshim.coordinator.groups.consumer.subscriptions import names_of, subscribed_ids, subscribed_names
from kshim.coordinator.groups.consumer.updates import (
    ExpressionTopics,
    GroupEpoch,
    MemberCurrent,
    MemberMetadata,
    MemberTarget,
    Resolved,
    TargetEpoch,
    Update,
)
from kshim.coordinator.groups.events import Cause, MemberRef, Trigger, Wish
from kshim_protocol.internal.consumer_group import (
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataValue,
    ConsumerGroupTargetAssignmentMetadataValue,
)

ASSIGNORS: Final[Mapping[str, Assignor]] = {"uniform": assign_uniformly, "range": assign_ranges}
"""By the names that members ask for. Of two that equally many ask for, the group has the first."""
DEFAULT_ASSIGNOR: Final = "uniform"

HashOfTopics = Callable[[frozenset[str]], int]
"""From the names of topics to what changes when these topics do."""


class Plan:
    """The updates of one input, in the order of their records; nothing else changes until they are in the log.

    `base` is the group as it is, `group` how it will be. `trigger` is why its epoch rises, None as long as it does not; `occasion()` what else
    happened that the epoch does not tell. `joined`, `replaced`
    (with the id before) and `removed` (with the cause) are the members that it is about.
    """

    def __init__(
        self,
        group: ConsumerGroup,
        hash_of_topics: HashOfTopics = lambda names: 0,
        *,
        default_assignor: str = DEFAULT_ASSIGNOR,
        occasion: Callable[[], Trigger] | None = None,
    ) -> None:
        self.base = group
        self.updates: list[Update] = []
        self._group = group
        self._unseen: list[Update] = []  # that `group` does not show yet
        self.trigger: Trigger | None = None
        self.occasion = occasion
        self.joined: list[MemberRef] = []
        self.replaced: list[tuple[MemberRef, str]] = []
        self.removed: list[tuple[MemberRef, Cause]] = []
        self.wishes: dict[str, Wish] = {}
        """What members that joined, or that changed it, subscribe to."""
        self.replaces: Group | None = None
        """The classic group that ends with it; its members, if it has some, are in `base` already."""
        self.topics_version: int | None = None  # of the topics that the group was compared with
        self._default_assignor = default_assignor
        self._assignor: str | None = None  # to the member that the plan is about
        self._hash_of_topics = hash_of_topics

    @property
    def group(self) -> ConsumerGroup:
        """How the group will be: to be asked for again after an update. Most heartbeats add one at last, and need no draft."""
        if self._unseen:
            if self._group is self.base:
                self._group = self.base.draft()
            for update in self._unseen:
                self._group.apply(update)
            self._unseen.clear()
        return self._group

    def add(self, update: Update) -> None:
        """One more update."""
        self._unseen.append(update)
        self.updates.append(update)

    def raise_epoch(self, trigger: Trigger) -> None:
        """A new group epoch, at most one a plan; the first trigger is the cause."""
        if self.trigger is None:
            self.trigger = trigger
            topics_hash = self._hash_of_topics(self._subscribed_names())
            self.add(GroupEpoch(ConsumerGroupMetadataValue(epoch=self.base.group_epoch + 1, metadata_hash=topics_hash)))

    def _subscribed_names(self) -> frozenset[str]:
        """All names to which somebody subscribes then. Most members come and go without changing them, and need no draft."""
        base, names = self.base, None
        if self._group is base:
            names = subscribed_names(base)
            for update in self._unseen:
                if isinstance(update, MemberMetadata):
                    names = _names_after(base, names, update, len(self._unseen))
                elif isinstance(update, ExpressionTopics):
                    names = None
                if names is None:
                    break
        return subscribed_names(self.group) if names is None else names

    def member(self, member_id: str) -> Member:
        """A member as it will be. When it joins, or says what it wants, that needs no draft."""
        if self._group is self.base:
            metadata = None
            for update in self._unseen:
                if isinstance(update, MemberMetadata) and update.member_id == member_id:
                    assert update.value is not None, "its current assignment is removed first, which ends the loop"
                    metadata = update.value
                elif not isinstance(update, GroupEpoch):
                    break
            else:
                before = self.base.members.get(member_id)
                if metadata is not None:
                    return Member(member_id, metadata) if before is None else before._replace(metadata=metadata)
                if before is not None:
                    return before
        return self.group.members[member_id]

    def look_at_topics(self, version: int) -> None:
        """Topics may have been made, deleted or grown since the group was compared with them: a new epoch, if they are
        any of the group's. `version` is that of all topics now.
        """
        if self.base.topics_version == version:
            return
        if self._hash_of_topics(subscribed_names(self.group)) != self.group.metadata_hash:
            self.raise_epoch(Trigger(cause=Cause.TOPICS_CHANGED, detail="topics of the group have changed"))
        self.topics_version = version
        if self.trigger is None:
            self.base.topics_version = version

    def put_member(self, member_id: str, metadata: ConsumerGroupMemberMetadataValue, trigger: Trigger) -> None:
        """A member joins, or says what it wants. Only what matters to an assignor raises the epoch."""
        group = self.group
        before = group.members.get(member_id)
        is_other_assignor = self._look_at_assignors(group, before, metadata.server_assignor)
        if before is not None and before.metadata == metadata:
            if is_other_assignor:
                self.raise_epoch(trigger)
            return
        self.add(MemberMetadata(member_id, metadata))
        names = () if before is None else before.metadata.subscribed_topic_names
        self.wishes[member_id] = Wish(
            metadata.subscribed_topic_names, metadata.server_assignor, None if before is None else names
        )
        if before is None:
            self.joined.append(Member(member_id, metadata).ref())
        expression = "" if before is None else before.metadata.subscribed_topic_regex or ""
        after = metadata.subscribed_topic_regex or ""
        self._forget_expression(expression)
        if (
            is_other_assignor
            or frozenset(metadata.subscribed_topic_names) != frozenset(names)
            or changes_topics(group.expressions, expression, after)
        ):
            self.raise_epoch(trigger)

    def _look_at_assignors(self, group: ConsumerGroup, member: Member | None, assignor: str | None) -> bool:
        """Whether the group's assignor is another one to a member that asks for `assignor`; a new target is computed with that."""
        if assignor is None and not group.assignor_members:
            self._assignor = self._default_assignor
            return False
        preferred = preferred_assignor(group, self._default_assignor)
        self._assignor = assignor_to(group, self._default_assignor, member, assignor)
        return self._assignor != preferred

    @property
    def assignor(self) -> str:
        """What a new target is computed with."""
        return self._assignor or preferred_assignor(self.group, self._default_assignor)

    def remove_members(self, leaving: Mapping[str, Trigger]) -> None:
        """Members, at least one, leave for good or are removed; why each does."""
        group = self.group
        gone = [group.members[member_id] for member_id in leaving]
        is_last = len(gone) == len(group.members)
        for member, trigger in zip(gone, leaving.values(), strict=True):
            client_reason = None if trigger.member is None else trigger.member.client_reason
            self.removed.append((member.ref(client_reason), trigger.cause))
            self._forget(member.member_id)
        for member in gone:
            self._forget_expression(member.metadata.subscribed_topic_regex or "")
        self.raise_epoch(next(iter(leaving.values())))
        if is_last:
            # There is nothing left to assign; and who joins next gets a target at once.
            self._set_target_epoch(0)

    def leave_for_now(self, member_id: str, occasion: Trigger) -> None:
        """A static member will be back: its partitions wait for it, and the epoch stays."""
        self.occasion = lambda: occasion
        current = self.group.members[member_id].current
        assigned = dict.fromkeys(
            current.assigned, JOIN_EPOCH
        )  # what a member commits in any epoch after its return is its
        self.add(
            MemberCurrent(
                member_id, current._replace(epoch=LEFT_FOR_NOW_EPOCH, assigned=assigned, pending_revocation={})
            )
        )

    def take_over(self, old_id: str, new_id: str, occasion: Trigger) -> None:
        """A static member is back, mostly under a new id: what was the old one's is its. It is as if it joined: epoch 0.

        What it wants itself comes after that, as in Kafka.
        """
        self.occasion = lambda: occasion
        old, target = self.group.members[old_id], self.group.targets.get(old_id, frozenset())
        self._forget(old_id)
        self.add(MemberMetadata(new_id, old.metadata))
        self.add(MemberTarget(new_id, target))
        self.add(MemberCurrent(new_id, old.current._replace(epoch=JOIN_EPOCH, previous_epoch=JOIN_EPOCH)))
        self.replaced.append((self.group.members[new_id].ref(), old_id))

    def _forget(self, member_id: str) -> None:
        self.add(MemberCurrent(member_id, None))
        self.add(MemberTarget(member_id, None))
        self.add(MemberMetadata(member_id, None))

    def put_topics(self, found: Mapping[str, frozenset[str]], version: int, now_ms: int, trigger: Trigger) -> None:
        """Expressions were looked up; those that nobody uses any more do not count. Other topics raise the epoch."""
        is_other = False
        for expression in sorted(found):
            if expression not in self.group.expression_members:
                continue
            before = self.group.expressions.get(expression)
            is_other |= (frozenset() if before is None else before.topics) != found[expression]
            self.add(ExpressionTopics(expression, Resolved(found[expression], version, now_ms)))
        if is_other:
            self.raise_epoch(trigger)

    def _forget_expression(self, expression: str) -> None:
        """A member may have the expression no more: what it stood for goes with the last one."""
        if expression and expression in self.group.expressions and expression not in self.group.expression_members:
            self.add(ExpressionTopics(expression, None))

    def compute_target(self, topics: TopicCatalog, now_ms: int, interval_ms: int) -> None:
        """A new target, if the epoch has risen since the last one and that is `interval_ms` old (Unix time)."""
        base = self.base
        if (base.target_epoch >= base.group_epoch and self.trigger is None) or now_ms - base.target_ms < interval_ms:
            return
        group = self.group
        names = subscribed_names(group)
        ids = {name: topic_id for name in names if (topic_id := topics.topic_id(name)) is not None}
        counts = {topic_id: topics.partition_count(name) or 0 for name, topic_id in ids.items()}
        expressions = dict(group.expressions)
        by_wish: dict[tuple[tuple[str, ...], str | None], frozenset[bytes]] = {}  # few wishes of many members
        members: dict[str, Subscriber] = {}
        for member_id, member in group.members.items():
            metadata = member.metadata
            wish = metadata.subscribed_topic_names, metadata.subscribed_topic_regex
            if wish not in by_wish:
                by_wish[wish] = frozenset(ids[name] for name in names_of(member, expressions) if name in ids)
            assigned = group.targets.get(member_id, frozenset())
            members[member_id] = Subscriber(by_wish[wish], assigned, metadata.instance_id)
        target = ASSIGNORS[self.assignor](members, counts)
        for member_id, partitions in target.items():
            if group.targets.get(member_id) != partitions:
                self.add(MemberTarget(member_id, partitions))
        self._set_target_epoch(now_ms)

    def _set_target_epoch(self, target_ms: int) -> None:
        value = ConsumerGroupTargetAssignmentMetadataValue(
            assignment_epoch=self.group.group_epoch, assignment_timestamp=target_ms
        )
        self.add(TargetEpoch(value))

    def reconcile(self, member_id: str, owned: Owned, topics: TopicCatalog) -> None:
        """A member's next step to its target. Before its first target it has none to go to."""
        member = self.member(member_id)
        group = self._group  # as good as the draft, where that has been made; else what the group has is not changed
        current = member.current
        found = reconcile(
            current,
            target_epoch=group.target_epoch,
            target=group.targets.get(member_id, frozenset()),
            owned=owned,
            is_free=group.is_free,
            subscribed=subscribed_ids(member, group.expressions, topics),
        )
        if found != current:
            self.add(MemberCurrent(member_id, found))


def _names_after(
    group: ConsumerGroup, names: frozenset[str], update: MemberMetadata, update_count: int
) -> frozenset[str] | None:
    """`names`, all of the group, after one of so many updates of its members; None: a name may have lost its last one."""
    member = group.members.get(update.member_id)
    wanted = () if update.value is None else update.value.subscribed_topic_names
    for name in () if member is None else member.metadata.subscribed_topic_names:
        if name not in wanted and group.name_members[name] <= update_count:
            return None
    return names if names.issuperset(wanted) else names.union(wanted)


def preferred_assignor(group: ConsumerGroup, default: str) -> str:
    """The assignor that most members ask for, of equal ones the first in ASSIGNORS; `default` when nobody asks for one."""
    votes = group.assignor_members
    return max(ASSIGNORS, key=lambda name: votes.get(name, 0)) if votes else default


def assignor_to(group: ConsumerGroup, default: str, member: Member | None, assignor: str | None) -> str:
    """The preferred assignor when a member, None: a new one, asks for `assignor` from now on.

    Of equal ones it is the one that nobody but the member asks for. A live 4.4 does it so, and compares it with
    `preferred_assignor` at each heartbeat: where two members ask for two assignors, the epoch rises with every heartbeat of one.
    """
    votes = Counter(group.assignor_members)
    before = None if member is None else member.metadata.server_assignor
    if before is not None:
        votes[before] -= 1
    known = {name for name, count in votes.items() if count}
    if assignor is not None:
        votes[assignor] += 1
    if not any(votes.values()):
        return default
    return max(ASSIGNORS, key=lambda name: (votes[name], name not in known))


def is_at_odds(group: ConsumerGroup, default: str, member: Member) -> bool:
    """Whether a heartbeat of this member alone raises the epoch, see `assignor_to`."""
    if len(group.assignor_members) < 2:
        return False
    return assignor_to(group, default, member, member.metadata.server_assignor) != preferred_assignor(group, default)
