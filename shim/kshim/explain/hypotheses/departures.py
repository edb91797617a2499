"""Why one member was gone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kshim.explain.candidate import Candidate
from kshim.explain.causes import Cause
from kshim.explain.client_reasons import Says, says
from kshim.explain.disturbances import Disturbance, What
from kshim.explain.facts import HEARTBEAT_MS, POLL_MS, UNSEEN, Committed, Kind, Known
from kshim.explain.life import Life
from kshim.explain.member_ids import keeps_id
from kshim.explain.weigh import Evidence, Step

_ADMIN = "admin"
"""Why a member is gone, in the events of kshim."""
_OFFSET_COMMIT = "OffsetCommit"
_TIMER_MS = 200
"""How much later than it is due a broker may notice that a session has expired."""
_PROCESS_MS = 1_000
"""How long it takes, mostly more, to stop a process and to start another one, which joins."""
_TOOK_ITS_PLACE = "a process with its instance id took its place within the session timeout"
_AT_ONCE_MS = 500
"""Another process cannot be there so soon after the last commit of the one before it, unless both run."""
_MISSED = 3
"""Who has missed so many of its usual commits has stopped committing."""
_LATE = 1.5
"""A commit that has not come for so many times the usual pause is late."""
_AUTO_COMMIT_MS = 5_000
"""Default of `auto.commit.interval.ms`: who commits that often does so by a timer, and as it closes."""
_CLOSING_MS = 50
"""A connection that is closed so soon after a commit is rarely that of a process that was killed just then."""
_EARLY, _DUE = 0.93, 1.12
"""A commit that comes before, or after, these shares of the usual pause is no regular one."""


class _Seen(NamedTuple):
    """What is known of a departure."""

    life: Life
    kind: Kind
    is_observed: bool
    is_unseen: bool
    """Whether nothing is known of how it went."""
    says: Says
    is_static: bool
    was_stopped: bool | None
    """Whether it had said that it was being stopped, as static members do with the new protocol; None: its client would not say so."""
    is_open: bool | None
    """Whether the connection outlived the silence; None: unknown."""
    closed_by: str | None
    last_api: str | None
    closed_in_order: bool | None
    """Whether it ended with a commit, as a consumer that closes, or without one that it would have sent; None: unknown."""
    is_last_regular: bool
    """Whether its last commit came when its timer was due, and not as it closed."""
    stopped_fetching: bool | None
    """Whether it had gone on sending requests without fetching, for about `max.poll.interval.ms`."""
    stopped_committing: bool | None
    """The same of commits, where it had committed regularly."""
    uncommitted_ms: int | None
    """How long it had not committed, where that tells something: for much longer than usual, or hardly for any time."""
    has_outlived: bool
    """Whether a member that was replaced had stopped committing for longer than its session, which went on."""
    has_overlap: bool
    """Whether its client joined again before the session expired."""
    is_same: bool | None
    """Whether the same process came back; None: unknown, or nobody came."""
    is_back: bool
    is_in_turn: bool
    """Whether the first record without it has its successor: no rebalance was over meanwhile."""
    is_back_soon: bool
    stays_away: bool
    """Whether it has not come back for longer than it was silent: before that, it says nothing."""
    was_assigning: bool
    was_revoking: bool
    """Whether it had been told to give up partitions, and had not."""
    went_on: bool
    """Whether its process sent other requests for long when its heartbeats had ended."""


def candidates_of_departure(disturbance: Disturbance, known: Known) -> Iterator[Candidate]:
    """The causes that end one membership."""
    life = disturbance.life
    assert life is not None
    assert life.gone is not None
    seen = _seen(life, known)
    weighing = _OF_UNSEEN if life.gone.reason == UNSEEN else _OF_KIND[life.gone.kind]
    is_by_admin = life.gone.reason == _ADMIN or seen.says is Says.REMOVED_BY_ADMIN
    # Of that the broker was told; what the process did then follows from it.
    for hypothesis in [_removed_by_admin] if is_by_admin else weighing:
        cause, prior, evidence = hypothesis(seen)
        yield Candidate(cause, (disturbance,), tuple(each for each in evidence if each is not None), prior)


def evidence_for(each: Disturbance, known: Known, *causes: Cause) -> tuple[Evidence, ...]:
    """The evidence on a departure alone of the cause that fits best of these."""
    candidates = [one for one in candidates_of_departure(each, known) if one.cause in causes]
    return max(candidates, key=lambda one: one.weight).evidence if candidates else ()


def _seen(life: Life, known: Known) -> _Seen:
    gone = life.gone
    assert gone is not None
    activity = life.activity
    member_id = life.member.member_id
    session_ms = known.session_ms(member_id)
    back = life.next.joined if life.next is not None else None
    is_open = stopped_fetching = stopped_committing = uncommitted_ms = None
    has_outlived = False
    if gone.committed is not None:
        quiet_ms, usual_ms = life.uncommitted_ms, gone.committed.usual_ms
        if usual_ms is not None:
            has_missed = quiet_ms > _MISSED * usual_ms
            # It leaves, or sends no more heartbeats, when its poll takes too long; who was quiet for longer had other reasons.
            poll_ms = known.rebalance_ms(member_id)
            longest_ms = poll_ms + _MISSED * usual_ms + HEARTBEAT_MS + POLL_MS
            until_ms = life.silent_ms(known) if gone.is_observed else gone.ts_ms
            # A client may commit once more after its last poll, and one that is closed commits as it leaves.
            shortest_ms = 0.8 * poll_ms
            has_stopped = has_missed
            if gone.kind is Kind.LEFT:
                shortest_ms = min(shortest_ms, poll_ms - usual_ms)
                is_timed = usual_ms <= _AUTO_COMMIT_MS + _AT_ONCE_MS
                has_stopped = quiet_ms > (usual_ms + _AT_ONCE_MS if is_timed else _LATE * usual_ms)
            quiet_until_ms = until_ms - gone.ts_ms + quiet_ms
            if quiet_until_ms <= shortest_ms:
                stopped_committing = False
            elif has_stopped and quiet_until_ms <= longest_ms:
                stopped_committing = True
            # A commit may have been due as long ago as there is between two; then a process was stopped and another one started.
            has_ended = quiet_ms > max(usual_ms + _PROCESS_MS, _LATE * usual_ms)
            unrenewed_ms = gone.ts_ms - max(gone.committed.last_ms, life.renewed_ms)
            has_outlived = gone.kind is Kind.REPLACED and has_missed and unrenewed_ms > session_ms + _TIMER_MS
            if not gone.committed.is_none:
                uncommitted_ms = quiet_ms if has_ended or quiet_ms < _AT_ONCE_MS else None
    if activity is not None:
        is_open = activity.closed_ms is None or activity.closed_ms > activity.last_request_ms + session_ms
        if activity.last_fetch_ms is not None:
            stopped_fetching = activity.last_request_ms - activity.last_fetch_ms > 0.8 * known.rebalance_ms(member_id)
    return _Seen(
        life=life,
        kind=gone.kind,
        is_observed=gone.is_observed,
        is_unseen=gone.reason == UNSEEN,
        says=says(gone.client_reason),
        is_static=life.member.instance_id is not None,
        was_stopped=_was_stopped(life),
        is_open=is_open,
        closed_by=None if activity is None else activity.closed_by,
        last_api=None if activity is None else activity.last_api,
        closed_in_order=_closed_in_order(life, session_ms),
        is_last_regular=_is_regular(gone.committed),
        stopped_fetching=stopped_fetching,
        stopped_committing=stopped_committing,
        uncommitted_ms=uncommitted_ms,
        has_outlived=has_outlived,
        has_overlap=(back is not None and back.ts_ms < gone.ts_ms) or bool(life.refused),
        is_same=life.is_same_process_as_next(known),
        is_back=back is not None,
        is_in_turn=back is not None and not gone.is_observed and back.source == gone.source,
        is_back_soon=back is not None and life.away_ms <= life.return_ms(known),
        stays_away=back is None and known.end_ms - gone.ts_ms > gone.ts_ms - life.silent_ms(known),
        was_assigning=gone.state == "CompletingRebalance",
        was_revoking=gone.told_ms is not None,
        went_on=activity is not None and gone.ts_ms - activity.last_request_ms < session_ms - HEARTBEAT_MS - POLL_MS,
    )


def _closed_in_order(life: Life, session_ms: int) -> bool | None:
    """A consumer that closes commits what it has processed, whenever its last commit was, and ends. Else commits come regularly, between heartbeats."""
    gone, activity = life.gone, life.activity
    assert gone is not None
    if activity is not None:
        if activity.last_api != _OFFSET_COMMIT or activity.closed_ms is None:
            return None
        if activity.closed_ms - activity.last_request_ms <= _CLOSING_MS:
            return True
        usual_ms = None if gone.committed is None else gone.committed.usual_ms
        # Who commits every second ends within a second of a commit, however it ends.
        if activity.closed_ms - activity.last_request_ms > min(_PROCESS_MS, (usual_ms or 4 * _PROCESS_MS) / 4):
            return False
        return None if _is_regular(gone.committed) else True
    found = gone.committed
    if found is None or found.is_none or not gone.is_observed:
        return None
    is_early = _is_early(found)
    if gone.kind is not Kind.EXPIRED:
        return True if is_early else None
    since_ms = gone.ts_ms - session_ms - found.last_ms
    if abs(since_ms) <= _TIMER_MS:
        return True if is_early or found.before_ms is None else None
    # A heartbeat was last. Who had committed just before would have had something to commit.
    return False if found.usual_ms is not None and 0 < since_ms <= found.usual_ms else None


def _is_early(found: Committed | None) -> bool:
    """Whether the last commit of a member that commits by a timer came ahead of it."""
    if (
        found is None
        or found.before_ms is None
        or found.usual_ms is None
        or found.usual_ms > _AUTO_COMMIT_MS + _AT_ONCE_MS
    ):
        return False
    return found.last_ms - found.before_ms < _EARLY * found.usual_ms


def _is_regular(found: Committed | None) -> bool:
    """Whether the last commit of a member that commits by a timer came when that was due."""
    if found is None or found.before_ms is None or found.usual_ms is None or _is_early(found):
        return False
    return found.usual_ms <= _AUTO_COMMIT_MS + _AT_ONCE_MS and found.last_ms - found.before_ms < _DUE * found.usual_ms


def _was_stopped(life: Life) -> bool | None:
    if life.stopped is not None:
        return True
    says_so = life.member.instance_id is not None and keeps_id(life.member.member_id)
    return False if says_so else None


_Weighed = tuple[Cause, float, tuple[Evidence | None, ...]]


def _if(condition: bool | None, text: str, step: Step, *, is_observed: bool = True) -> Evidence | None:
    return Evidence(text, step, is_observed) if condition else None


def _closed(seen: _Seen, step: Step) -> Evidence | None:
    return _if(seen.closed_in_order, "its last request was a commit, as of a consumer that closes", step)


def _ended_uncommitted(seen: _Seen, step: Step) -> Evidence | None:
    return _if(seen.closed_in_order is False, "it did not commit when it ended", step)


def _committed_when_due(seen: _Seen, step: Step) -> Evidence | None:
    is_known = seen.is_last_regular and seen.closed_in_order is None
    return _if(is_known, "its last commit came when it was due, and none as it ended", step, is_observed=False)


def _gone(seen: _Seen, how: str) -> Evidence:
    return Evidence("it is in one record of the group and not in the next" if seen.is_unseen else how, Step.NEUTRAL)


def _is_late(seen: _Seen) -> bool:
    """Whether its client was not back before its session had expired, where nothing else tells of its process."""
    is_unknown = seen.is_same is None and seen.is_open is None and not seen.is_unseen
    # Who stands still goes on at any time, and not just when its session has expired.
    is_at_once = seen.is_static and seen.life.away_ms <= _AT_ONCE_MS
    return seen.is_back and is_unknown and not seen.has_overlap and not seen.is_in_turn and not is_at_once


def _same_process(seen: _Seen, step: Step) -> Evidence | None:
    return _if(seen.is_same is True, "the same process joined again", step)


def _other_process(seen: _Seen, step: Step) -> Evidence | None:
    return _if(seen.is_same is False, "a new process joined in its place", step)


def _no_return(seen: _Seen, step: Step) -> Evidence | None:
    return _if(seen.stays_away, "it has not joined again", step)


def _was_stopped_in_order(seen: _Seen, step: Step) -> Evidence | None:
    return _if(seen.was_stopped, "it said that it was being stopped", step)


def _stopped_committing(seen: _Seen, step: Step) -> Evidence | None:
    text = "it had stopped committing max.poll.interval.ms before"
    return _if(seen.stopped_committing, text, step, is_observed=False)


def _committed_until_then(seen: _Seen, step: Step) -> Evidence | None:
    is_known = seen.uncommitted_ms is not None and seen.uncommitted_ms < _AT_ONCE_MS
    return _if(is_known, "it had committed until another process took its place", step, is_observed=False)


def _committed_nothing(seen: _Seen, step: Step) -> Evidence | None:
    is_known = seen.uncommitted_ms is not None and seen.uncommitted_ms >= _PROCESS_MS and not seen.has_outlived
    return _if(is_known, "it had stopped committing before another process took its place", step, is_observed=False)


def _restart(seen: _Seen) -> _Weighed:
    return (
        Cause.RESTART,
        0.0,
        (
            _gone(seen, "it left the group with LeaveGroup"),
            _if(seen.is_back_soon and seen.is_same is not True, "its client joined again soon", Step.LIKELY),
            _other_process(seen, Step.LIKELY),
            # A process that ends cannot go on.
            _same_process(seen, Step.MUST_NOT),
            _if(not seen.is_back_soon, "it has not joined again soon", Step.MUST_NOT),
            _if(seen.says is Says.CLOSES, "it said that it was being closed", Step.LIKELY),
            _if(seen.says is Says.POLL_TIMEOUT, "it said that its polls took too long", Step.MUST_NOT),
            _stopped_committing(seen, Step.UNLIKELY),
        ),
    )


def _scale_down(seen: _Seen) -> _Weighed:
    return (
        Cause.SCALE_DOWN,
        0.0,
        (
            _gone(seen, "it left the group with LeaveGroup"),
            _if(not seen.is_back_soon, "it has not joined again soon", Step.LIKELY),
            _if(seen.is_back_soon, "its client joined again soon", Step.MUST_NOT),
            _same_process(seen, Step.MUST_NOT),
            _if(seen.says is Says.CLOSES, "it said that it was being closed", Step.LIKELY),
            _if(seen.says is Says.POLL_TIMEOUT, "it said that its polls took too long", Step.MUST_NOT),
            # A consumer that does not poll leaves, too, and stays away for as long as it does not poll.
            _if(seen.stopped_fetching, "it had stopped fetching max.poll.interval.ms before", Step.UNLIKELY),
            _stopped_committing(seen, Step.UNLIKELY),
        ),
    )


def _left_for_polls(seen: _Seen) -> _Weighed:
    return (
        Cause.SLOW_POLL,
        -1.5,
        (
            _if(
                seen.says is Says.POLL_TIMEOUT and seen.is_observed,
                "it said that its polls took too long",
                Step.MUST,
            ),
            # A broker that was not there, or a pause, keeps a member as long from committing.
            _if(
                seen.says is Says.POLL_TIMEOUT and not seen.is_observed,
                "it had not committed for longer than its session timeout",
                Step.LIKELY,
            ),
            # Clients without reasons leave as silently when max.poll.interval.ms is over, and their process goes on.
            _same_process(seen, Step.LIKELY if seen.is_unseen else Step.MUST),
            _other_process(seen, Step.UNLIKELY),
            _if(seen.stopped_fetching, "it had stopped fetching max.poll.interval.ms before", Step.MUST),
            _if(seen.stopped_fetching is False, "it had fetched until then", Step.UNLIKELY),
            _stopped_committing(seen, Step.MUST),
            _if(seen.stopped_committing is False, "it had committed until then", Step.UNLIKELY, is_observed=False),
            _if(seen.says is Says.CLOSES, "it said that it was being closed", Step.MUST_NOT),
        ),
    )


def _removed_by_admin(_seen: _Seen) -> _Weighed:
    return Cause.REMOVED_BY_ADMIN, 0.0, (Evidence("an administrator had it removed", Step.MUST),)


def _unsubscribed(seen: _Seen) -> _Weighed:
    is_known = seen.says is Says.UNSUBSCRIBES
    return (
        Cause.SUBSCRIPTION_CHANGED,
        -3.0,
        (_if(is_known, "it said that it had unsubscribed", Step.MUST), _same_process(seen, Step.LIKELY)),
    )


def _killed(seen: _Seen) -> _Weighed:
    return (
        Cause.KILLED,
        0.0,
        (
            _gone(seen, "its session expired"),
            _was_stopped_in_order(seen, Step.MUST_NOT),
            # The operating system closes the sockets of a process that ends, however it ends.
            _if(seen.is_open is False, "its connection was closed when it fell silent", Step.MUST),
            _if(seen.is_open, "its connection stayed open while it was silent", Step.MUST_NOT),
            _if(seen.has_overlap, "its client joined again before the session expired", Step.LIKELY),
            # Who stands still comes back after its session, when the others have joined without it.
            _if(
                seen.is_in_turn and not seen.is_unseen,
                "its client joined again while the others waited for it",
                Step.LIKELY,
            ),
            # Supervisors start what was killed again; who stops static members often wants fewer.
            _no_return(seen, Step.NEUTRAL if seen.is_static else Step.LIKELY),
            _same_process(seen, Step.MUST_NOT),
            _other_process(seen, Step.LIKELY),
            _if(seen.is_unseen and seen.is_back_soon, "its client joined again soon", Step.LIKELY),
            # Supervisors start a process again within seconds, while its old session lasts.
            _if(_is_late(seen), "its client joined again only when the session had expired", Step.UNLIKELY),
            _closed(seen, Step.UNLIKELY) if seen.is_static else None,
            _ended_uncommitted(seen, Step.LIKELY) if seen.is_static else None,
            _committed_when_due(seen, Step.LIKELY) if seen.is_static else None,
            # The system resets a connection if the process has not read all of what came.
            _if(seen.closed_by == "reset", "the connection was reset", Step.LIKELY),
        ),
    )


def _paused(seen: _Seen) -> _Weighed:
    return (
        Cause.PAUSED,
        0.0,
        (
            _gone(seen, "its session expired"),
            _was_stopped_in_order(seen, Step.MUST_NOT),
            _if(seen.is_open, "its connection stayed open while it was silent", Step.LIKELY),
            _if(seen.is_open is False, "its connection was closed when it fell silent", Step.MUST_NOT),
            # Who joins before its session has expired has not been silent for that long.
            _if(seen.has_overlap, "its client joined again before the session expired", Step.MUST_NOT),
            _if(seen.is_in_turn, "its client joined again while the others waited for it", Step.UNLIKELY),
            _if(_is_late(seen), "its client joined again only when the session had expired", Step.LIKELY),
            _if(seen.was_revoking and seen.went_on, "it sent other requests meanwhile", Step.MUST_NOT),
            _same_process(seen, Step.LIKELY),
            _other_process(seen, Step.MUST_NOT),
            _no_return(seen, Step.UNLIKELY),
            _committed_when_due(seen, Step.LIKELY) if seen.is_static else None,
            _closed(seen, Step.UNLIKELY) if seen.is_static else None,
        ),
    )


def _static_stopped(seen: _Seen) -> _Weighed:
    return (
        Cause.STATIC_STOPPED,
        0.0,
        (
            _if(not seen.is_static, "it is not a static member: those leave when they stop", Step.MUST_NOT),
            _was_stopped_in_order(seen, Step.MUST),
            _if(seen.was_stopped is False, "it did not say that it was being stopped", Step.MUST_NOT),
            _if(seen.is_open is False, "its connection was closed when it fell silent", Step.MUST),
            _if(seen.is_open, "its connection stayed open while it was silent", Step.MUST_NOT),
            # A consumer that closes commits last, if it commits by itself. One that is killed rarely dies after a commit.
            _closed(seen, Step.LIKELY),
            _ended_uncommitted(seen, Step.UNLIKELY),
            _same_process(seen, Step.MUST_NOT),
            _no_return(seen, Step.LIKELY),
            _if(seen.is_back_soon, "its client joined again soon", Step.UNLIKELY),
            _if(seen.closed_by == "reset", "the connection was reset", Step.UNLIKELY),
        ),
    )


def _static_slow(seen: _Seen) -> _Weighed:
    return (
        Cause.STATIC_RESTART,
        0.0,
        (
            _if(not seen.is_static, "it is not a static member: those leave when they stop", Step.MUST_NOT),
            _if(not seen.is_back_soon, "it has not joined again soon", Step.MUST_NOT),
            _was_stopped_in_order(seen, Step.MUST),
            _if(seen.was_stopped is False, "it did not say that it was being stopped", Step.MUST_NOT),
            _if(seen.is_open is False, "its connection was closed when it fell silent", Step.MUST),
            _if(seen.is_open, "its connection stayed open while it was silent", Step.MUST_NOT),
            _closed(seen, Step.LIKELY),
            _ended_uncommitted(seen, Step.UNLIKELY),
            _same_process(seen, Step.MUST_NOT),
            _if(seen.is_back_soon, "its client joined again soon", Step.LIKELY),
            _if(seen.closed_by == "reset", "the connection was reset", Step.UNLIKELY),
        ),
    )


def _static_restart_refused(seen: _Seen) -> _Weighed:
    # A client that is stopped without a word: its successor is refused until the session has expired.
    may_be = seen.is_static and seen.was_stopped is None and bool(seen.life.refused)
    return (
        Cause.STATIC_RESTART,
        0.5,
        (
            _if(not may_be, "nobody asked for its instance id before its session expired", Step.MUST_NOT),
            _if(seen.has_overlap, "its successor asked for its instance id before the session expired", Step.LIKELY),
            _if(seen.is_open is False, "its connection was closed when it fell silent", Step.MUST),
            _if(seen.is_open, "its connection stayed open while it was silent", Step.MUST_NOT),
            _same_process(seen, Step.MUST_NOT),
            _no_return(seen, Step.MUST_NOT),
            _if(seen.closed_by == "reset", "the connection was reset", Step.UNLIKELY),
        ),
    )


def _expired_for_polls(seen: _Seen) -> _Weighed:
    return (
        Cause.SLOW_POLL,
        -2.0,
        (
            # Static members do not leave when their polls take too long: they stop their heartbeats.
            # Some clients send no heartbeats while they wait for the application to give up partitions.
            _if(seen.was_revoking, "it had been told to give up partitions when its heartbeats ended", Step.MUST),
            _if(
                not seen.is_static and not seen.was_revoking,
                "it is not a static member: those leave when their polls are too slow",
                Step.UNLIKELY,
            ),
            _if(
                seen.is_static and seen.stopped_fetching,
                "it had stopped fetching long before its heartbeats",
                Step.MUST,
            ),
            _stopped_committing(seen, Step.MUST) if seen.is_static else None,
            _if(seen.stopped_fetching is False, "it fetched as long as it sent heartbeats", Step.MUST_NOT),
            _if(seen.is_open is False, "its connection was closed when it fell silent", Step.MUST_NOT),
            _if(
                seen.life.next is not None
                and seen.life.next.joined is not None
                and says(seen.life.next.joined.client_reason) is Says.POLL_TIMEOUT,
                "it said that its polls took too long when it joined again",
                Step.MUST,
            ),
            _other_process(seen, Step.MUST_NOT),
        ),
    )


def _expired_leader(seen: _Seen) -> _Weighed:
    return (
        Cause.SLOW_LEADER,
        -2.0,
        (
            _if(seen.was_assigning, "its session expired while its assignment was awaited", Step.MUST),
            _if(not seen.was_assigning, "no assignment was awaited from it", Step.MUST_NOT),
            _if(seen.is_open is False, "its connection was closed when it fell silent", Step.MUST_NOT),
            # It is as alive as one that stands still, which rarely happens just between two requests.
            _if(
                seen.was_assigning and seen.is_open,
                "its connection stayed open while it was silent",
                Step.LIKELY,
            ),
            _same_process(seen, Step.LIKELY) if seen.was_assigning else None,
            _other_process(seen, Step.MUST_NOT),
        ),
    )


def _cut(seen: _Seen) -> _Weighed:
    # One member alone is rarely cut off; a host's members together are (hypotheses/fleet.py).
    return (
        Cause.NETWORK_CUT,
        -2.0,
        (
            _if(seen.is_open, "its connection stayed open while it was silent", Step.LIKELY),
            # What lies between may close connections, too, but then the process is still there.
            _if(
                seen.is_open is False and seen.is_same is not True,
                "its connection was closed when it fell silent",
                Step.MUST_NOT,
            ),
            _if(
                seen.is_open is False and seen.is_same is True,
                "its connection was closed, and the same process joined again",
                Step.MUST,
            ),
            _if(seen.has_overlap, "its client joined again before the session expired", Step.MUST_NOT),
            _other_process(seen, Step.MUST_NOT),
            _closed(seen, Step.UNLIKELY) if seen.is_static else None,
        ),
    )


def _removed_for_polls(seen: _Seen) -> _Weighed:
    return (
        Cause.SLOW_POLL,
        0.5,
        (
            _if("sync" not in _reason(seen), "it did not join within the rebalance timeout", Step.LIKELY),
            _if("sync" in _reason(seen), "it had joined in time", Step.UNLIKELY),
        ),
    )


def _removed_leader(seen: _Seen) -> _Weighed:
    return (
        Cause.SLOW_LEADER,
        -1.0,
        (
            _if("sync" in _reason(seen), "it did not send its assignment within the rebalance timeout", Step.LIKELY),
            _if("sync" not in _reason(seen), "no assignment was awaited from it", Step.MUST_NOT),
        ),
    )


def _paused_long(seen: _Seen) -> _Weighed:
    # A rebalance timeout shorter than the session: a pause ends the membership this way.
    return Cause.PAUSED, -1.5, (_same_process(seen, Step.LIKELY), _other_process(seen, Step.MUST_NOT))


def _rejoined_itself(seen: _Seen, step: Step) -> Evidence | None:
    gone = seen.life.gone
    activity = seen.life.activity
    is_own = gone is not None and activity is not None and activity.last_request_ms >= gone.ts_ms
    return _if(is_own and seen.last_api == "JoinGroup", "it joined itself, on its own connection", step)


def _is_heard_after(seen: _Seen, step: Step) -> Evidence | None:
    return _if(seen.life.is_heard_after, "its process was heard of when another one had taken its place", step)


def _outlived(seen: _Seen, step: Step) -> Evidence | None:
    text = "its heartbeats had gone on for longer than its session timeout after its last commit"
    return _if(seen.has_outlived, text, step, is_observed=False)


def _replaced_for_polls(seen: _Seen) -> _Weighed:
    # A static member does not leave when its poll takes too long: it joins anew when the poll is over.
    return (
        Cause.SLOW_POLL,
        -1.5,
        (
            _rejoined_itself(seen, Step.MUST),
            _outlived(seen, Step.MUST),
            # With the new protocol it says that it leaves for now, and its process goes on.
            _same_process(seen, Step.MUST) if seen.was_stopped else None,
        ),
    )


def _static_restart(seen: _Seen) -> _Weighed:
    return (
        Cause.STATIC_RESTART,
        0.0,
        (
            Evidence(_TOOK_ITS_PLACE, Step.LIKELY),
            _was_stopped_in_order(seen, Step.MUST),
            _same_process(seen, Step.MUST_NOT) if seen.was_stopped else None,
            _if(seen.is_open is False, "the old connection had been closed", Step.LIKELY),
            _if(seen.is_open, "the old process was still connected", Step.MUST_NOT),
            _if(_host_changed(seen), "the two are on different hosts", Step.UNLIKELY),
            _ended_uncommitted(seen, Step.UNLIKELY),
            _committed_until_then(seen, Step.UNLIKELY),
            _committed_nothing(seen, Step.LIKELY),
            _rejoined_itself(seen, Step.MUST_NOT),
            _is_heard_after(seen, Step.MUST_NOT),
            _outlived(seen, Step.UNLIKELY),
        ),
    )


def _duplicate(seen: _Seen) -> _Weighed:
    return (
        Cause.DUPLICATE_INSTANCE,
        -1.0,
        (
            _is_heard_after(seen, Step.MUST),
            # Kafka's log has a line whenever it refuses a request of the old process.
            _if(
                not seen.life.is_heard_after and _is_of_log(seen),
                "nothing was heard of the old process any more",
                Step.UNLIKELY,
            ),
            _was_stopped_in_order(seen, Step.MUST_NOT),
            _if(seen.is_open, "the old process was still connected", Step.MUST),
            _if(seen.is_open is False, "the old connection had been closed", Step.MUST_NOT),
            _if(_host_changed(seen), "the two are on different hosts", Step.LIKELY),
            _committed_until_then(seen, Step.LIKELY),
            _committed_nothing(seen, Step.UNLIKELY),
            _rejoined_itself(seen, Step.MUST_NOT),
            _outlived(seen, Step.UNLIKELY),
        ),
    )


def _replaced_killed(seen: _Seen) -> _Weighed:
    return (
        Cause.KILLED,
        # A supervisor that starts it again at once looks as an operator who does: only how it ended may tell.
        0.5,
        (
            Evidence(_TOOK_ITS_PLACE, Step.NEUTRAL),
            _was_stopped_in_order(seen, Step.MUST_NOT),
            _if(seen.is_open is False, "the old connection had been closed", Step.LIKELY),
            _if(seen.is_open, "the old process was still connected", Step.MUST_NOT),
            _committed_until_then(seen, Step.UNLIKELY),
            _committed_nothing(seen, Step.LIKELY),
            _rejoined_itself(seen, Step.MUST_NOT),
            _is_heard_after(seen, Step.MUST_NOT),
            _outlived(seen, Step.UNLIKELY),
            _if(seen.closed_by == "reset", "the connection was reset", Step.LIKELY),
            # A consumer that closes commits last, if it commits by itself.
            _closed(seen, Step.UNLIKELY),
            _ended_uncommitted(seen, Step.LIKELY),
            _if(seen.last_api in ("Heartbeat", "Fetch"), "its last request was not a commit", Step.LIKELY),
            _committed_when_due(seen, Step.LIKELY),
        ),
    )


def _reason(seen: _Seen) -> str:
    return seen.life.gone.reason if seen.life.gone is not None else ""


def _is_of_log(seen: _Seen) -> bool:
    gone = seen.life.gone
    return gone is not None and gone.is_observed and gone.source.startswith("log line")


def _host_changed(seen: _Seen) -> bool:
    new = seen.life.next
    return (
        new is not None
        and None not in (new.member.host, seen.life.member.host)
        and (new.member.host != seen.life.member.host)
    )


_LEFT = (_restart, _scale_down, _left_for_polls, _unsubscribed)
_OF_STATIC = (_static_stopped, _static_slow, _static_restart_refused)
_EXPIRED = (_killed, _paused, *_OF_STATIC, _expired_for_polls, _expired_leader, _cut)
_OF_UNSEEN = (*_LEFT, *_EXPIRED)
_OF_KIND = {
    Kind.LEFT: _LEFT,
    Kind.EXPIRED: _EXPIRED,
    Kind.REMOVED: (_removed_for_polls, _removed_leader, _paused_long),
    Kind.REPLACED: (_static_restart, _duplicate, _replaced_killed, _replaced_for_polls),
}

DEPARTURES = (What.DEPARTED, What.REPLACED)
