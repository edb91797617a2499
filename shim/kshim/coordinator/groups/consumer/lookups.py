"""Look-ups of the topics that a group's expressions stand for: when a heartbeat asks for one, and what its result changes."""

from __future__ import annotations

from collections.abc import Mapping

from kshim.coordinator.groups.consumer.append_plan import append_plan
from kshim.coordinator.groups.consumer.expressions import Asked, lookup_due
from kshim.coordinator.groups.consumer.group import ConsumerGroup
from kshim.coordinator.groups.consumer.plan import Plan
from kshim.coordinator.groups.events import Cause, Trigger
from kshim.coordinator.groups.shard import Shard
from kshim.coordinator.step import Lookup, RequestContext, Step
from kshim_protocol.errors import ErrorCode


def look_up_if_due(
    shard: Shard, group: ConsumerGroup, context: RequestContext, step: Step, *, is_new: bool = False
) -> None:
    """Ask for the topics of all expressions of the group, unless that has been asked and not answered.

    `is_new`: an expression came with this heartbeat.
    """
    version, now = shard.topics.version, context.now
    if lookup_due(
        group.expression_members,
        group.expressions,
        group.asked,
        is_new=is_new,
        topics_version=version,
        now_ms=now.wall_ms,
        interval_ms=shard.config.group_consumer_regex_refresh_interval_ms,
    ):
        group.asked = Asked(version, is_waiting=True)
        wanted = Lookup(group.group_id, frozenset(group.expression_members), version, now, context.may_describe)
        step.lookups = (*step.lookups, wanted)


def expressions_resolved(shard: Shard, lookup: Lookup, found: Mapping[str, frozenset[str]], step: Step) -> None:
    """A look-up is answered. A group that is gone by now needs it no more."""
    group = shard.groups.get(lookup.group_id)
    if not isinstance(group, ConsumerGroup):
        return
    group.asked = group.asked._replace(is_waiting=False)
    trigger = Trigger(cause=Cause.EXPRESSION_RESOLVED, detail="regular expressions stand for other topics")
    plan = Plan(group, shard.hash_of_topics)
    plan.put_topics(found, lookup.version, lookup.now.wall_ms, trigger)

    def written(step: Step) -> None:
        pass

    def failed(error: ErrorCode, step: Step) -> None:
        group.asked = Asked()  # the next heartbeat asks again

    if plan.updates:
        append_plan(shard, plan, lookup.now, step, written=written, failed=failed)
