"""What was done to the topics of a group before a member joined again, as far as the source tells."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kshim.explain.facts import Fact, Kind, TopicChange
from kshim.explain.lives import Group

_TOLD = 3
"""So many changes are told."""


def is_unchanged(fact: Fact) -> bool:
    """Whether it is known that nothing had been done to any topic of the group for ten minutes."""
    return fact.topic_changes == ()


def unheard(fact: Fact, group: Group) -> Iterator[TopicChange]:
    """Changes since which no member of the group had joined again before this one, or been told by the broker."""
    if fact.topic_changes:
        asked = (each.ts_ms for each in group.facts if each.kind is Kind.REQUESTED and each.ts_ms < fact.ts_ms)
        last_ms = max(asked, default=0)
        yield from (change for change in fact.topic_changes if change.changed_ms > last_ms)


def texts_of(changes: Iterable[TopicChange]) -> str:
    """What happened to topics; of many, to the first."""
    texts = [_text_of(change) for change in changes]
    more = [f"{len(texts) - _TOLD} more changed"] if len(texts) > _TOLD else []
    return ", ".join([*texts[:_TOLD], *more])


def _text_of(change: TopicChange) -> str:
    if change.is_new:
        return f"{change.topic} was created"
    if change.is_deleted:
        return f"{change.topic} was deleted"
    return f"{change.topic} had {change.partitions_before} partitions and got {change.partitions}"


def is_due_to_topics(fact: Fact) -> bool:
    """Whether what a member subscribes to changed as topics were created and deleted, and in nothing else: as a pattern does."""
    found = fact.subscription
    if found is None or not (found.added or found.removed):
        return False
    changes = fact.topic_changes or ()
    created = {change.topic for change in changes if change.is_new}
    deleted = {change.topic for change in changes if change.is_deleted}
    return created.issuperset(found.added) and deleted.issuperset(found.removed)
