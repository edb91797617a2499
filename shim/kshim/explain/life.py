"""One membership of a process.

A life is the time from a JoinGroup that made a member to its removal. A process has several if it loses its membership
and joins again; a client has several processes, one after the other, if it is restarted.
"""

from __future__ import annotations

from kshim.explain.causes import Cause
from kshim.explain.client_reasons import Says
from kshim.explain.facts import CLOSED, HEARTBEAT_MS, POLL_MS, RETURN_MS, UNSEEN, Activity, Fact, Kind, Known, Member
from kshim.explain.member_ids import is_same_process
from kshim.explain.weigh import Evidence


class Life:
    """One membership. `joined` None: it began before the first fact; `gone` None: it has not ended."""

    def __init__(self, group: str, member: Member, joined: Fact | None) -> None:
        self.group = group
        self.member = member
        self.joined = joined
        self.stopped: Fact | None = None
        """Where a static member said that it was being stopped."""
        self.refused: list[Fact] = []
        """Of other processes, which asked for its instance id and did not get it."""
        self.asked_anew_ms: int | None = None
        """When it last asked for that itself, as if it were new, and did not get it."""
        self.gone: Fact | None = None
        self.heard_after_ms = 0
        """When its process was heard of last as no member any more: its session had expired, or another one had taken its place."""
        self.next: Life | None = None
        """The life of the same client that took its place."""
        self.previous: Life | None = None
        self.first = self
        """The first life of the same client, whatever names it has had."""
        self.away_ms = 0
        """How long it took until `next` was there, without the time in which no coordinator was."""
        self.uncommitted_ms = 0
        """How long before it was gone it had committed last, without the time in which no coordinator was; 0: unknown."""
        self.joined_last_ms: int | None = None
        """When it sent its last JoinGroup at the earliest, if its session expired one timeout after that phase JOIN."""
        self.awaited_since_ms: int | None = None
        """When the phase JOIN began at the end of which it was given up, as the only one of its name that had not joined."""
        self.has_settled = True
        """Whether a rebalance ended with it before it fell silent."""
        self.is_forgotten = False
        """Whether the broker was stopped before there was a record of it: its process goes on, and joins again as another member."""
        self.stopped_ms: int | None = None
        """When the broker was stopped that was there again one session timeout before it expired: since about then nothing can have been heard."""
        self.stopped_since_ms = 0
        """Since when nothing may have been heard of it at the earliest, if the broker was stopped so."""
        self.renewed_ms = 0
        """When its session began anew for the last time before it was gone: a phase JOIN had ended, or the group was loaded."""
        self._evidence: tuple[Known | None, dict[tuple[Cause, ...], tuple[Evidence, ...]]] = (None, {})

    def evidence_as_of(self, known: Known) -> dict[tuple[Cause, ...], tuple[Evidence, ...]]:
        """What its end alone says for some causes, as far as it was worked out from what was known then."""
        if self._evidence[0] is not known:
            self._evidence = (known, {})
        return self._evidence[1]

    def __repr__(self) -> str:
        return f"Life({self.group}, {self.member.name}, {self.began_ms}-{self.gone and self.gone.ts_ms})"

    @property
    def is_heard_after(self) -> bool:
        """Whether its process was heard of when it was no member any more."""
        return self.heard_after_ms > 0

    @property
    def began_ms(self) -> int:
        """When it joined; 0 if that was before the first fact."""
        return 0 if self.joined is None else self.joined.ts_ms

    @property
    def of_process(self) -> Life:
        """The first life of the same process, as member ids of the new protocol tell: it may have been removed, and have joined again."""
        life = self
        while (before := life.previous) is not None and before.member.member_id == life.member.member_id:
            life = before
        return life

    @property
    def activity(self) -> Activity | None:
        """What was known of the process when it was gone."""
        return None if self.gone is None else self.gone.activity

    def return_ms(self, known: Known) -> int:
        """How long after it was gone a process of the same client is its successor. What is stopped in order is started again soon."""
        if self.has_closed or (self.gone is not None and self.gone.kind is Kind.LEFT and self.gone.says is Says.CLOSES):
            return RETURN_MS
        return known.return_ms(self.member.member_id)

    @property
    def has_closed(self) -> bool:
        """Whether it ended its session of fetches, as a consumer does when it is closed, whether it leaves or not."""
        return self.activity is not None and self.activity.has_fetch_session is False

    def silent_ms(self, known: Known) -> int:
        """Since when nothing was heard of it, when its session expired."""
        assert self.gone is not None
        heard_ms = self.gone.ts_ms
        if self.gone.kind is Kind.EXPIRED and self.joined_last_ms is not None:
            heard_ms = self.joined_last_ms
        elif self.gone.kind is Kind.EXPIRED or self.gone.reason == CLOSED or self._may_have_expired:
            heard_ms = max(heard_ms - known.session_ms(self.member.member_id), self.began_ms)
        if self.activity is None:
            began_ms = heard_ms if self.next is None else self.next.began_ms
            return max(min(heard_ms, began_ms), self.began_ms) if self.gone.kind is Kind.EXPIRED else heard_ms
        if self.gone.kind is Kind.LEFT and self.gone.is_observed and self.gone.reason != UNSEEN:
            # It said so itself, perhaps on another connection, or before the answer to its JoinGroup was there, and the broker read it later.
            closed_ms = self.activity.closed_ms
            return heard_ms if closed_ms is None or closed_ms <= self.began_ms else min(heard_ms, closed_ms)
        if self.gone.kind is not Kind.EXPIRED or not self.gone.is_observed:
            return min(self.activity.last_request_ms, self.gone.ts_ms)
        # Heartbeats may come on another connection than the one of which the broker knows, and so does what it fetches.
        heard_ms = max(self.activity.last_request_ms, heard_ms)
        fetched_ms = self.activity.last_fetch_ms or 0
        # Who lives for long enough to fetch sends a heartbeat, too: what comes much later is of another process.
        is_own = fetched_ms <= heard_ms + HEARTBEAT_MS + POLL_MS
        return min(max(heard_ms, fetched_ms) if is_own else heard_ms, self.gone.ts_ms)

    @property
    def _may_have_expired(self) -> bool:
        """Whether it is unknown how it was gone, but exactly known when."""
        is_exact = self.joined is not None and self.joined.is_observed
        return is_exact and self.gone is not None and self.gone.reason == UNSEEN

    def is_followed(self, known: Known) -> bool:
        """Whether its client was back so soon that a process of it had been started again, rather than added later."""
        return self.next is not None and self.away_ms <= self.return_ms(known)

    def is_alive_at(self, ts_ms: int) -> bool:
        """Whether it was a member then."""
        return self.began_ms <= ts_ms and (self.gone is None or self.gone.ts_ms > ts_ms)

    @property
    def _has_twin(self) -> bool:
        """Whether the process whose instance id it took was still connected then, or was heard of later."""
        taken = self.joined
        if taken is None or taken.kind is not Kind.REPLACED:
            return False
        is_connected = taken.activity is not None and taken.activity.closed_ms is None
        return is_connected or (self.previous is not None and self.previous.is_heard_after)

    def is_same_process_as_next(self, known: Known) -> bool | None:
        """Whether the process that joined next is this one, as connections and its reason tell; None: unknown."""
        if self.next is None or self.next.joined is None:
            return None
        back = self.next.joined
        if (is_same := is_same_process(self.member.member_id, self.next.member.member_id)) is not None:
            return is_same
        if self.gone is not None and self.activity is not None and back.activity is not None:
            if back.activity.connection_id == self.activity.connection_id:
                return True
            if not self._has_twin and back.activity.opened_ms < self.silent_ms(known):
                return True  # a connection of before the silence: of the same process, and another than heartbeats used
        if (
            self.activity is not None
            and self.activity.has_fetch_session is False
            and self.activity.closed_ms is not None
        ):
            return False  # it had closed: also a new process may say that its JoinGroup was refused before
        match back.says:
            case Says.GOES_ON | Says.POLL_TIMEOUT:
                return None if self._has_twin else True  # the other one goes on as well
            case Says.BEGINS:
                return False if self.has_settled else None  # it may not have got the answer to its first JoinGroup
            case _:
                return None
