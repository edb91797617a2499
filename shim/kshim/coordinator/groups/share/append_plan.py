"""How a plan of a share group becomes true: its records in one batch, and what follows once they are in the log."""

from __future__ import annotations

from collections.abc import Callable

from kshim.coordinator.groups.events import AppendFailed
from kshim.coordinator.groups.shard import Shard
from kshim.coordinator.groups.share.plan import SharePlan
from kshim.coordinator.groups.share.updates import MemberMetadata, build_share_update
from kshim.coordinator.step import Now, Step
from kshim_protocol.errors import ErrorCode


def append_share_plan(
    shard: Shard,
    plan: SharePlan,
    now: Now,
    step: Step,
    *,
    written: Callable[[Step], None],
    failed: Callable[[ErrorCode, Step], None],
) -> None:
    """Write a plan of at least one update; then `written` is called with the group changed, or else `failed`."""
    group_id = plan.base.group_id

    def applied(_base_offset: int, step: Step) -> None:
        for update in plan.updates:
            shard.apply_share_update(group_id, update)
            if isinstance(update, MemberMetadata) and update.value is None:
                shard.deadlines.cancel(("session", group_id, update.member_id))
        if plan.topics_version is not None:
            shard.share_group(group_id).topics_version = plan.topics_version
        written(step)

    def not_written(error: ErrorCode, step: Step) -> None:
        step.events.append(AppendFailed(**plan.group.event(now), error=error, what="the changes of a heartbeat"))
        failed(error, step)

    pairs = [build_share_update(group_id, update) for update in plan.updates]
    shard.append(step, pairs, now, written=applied, failed=not_written)


def restart_share_session(shard: Shard, group_id: str, member_id: str, now: Now) -> None:
    """The member is alive now."""
    timeout_ms = shard.share_settings_of(group_id).session_timeout_ms
    shard.deadlines.set(("session", group_id, member_id), now.mono_ms + timeout_ms)
