"""What is known of how one member was gone: what its process did until then, and afterwards."""

from __future__ import annotations

import re
from typing import NamedTuple

from kshim.explain.client_reasons import Says
from kshim.explain.facts import HEARTBEAT_MS, POLL_MS, UNSEEN, Activity, Committed, Kind, Known
from kshim.explain.life import Life
from kshim.explain.member_ids import keeps_id

_OFFSET_COMMIT = "OffsetCommit"
_TIMER_MS = 200
"""How much later than it is due a broker may notice that a session has expired."""
_EXACT_MS = 20
"""By how much the pause between two commits of a timer may differ from its interval, if that is short; of a long one, 1 %."""
PROCESS_MS = 1_000
"""How long it takes, mostly more, to stop a process and to start another one, which joins."""
AT_ONCE_MS = 500
"""Another process cannot be there so soon after the last commit of the one before it, unless both run."""
MISSED = 3
"""Who has missed so many of its usual commits has stopped committing."""
_LATE = 1.5
"""A commit that has not come for so many times the usual pause is late."""
_AUTO_COMMIT_MS = 5_000
"""Default of `auto.commit.interval.ms`: who commits that often does so by a timer, and as it closes."""
CLOSING_MS = 50
"""A connection that is closed so soon after a commit is rarely that of a process that was killed just then."""
_ENDS_SESSIONS = re.compile(r"kgo\b|apache-kafka-java ([4-9]|[1-9]\d)\.")
"""Clients that end their sessions of fetches when they are closed: franz-go, and Java's of version 4 and later."""
_ENDS_AT_ONCE = re.compile(r"^kafka-python\b|rdkafka")
"""Clients that end when they have committed, as they close. Others end their sessions of fetches then, which takes a while."""
_EARLY, _DUE = 0.93, 1.12
"""A commit that comes before, or after, these shares of the usual pause is no regular one."""


class Conduct(NamedTuple):
    """What is known of a departure."""

    life: Life
    session_ms: int
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
    ended_fetching: bool | None
    """Whether it ended its session of fetches, as it does when it closes; None: its client does not do so, or it is unknown."""
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
    """Whether a member that was replaced, or of which nothing was heard when the broker was there again, had stopped committing for longer
    than its session, which went on."""
    has_overlap: bool
    """Whether its client joined again before the session expired."""
    has_begun_it: bool
    """The same, and began the rebalance at the end of which this member was given up."""
    is_same: bool | None
    """Whether the same process came back; None: unknown, or nobody came."""
    is_back: bool
    is_in_turn: bool
    """Whether the first record without it has its successor: no rebalance was over meanwhile."""
    is_back_soon: bool
    stays_away: bool
    """Whether it has not come back for longer than it was silent, before which it says nothing, or much later, as what is added again."""
    ends_heartbeats: bool
    """Whether it may be a dynamic member that ends its heartbeats, and does not leave, when its polls take too long: of librdkafka with the
    new protocol, which goes on fetching until then."""
    was_assigning: bool
    was_revoking: bool
    """Whether it had been told to give up partitions, and had not."""
    went_on: bool
    """Whether its process sent other requests for long when its heartbeats had ended."""


def conduct_of(life: Life, known: Known) -> Conduct:
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
            has_missed = quiet_ms > MISSED * usual_ms
            # It leaves, or sends no more heartbeats, when its poll takes too long; who was quiet for longer had other reasons.
            poll_ms = known.poll_ms(member_id)
            longest_ms = poll_ms + MISSED * usual_ms + HEARTBEAT_MS + POLL_MS
            # Records of the new protocol come when a session expires, and not when the next rebalance is over.
            is_exact = gone.is_observed or (gone.kind is Kind.EXPIRED and keeps_id(member_id))
            until_ms = life.silent_ms(known) if is_exact else gone.ts_ms
            # A client may commit once more after its last poll, and one that is closed commits as it leaves.
            shortest_ms = 0.8 * poll_ms
            has_stopped = has_missed
            if gone.kind is Kind.LEFT:
                shortest_ms = min(shortest_ms, poll_ms - usual_ms)
                is_timed = usual_ms <= _AUTO_COMMIT_MS + AT_ONCE_MS
                has_stopped = quiet_ms > (usual_ms + AT_ONCE_MS if is_timed else _LATE * usual_ms)
                # By the timer that clients have if nobody sets another one: then it commits as it closes, too.
                is_usual_timer = abs(usual_ms - _AUTO_COMMIT_MS) <= AT_ONCE_MS
                has_stopped |= is_usual_timer and quiet_ms > PROCESS_MS
            quiet_until_ms = until_ms - gone.ts_ms + quiet_ms
            if quiet_until_ms <= shortest_ms:
                stopped_committing = False
            elif has_stopped and quiet_until_ms <= longest_ms:
                stopped_committing = True
            # A commit may have been due as long ago as there is between two; then a process was stopped and another one started.
            has_ended = quiet_ms > max(usual_ms + PROCESS_MS, _LATE * usual_ms)
            unrenewed_ms = gone.ts_ms - max(gone.committed.last_ms, life.renewed_ms)
            has_outlived = gone.kind is Kind.REPLACED and has_missed and unrenewed_ms > session_ms + _TIMER_MS
            if gone.kind is Kind.EXPIRED and life.stopped_ms is not None:
                # Its session had not ended when the broker was stopped: a heartbeat had come less than a session before that.
                has_outlived = life.stopped_since_ms - gone.committed.last_ms > MISSED * usual_ms
            if not gone.committed.is_none:
                uncommitted_ms = quiet_ms if has_ended or quiet_ms < AT_ONCE_MS else None
    if activity is not None:
        is_open = activity.closed_ms is None or activity.closed_ms > activity.last_request_ms + session_ms
        if activity.last_fetch_ms is not None:
            stopped_fetching = activity.last_request_ms - activity.last_fetch_ms > 0.8 * known.poll_ms(member_id)
    return Conduct(
        life=life,
        session_ms=session_ms,
        kind=gone.kind,
        is_observed=gone.is_observed,
        is_unseen=gone.reason == UNSEEN,
        says=gone.says,
        is_static=life.member.instance_id is not None,
        was_stopped=_was_stopped(life),
        is_open=is_open,
        closed_by=None if activity is None else activity.closed_by,
        last_api=None if activity is None else activity.last_api,
        ended_fetching=(ended_fetching := _ended_fetching(activity)),
        closed_in_order=_closed_in_order(life, session_ms) if ended_fetching is None else None,
        is_last_regular=_is_regular(gone.committed)
        and ended_fetching is None
        and not stopped_committing
        and (activity is None or not _is_overdue(gone.committed, activity)),
        stopped_fetching=stopped_fetching,
        stopped_committing=stopped_committing,
        uncommitted_ms=uncommitted_ms,
        has_outlived=has_outlived,
        has_overlap=(back is not None and back.ts_ms < gone.ts_ms) or bool(life.refused),
        has_begun_it=back is not None
        and life.awaited_since_ms is not None
        and abs(life.awaited_since_ms - back.ts_ms) <= _TIMER_MS,
        is_same=life.is_same_process_as_next(known),
        is_back=back is not None,
        is_in_turn=back is not None and not gone.is_observed and back.source == gone.source,
        is_back_soon=life.is_followed(known),
        stays_away=_stays_away(life, known),
        ends_heartbeats=life.member.instance_id is None and _may_be_librdkafka_of_new_protocol(life),
        was_assigning=gone.state == "CompletingRebalance",
        was_revoking=gone.told_ms is not None,
        went_on=activity is not None and gone.ts_ms - activity.last_request_ms < session_ms - HEARTBEAT_MS - POLL_MS,
    )


def _stays_away(life: Life, known: Known) -> bool:
    assert life.gone is not None
    if life.next is not None:
        return not life.is_followed(known) and life.is_same_process_as_next(known) is not True
    return known.end_ms - life.gone.ts_ms > life.gone.ts_ms - life.silent_ms(known)


def _ended_fetching(activity: Activity | None) -> bool | None:
    if activity is None or activity.has_fetch_session is None:
        return None
    if not activity.has_fetch_session:
        return True
    return False if _ENDS_SESSIONS.match(activity.software or "") else None


def _closed_in_order(life: Life, session_ms: int) -> bool | None:
    """A consumer that closes commits what it has processed, whenever its last commit was, and ends. Else commits come regularly, between heartbeats."""
    gone, activity = life.gone, life.activity
    assert gone is not None
    found = gone.committed
    if activity is not None:
        return _ended_committing(activity, found)
    if found is None or found.is_none or not gone.is_observed:
        return None
    is_early = _is_early(found)
    if gone.kind is not Kind.EXPIRED:
        return True if is_early else None
    since_ms = gone.ts_ms - session_ms - found.last_ms
    if -_TIMER_MS <= since_ms <= _TIMER_MS + gone.late_ms:
        # The only one may be the first that its timer sent.
        is_alone = found.before_ms is None and found.usual_ms is not None
        return True if is_early or is_alone else None
    if found.is_sparse:
        return None
    # A heartbeat was last. Who had committed just before would have had something to commit.
    return False if found.usual_ms is not None and 0 < since_ms <= found.usual_ms else None


def _ended_committing(activity: Activity, found: Committed | None) -> bool | None:
    """The same of a process whose connection is known."""
    if activity.closed_ms is None:
        return None
    silent_ms = activity.closed_ms - activity.last_request_ms
    is_commit_last = activity.last_api == _OFFSET_COMMIT
    if is_commit_last and silent_ms <= CLOSING_MS:
        return True
    is_prompt = activity.software is None or _ENDS_AT_ONCE.search(activity.software) is not None
    if is_prompt and _is_by_timer(found):  # it would have committed once more, if it had anything to commit
        return None if _is_overdue(found, activity) else False
    if not is_commit_last:
        return None
    usual_ms = None if found is None else found.usual_ms
    # Who commits every second ends within a second of a commit, however it ends.
    if silent_ms > min(PROCESS_MS, (usual_ms or 4 * PROCESS_MS) / 4):
        return False
    return None if _is_regular(found) or (is_prompt and not _is_early(found)) else True


def _is_by_timer(found: Committed | None) -> bool:
    """Whether the last commit came when a timer was due, of whatever interval: no work takes the same time that exactly."""
    if found is None or found.before_ms is None or found.usual_ms is None or found.is_sparse:
        return False
    return abs(found.last_ms - found.before_ms - found.usual_ms) <= max(_EXACT_MS, found.usual_ms / 100)


def _is_overdue(found: Committed | None, activity: Activity) -> bool:
    """Whether it had not committed for longer than it usually takes when its last request came: it had nothing to commit."""
    if found is None or found.usual_ms is None:
        return False
    return activity.last_request_ms - found.last_ms > found.usual_ms + AT_ONCE_MS


def _is_early(found: Committed | None) -> bool:
    """Whether the last commit of a member that commits by a timer came ahead of it."""
    if (
        found is None
        or found.before_ms is None
        or found.usual_ms is None
        or found.usual_ms > _AUTO_COMMIT_MS + AT_ONCE_MS
    ):
        return False
    return found.is_early or found.last_ms - found.before_ms < _EARLY * found.usual_ms


def _is_regular(found: Committed | None) -> bool:
    """Whether the last commit of a member that commits by a timer came when that was due."""
    if found is None or found.before_ms is None or found.usual_ms is None or found.is_sparse or _is_early(found):
        return False
    return found.usual_ms <= _AUTO_COMMIT_MS + AT_ONCE_MS and found.last_ms - found.before_ms < _DUE * found.usual_ms


def _may_be_librdkafka_of_new_protocol(life: Life) -> bool:
    """Only kshim's events know the software of a client."""
    software = None if life.activity is None else life.activity.software
    return (software is None or "rdkafka" in software) and keeps_id(life.member.member_id)


def _was_stopped(life: Life) -> bool | None:
    if life.stopped is not None:
        return True
    says_so = life.member.instance_id is not None and keeps_id(life.member.member_id)
    return False if says_so else None
