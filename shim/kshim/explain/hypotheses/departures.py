"""Why one member was gone."""

from __future__ import annotations

from collections.abc import Iterator

from kshim.explain.candidate import Candidate
from kshim.explain.causes import Cause
from kshim.explain.client_reasons import Says
from kshim.explain.closed import may_be_closed
from kshim.explain.disturbances import Disturbance, What
from kshim.explain.facts import CLOSED, HEARTBEAT_MS, POLL_MS, UNSEEN, Kind, Known
from kshim.explain.hypotheses.conduct import AT_ONCE_MS, PROCESS_MS, Conduct, conduct_of
from kshim.explain.weigh import Evidence, Step

_ADMIN = "admin"
"""Why a member is gone, in the events of kshim."""
NOT_BACK = "it has not joined again"
_CLOSED_AS_SILENT = "its connection was closed when it fell silent"
_TOOK_ITS_PLACE = "a process with its instance id took its place within the session timeout"


def candidates_of_departure(disturbance: Disturbance, known: Known) -> Iterator[Candidate]:
    """The causes that end one membership."""
    life = disturbance.life
    assert life is not None
    assert life.gone is not None
    seen = conduct_of(life, known)
    weighing = _OF_UNSEEN if life.gone.reason == UNSEEN else _OF_KIND[life.gone.kind]
    if may_be_closed(life.gone, known):
        weighing = (*weighing, *_OF_STREAMS)
    is_by_admin = life.gone.reason == _ADMIN or seen.says is Says.REMOVED_BY_ADMIN
    # Of that the broker was told; what the process did then follows from it.
    for hypothesis in [_removed_by_admin] if is_by_admin else weighing:
        cause, prior, evidence = hypothesis(seen)
        yield Candidate(cause, (disturbance,), tuple(filter(None, evidence)), prior)


def evidence_for(each: Disturbance, known: Known, *causes: Cause) -> tuple[Evidence, ...]:
    """The evidence on a departure alone of the cause that fits best of these."""
    assert each.life is not None
    remembered = each.life.evidence_as_of(known)
    found = remembered.get(causes)
    if found is None:  # hypotheses about several ask again and again
        candidates = [one for one in candidates_of_departure(each, known) if one.cause in causes]
        found = max(candidates, key=lambda one: one.weight).evidence if candidates else ()
        remembered[causes] = found
    return found


_Weighed = tuple[Cause, float, tuple[Evidence | None, ...]]


def _if(condition: bool | None, text: str, step: Step, *, is_observed: bool = True) -> Evidence | None:
    return Evidence(text, step, is_observed) if condition else None


def _closed(seen: Conduct, step: Step) -> Evidence | None:
    return _if(seen.closed_in_order, "its last request was a commit, as of a consumer that closes", step)


def _ended_uncommitted(seen: Conduct, step: Step) -> Evidence | None:
    return _if(seen.closed_in_order is False, "it did not commit when it ended", step)


def _ended_fetching(seen: Conduct, step: Step) -> Evidence | None:
    return _if(seen.ended_fetching is True, "it ended its session of fetches, which a consumer does as it closes", step)


def _was_fetching(seen: Conduct, step: Step) -> Evidence | None:
    return _if(
        seen.ended_fetching is False, "it did not end its session of fetches, which a consumer does as it closes", step
    )


def _committed_when_due(seen: Conduct, step: Step) -> Evidence | None:
    is_known = seen.is_last_regular and seen.closed_in_order is None
    return _if(is_known, "its last commit came when it was due, and none as it ended", step, is_observed=False)


def _gone(seen: Conduct, how: str) -> Evidence:
    return Evidence("it is in one record of the group and not in the next" if seen.is_unseen else how, Step.NEUTRAL)


def _awaited(seen: Conduct, step: Step) -> Evidence | None:
    # Few stand still, or end, just between two requests.
    return _if(seen.was_assigning, "its session expired while its assignment was awaited", step)


def _left(seen: Conduct) -> Evidence:
    closed = "it did not leave, and its session expired"
    return _gone(seen, closed if _reason(seen) == CLOSED else "it left the group with LeaveGroup")


def _closes(seen: Conduct, step: Step) -> Evidence | None:
    if _reason(seen) != CLOSED:
        return _if(seen.says is Says.CLOSES, "it said that it was being closed", step)
    found = _ended_fetching(seen, step)
    return found or Evidence("it committed just before it fell silent", step, is_observed=False)


def _is_late(seen: Conduct) -> bool:
    """Whether its client was not back before its session had expired, where nothing else tells of its process."""
    is_unknown = seen.is_same is None and seen.is_open is None and not seen.is_unseen
    # Who stands still goes on at any time, and not just when its session has expired.
    is_at_once = seen.is_static and seen.life.away_ms <= AT_ONCE_MS
    # Few stand still for much longer than twice the time that is noticed.
    is_much_later = seen.life.away_ms > seen.session_ms + 2 * (HEARTBEAT_MS + POLL_MS)
    is_like_pause = not (seen.has_overlap or seen.is_in_turn or is_at_once or is_much_later)
    return seen.is_back and is_unknown and is_like_pause


def _same_process(seen: Conduct, step: Step) -> Evidence | None:
    return _if(seen.is_same is True, "the same process joined again", step)


def _other_process(seen: Conduct, step: Step) -> Evidence | None:
    return _if(seen.is_same is False, "a new process joined in its place", step)


def _no_return(seen: Conduct, step: Step) -> Evidence | None:
    return _if(seen.stays_away, NOT_BACK + (" soon" if seen.is_back else ""), step)


def _went_on(seen: Conduct, step: Step) -> Evidence | None:
    return _if(seen.life.is_heard_after, "its process was heard of when it was no member any more", step)


def _was_stopped_in_order(seen: Conduct, step: Step) -> Evidence | None:
    return _if(seen.was_stopped, "it said that it was being stopped", step)


def _stopped_committing(seen: Conduct, step: Step) -> Evidence | None:
    text = "it had stopped committing max.poll.interval.ms before"
    return _if(seen.stopped_committing, text, step, is_observed=False)


def _committed_until_then(seen: Conduct, step: Step) -> Evidence | None:
    is_known = seen.uncommitted_ms is not None and seen.uncommitted_ms < AT_ONCE_MS
    return _if(is_known, "it had committed until another process took its place", step, is_observed=False)


def _committed_nothing(seen: Conduct, step: Step) -> Evidence | None:
    is_known = seen.uncommitted_ms is not None and seen.uncommitted_ms >= PROCESS_MS and not seen.has_outlived
    return _if(is_known, "it had stopped committing before another process took its place", step, is_observed=False)


def _restart(seen: Conduct) -> _Weighed:
    return (
        Cause.RESTART,
        0.0,
        (
            _left(seen),
            _if(seen.is_back_soon and seen.is_same is not True, "its client joined again soon", Step.LIKELY),
            _other_process(seen, Step.LIKELY),
            # A process that ends cannot go on.
            _same_process(seen, Step.MUST_NOT),
            _if(not seen.is_back_soon, "it has not joined again soon", Step.MUST_NOT),
            _closes(seen, Step.LIKELY),
            _if(seen.says is Says.POLL_TIMEOUT, "it said that its polls took too long", Step.MUST_NOT),
            _stopped_committing(seen, Step.UNLIKELY),
        ),
    )


def _scale_down(seen: Conduct) -> _Weighed:
    return (
        Cause.SCALE_DOWN,
        0.0,
        (
            _left(seen),
            _if(not seen.is_back_soon, "it has not joined again soon", Step.LIKELY),
            _if(seen.is_back_soon, "its client joined again soon", Step.MUST_NOT),
            _same_process(seen, Step.MUST_NOT),
            _closes(seen, Step.LIKELY),
            _if(seen.says is Says.POLL_TIMEOUT, "it said that its polls took too long", Step.MUST_NOT),
            # A consumer that does not poll leaves, too, and stays away for as long as it does not poll.
            _if(seen.stopped_fetching, "it had stopped fetching max.poll.interval.ms before", Step.UNLIKELY),
            _stopped_committing(seen, Step.UNLIKELY),
        ),
    )


def _left_for_polls(seen: Conduct) -> _Weighed:
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


def _removed_by_admin(_seen: Conduct) -> _Weighed:
    return Cause.REMOVED_BY_ADMIN, 0.0, (Evidence("an administrator had it removed", Step.MUST),)


def _unsubscribed(seen: Conduct) -> _Weighed:
    is_known = seen.says is Says.UNSUBSCRIBES
    return (
        Cause.SUBSCRIPTION_CHANGED,
        -3.0,
        (_if(is_known, "it said that it had unsubscribed", Step.MUST), _same_process(seen, Step.LIKELY)),
    )


def _closed_and_back(seen: Conduct) -> _Weighed:
    return (
        Cause.RESTART,
        0.0,
        (
            _if(seen.is_back_soon, "its client joined again soon", Step.LIKELY),
            _if(not seen.is_back_soon, "it has not joined again soon", Step.MUST_NOT),
            _same_process(seen, Step.MUST_NOT),
        ),
    )


def _closed_for_good(seen: Conduct) -> _Weighed:
    return (
        Cause.SCALE_DOWN,
        0.0,
        (
            _if(not seen.is_back_soon, "it has not joined again soon", Step.LIKELY),
            _if(seen.is_back_soon, "its client joined again soon", Step.MUST_NOT),
        ),
    )


def _killed(seen: Conduct) -> _Weighed:
    return (
        Cause.KILLED,
        0.0,
        (
            _gone(seen, "its session expired"),
            _awaited(seen, Step.UNLIKELY) if seen.is_open is None else None,
            _was_stopped_in_order(seen, Step.MUST_NOT),
            # The operating system closes the sockets of a process that ends, however it ends.
            _if(seen.is_open is False, _CLOSED_AS_SILENT, Step.MUST),
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
            _went_on(seen, Step.MUST_NOT),
            _other_process(seen, Step.LIKELY),
            _if(seen.is_unseen and seen.is_back_soon, "its client joined again soon", Step.LIKELY),
            # Supervisors start a process again within seconds, while its old session lasts.
            _if(_is_late(seen), "its client joined again only when the session had expired", Step.UNLIKELY),
            _closed(seen, Step.UNLIKELY) if seen.is_static else None,
            _ended_uncommitted(seen, Step.LIKELY) if seen.is_static else None,
            _committed_when_due(seen, Step.LIKELY) if seen.is_static else None,
            _ended_fetching(seen, Step.MUST_NOT),
            _was_fetching(seen, Step.LIKELY) if seen.is_static else None,
            # The system resets a connection if the process has not read all of what came.
            _if(seen.closed_by == "reset", "the connection was reset", Step.LIKELY),
        ),
    )


def _paused(seen: Conduct) -> _Weighed:
    return (
        Cause.PAUSED,
        0.0,
        (
            _gone(seen, "its session expired"),
            _awaited(seen, Step.UNLIKELY),
            _was_stopped_in_order(seen, Step.MUST_NOT),
            _if(seen.is_open, "its connection stayed open while it was silent", Step.LIKELY),
            _if(seen.is_open is False, _CLOSED_AS_SILENT, Step.MUST_NOT),
            # Who joins before its session has expired has not been silent for that long.
            _if(seen.has_overlap, "its client joined again before the session expired", Step.MUST_NOT),
            _if(seen.is_in_turn, "its client joined again while the others waited for it", Step.UNLIKELY),
            _if(_is_late(seen), "its client joined again only when the session had expired", Step.LIKELY),
            _if(seen.was_revoking and seen.went_on, "it sent other requests meanwhile", Step.MUST_NOT),
            _stopped_committing(seen, Step.UNLIKELY) if seen.is_static or seen.ends_heartbeats else None,
            _outlived(seen, Step.UNLIKELY),
            _same_process(seen, Step.LIKELY),
            _went_on(seen, Step.LIKELY),
            # Who was heard of may have ended since: some applications end when their commits are refused.
            None if seen.life.is_heard_after else _other_process(seen, Step.MUST_NOT),
            None if seen.life.is_heard_after else _no_return(seen, Step.UNLIKELY),
            _committed_when_due(seen, Step.LIKELY) if seen.is_static else None,
            _closed(seen, Step.UNLIKELY) if seen.is_static else None,
            _ended_fetching(seen, Step.MUST_NOT),
            _was_fetching(seen, Step.LIKELY) if seen.is_static else None,
        ),
    )


def _static_stopped(seen: Conduct) -> _Weighed:
    return (
        Cause.STATIC_STOPPED,
        0.0,
        (
            _if(not seen.is_static, "it is not a static member: those leave when they stop", Step.MUST_NOT),
            _was_stopped_in_order(seen, Step.MUST),
            _if(seen.was_stopped is False, "it did not say that it was being stopped", Step.MUST_NOT),
            _if(seen.is_open is False, _CLOSED_AS_SILENT, Step.MUST),
            _if(seen.is_open, "its connection stayed open while it was silent", Step.MUST_NOT),
            # A consumer that closes commits last, if it commits by itself. One that is killed rarely dies after a commit.
            _closed(seen, Step.LIKELY),
            _ended_uncommitted(seen, Step.UNLIKELY),
            _ended_fetching(seen, Step.MUST),
            _was_fetching(seen, Step.MUST_NOT),
            _same_process(seen, Step.MUST_NOT),
            _went_on(seen, Step.MUST_NOT),
            _no_return(seen, Step.LIKELY),
            _other_process(seen, Step.LIKELY),
            _if(seen.is_back_soon, "its client joined again soon", Step.UNLIKELY),
            _if(seen.closed_by == "reset", "the connection was reset", Step.UNLIKELY),
        ),
    )


def _static_slow(seen: Conduct) -> _Weighed:
    return (
        Cause.STATIC_RESTART,
        0.0,
        (
            _if(not seen.is_static, "it is not a static member: those leave when they stop", Step.MUST_NOT),
            _if(not seen.is_back_soon, "it has not joined again soon", Step.MUST_NOT),
            _was_stopped_in_order(seen, Step.MUST),
            _if(seen.was_stopped is False, "it did not say that it was being stopped", Step.MUST_NOT),
            _if(seen.is_open is False, _CLOSED_AS_SILENT, Step.MUST),
            _if(seen.is_open, "its connection stayed open while it was silent", Step.MUST_NOT),
            _closed(seen, Step.LIKELY),
            _ended_uncommitted(seen, Step.UNLIKELY),
            _ended_fetching(seen, Step.MUST),
            _was_fetching(seen, Step.MUST_NOT),
            _same_process(seen, Step.MUST_NOT),
            _went_on(seen, Step.MUST_NOT),
            _if(seen.is_back_soon, "its client joined again soon", Step.LIKELY),
            _if(seen.closed_by == "reset", "the connection was reset", Step.UNLIKELY),
        ),
    )


def _static_restart_refused(seen: Conduct) -> _Weighed:
    # A client that is stopped without a word: its successor is refused until the session has expired.
    may_be = seen.is_static and seen.was_stopped is None and bool(seen.life.refused)
    return (
        Cause.STATIC_RESTART,
        0.5,
        (
            _if(not may_be, "nobody asked for its instance id before its session expired", Step.MUST_NOT),
            _if(seen.has_overlap, "its successor asked for its instance id before the session expired", Step.LIKELY),
            _if(seen.is_open is False, _CLOSED_AS_SILENT, Step.MUST),
            _if(seen.is_open, "its connection stayed open while it was silent", Step.MUST_NOT),
            _same_process(seen, Step.MUST_NOT),
            _went_on(seen, Step.MUST_NOT),
            _no_return(seen, Step.MUST_NOT),
            _if(seen.closed_by == "reset", "the connection was reset", Step.UNLIKELY),
        ),
    )


def _expired_for_polls(seen: Conduct) -> _Weighed:
    return (
        Cause.SLOW_POLL,
        -2.0,
        (
            # Static members, and librdkafka with the new protocol, do not leave when their polls take too long: they stop their heartbeats.
            # Some clients send no heartbeats while they wait for the application to give up partitions.
            _if(seen.was_revoking, "it had been told to give up partitions when its heartbeats ended", Step.MUST),
            _if(
                not (seen.is_static or seen.ends_heartbeats or seen.was_revoking),
                "it is not a static member: those leave when their polls are too slow",
                Step.UNLIKELY,
            ),
            _if(
                seen.is_static and seen.stopped_fetching,
                "it had stopped fetching long before its heartbeats",
                Step.MUST,
            ),
            _stopped_committing(seen, Step.MUST) if seen.is_static or seen.ends_heartbeats else None,
            _if(
                seen.stopped_fetching is False and not seen.ends_heartbeats,
                "it fetched as long as it sent heartbeats",
                Step.MUST_NOT,
            ),
            _outlived(seen, Step.MUST),
            _same_process(seen, Step.LIKELY) if seen.ends_heartbeats else None,
            _if(seen.is_open is False, _CLOSED_AS_SILENT, Step.MUST_NOT),
            _if(
                seen.life.next is not None
                and seen.life.next.joined is not None
                and seen.life.next.joined.says is Says.POLL_TIMEOUT,
                "it said that its polls took too long when it joined again",
                Step.MUST,
            ),
            _other_process(seen, Step.MUST_NOT),
        ),
    )


def _expired_leader(seen: Conduct) -> _Weighed:
    return (
        Cause.SLOW_LEADER,
        -2.0,
        (
            _awaited(seen, Step.MUST),
            _if(not seen.was_assigning, "no assignment was awaited from it", Step.MUST_NOT),
            _if(seen.is_open is False, _CLOSED_AS_SILENT, Step.MUST_NOT),
            # It is as alive as one that stands still, which rarely happens just between two requests.
            _if(
                seen.was_assigning and seen.is_open,
                "its connection stayed open while it was silent",
                Step.LIKELY,
            ),
            _if(
                seen.was_assigning and _is_late(seen),
                "its client joined again only when the session had expired",
                Step.LIKELY,
            ),
            _same_process(seen, Step.LIKELY) if seen.was_assigning else None,
            _went_on(seen, Step.LIKELY) if seen.was_assigning else None,
            _other_process(seen, Step.MUST_NOT),
        ),
    )


def _cut(seen: Conduct) -> _Weighed:
    # One member alone is rarely cut off; a host's members together are (hypotheses/fleet.py).
    return (
        Cause.NETWORK_CUT,
        -2.0,
        (
            _if(seen.is_open, "its connection stayed open while it was silent", Step.LIKELY),
            # What lies between may close connections, too, but then the process is still there.
            _if(
                seen.is_open is False and seen.is_same is not True,
                _CLOSED_AS_SILENT,
                Step.MUST_NOT,
            ),
            _if(
                seen.is_open is False and seen.is_same is True,
                "its connection was closed, and the same process joined again",
                Step.MUST,
            ),
            _if(seen.has_overlap, "its client joined again before the session expired", Step.MUST_NOT),
            None if seen.life.is_heard_after else _other_process(seen, Step.MUST_NOT),
            _went_on(seen, Step.LIKELY),
            _closed(seen, Step.UNLIKELY) if seen.is_static else None,
            _ended_fetching(seen, Step.MUST_NOT),
        ),
    )


def _removed_for_polls(seen: Conduct) -> _Weighed:
    return (
        Cause.SLOW_POLL,
        0.5,
        (
            _if("sync" not in _reason(seen), "it did not join within the rebalance timeout", Step.LIKELY),
            _if("sync" in _reason(seen), "it had joined in time", Step.UNLIKELY),
            _if(seen.is_open is False, _CLOSED_AS_SILENT, Step.MUST_NOT),
            _joined_meanwhile(seen, Step.UNLIKELY),
            _other_process(seen, Step.UNLIKELY),
        ),
    )


def _removed_dead(seen: Conduct) -> _Weighed:
    # A rebalance timeout shorter than the session: who is dead is given up when the others have waited for that long.
    return (
        Cause.KILLED,
        0.0,
        (
            _gone(seen, "it did not join within the rebalance timeout"),
            _if(seen.is_open is False, _CLOSED_AS_SILENT, Step.MUST),
            _if(seen.is_open, "its connection stayed open while it was silent", Step.MUST_NOT),
            _joined_meanwhile(seen, Step.LIKELY),
            _if(seen.has_begun_it, "the rebalance began as its client joined again", Step.LIKELY),
            _same_process(seen, Step.MUST_NOT),
            _went_on(seen, Step.MUST_NOT),
            _other_process(seen, Step.LIKELY),
            _ended_fetching(seen, Step.MUST_NOT),
        ),
    )


def _joined_meanwhile(seen: Conduct, step: Step) -> Evidence | None:
    is_other = seen.has_overlap and seen.is_same is not True
    return _if(is_other, "its client joined again while the others waited for it", step)


def _removed_leader(seen: Conduct) -> _Weighed:
    return (
        Cause.SLOW_LEADER,
        -1.0,
        (
            _if("sync" in _reason(seen), "it did not send its assignment within the rebalance timeout", Step.LIKELY),
            _if("sync" not in _reason(seen), "no assignment was awaited from it", Step.MUST_NOT),
        ),
    )


def _paused_long(seen: Conduct) -> _Weighed:
    # A rebalance timeout shorter than the session: a pause ends the membership this way.
    return (
        Cause.PAUSED,
        -1.5,
        (
            _same_process(seen, Step.LIKELY),
            _other_process(seen, Step.MUST_NOT),
            _if(seen.is_open is False, _CLOSED_AS_SILENT, Step.MUST_NOT),
            _joined_meanwhile(seen, Step.MUST_NOT),
        ),
    )


def _rejoined_itself(seen: Conduct, step: Step) -> Evidence | None:
    gone = seen.life.gone
    activity = seen.life.activity
    is_own = gone is not None and activity is not None and activity.last_request_ms >= gone.ts_ms
    return _if(is_own and seen.last_api == "JoinGroup", "it joined itself, on its own connection", step)


def _is_heard_after(seen: Conduct, step: Step) -> Evidence | None:
    return _if(seen.life.is_heard_after, "its process was heard of when another one had taken its place", step)


def _outlived(seen: Conduct, step: Step) -> Evidence | None:
    text = "its heartbeats had gone on for longer than its session timeout after its last commit"
    return _if(seen.has_outlived, text, step, is_observed=False)


def _replaced_for_polls(seen: Conduct) -> _Weighed:
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


def _static_restart(seen: Conduct) -> _Weighed:
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
            _ended_fetching(seen, Step.MUST),
            _was_fetching(seen, Step.UNLIKELY),
            _committed_until_then(seen, Step.UNLIKELY),
            _committed_nothing(seen, Step.LIKELY),
            _rejoined_itself(seen, Step.MUST_NOT),
            _is_heard_after(seen, Step.MUST_NOT),
            _outlived(seen, Step.UNLIKELY),
        ),
    )


def _duplicate(seen: Conduct) -> _Weighed:
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


def _replaced_killed(seen: Conduct) -> _Weighed:
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
            _ended_fetching(seen, Step.MUST_NOT),
            _was_fetching(seen, Step.LIKELY),
            _if(seen.last_api in ("Heartbeat", "Fetch"), "its last request was not a commit", Step.LIKELY),
            _committed_when_due(seen, Step.LIKELY),
        ),
    )


def _reason(seen: Conduct) -> str:
    return seen.life.gone.reason if seen.life.gone is not None else ""


def _is_of_log(seen: Conduct) -> bool:
    gone = seen.life.gone
    return gone is not None and gone.is_observed and gone.source.startswith("log line")


def _host_changed(seen: Conduct) -> bool:
    new = seen.life.next
    return (
        new is not None
        and None not in (new.member.host, seen.life.member.host)
        and (new.member.host != seen.life.member.host)
    )


_LEFT = (_restart, _scale_down, _left_for_polls, _unsubscribed)
_OF_STATIC = (_static_stopped, _static_slow, _static_restart_refused)
_OF_STREAMS = (_closed_and_back, _closed_for_good)
_EXPIRED = (_killed, _paused, *_OF_STATIC, _expired_for_polls, _expired_leader, _cut)
_OF_UNSEEN = (*_LEFT, *_EXPIRED)
_OF_KIND = {
    Kind.LEFT: _LEFT,
    Kind.EXPIRED: _EXPIRED,
    Kind.REMOVED: (_removed_for_polls, _removed_leader, _paused_long, _removed_dead),
    Kind.REPLACED: (_static_restart, _duplicate, _replaced_killed, _replaced_for_polls),
}

DEPARTURES = (What.DEPARTED, What.REPLACED)
