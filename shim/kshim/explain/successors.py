"""Which life took the place of one that ended."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import lru_cache, partial

from kshim.explain.client_reasons import Says
from kshim.explain.closed import OF_STREAMS
from kshim.explain.facts import BEGINS_MS, RETURN_MS, START_MS, UNSEEN, Activity, Kind, Known
from kshim.explain.life import Life

_UUID = "[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_GENERATED = re.compile(rf"([-_.]({_UUID}|(?=[a-z]*\d)[0-9a-z]+|[bcdfghjklmnpqrstvwxz2-9]{{5,10}}))+$")
"""Kubernetes takes letters that make no words, and one suffix in five has no digit."""
_NUMBER = re.compile(r"[-_.]\d+$")

_POD_LETTERS = 5
"""So many letters end the name of each pod of a Deployment, behind the hash of its template."""

_NAMES_MAX = 10_000
"""Of so many client ids it is kept how they are made up: the same few are asked for again and again."""

_TIMER_MS = 200
"""How exact the times are at which a session expires."""


def link(lives: Sequence[Life], known: Known) -> None:
    """Set `next` and `previous` of lives of one group: of the same client, that began while the other was silent or later.

    It may have begun at the same time: with the last request of the old one's connection, or in the same record. Where several
    processes share a client id and host, a connection or a member id tells which one came back. Else the one that ended last has
    come back: whoever starts processes again does not wait, and those that ended before stayed away for longer already.
    """
    free: dict[str, list[Life]] = defaultdict(list)
    ended: dict[str, list[Life]] = defaultdict(list)
    for life in lives:
        if life.previous is None and life.joined is not None:
            free[life.member.name].append(life)
        if (life.gone is not None or life.is_forgotten) and life.next is None:
            ended[life.member.name].append(life)
    left = {name: _Ended(mine, known) for name, mine in ended.items()}
    came = {name: sorted(mine, key=_begin) for name, mine in free.items() if name in left}
    for name, mine in came.items():
        of_ids: dict[str, list[Life]] = defaultdict(list)
        for life in ended[name]:
            for each in _ids_at_end(life):
                of_ids[each].append(life)
        for new in mine:
            if any(old is not new for each in _ids_at_begin(new) for old in of_ids.get(each, ())):
                left[name].follow_latest(new, new.began_ms + _TIMER_MS, partial(_is_same, new))
        for new in mine:
            if new.previous is None:
                left[name].follow_latest(new, new.began_ms + _TIMER_MS)
    _link_new_names(lives, [life for mine in ended.values() for life in mine], free, known)


def _link_new_names(lives: Sequence[Life], ended: Sequence[Life], free: dict[str, list[Life]], known: Known) -> None:
    """Processes whose client id is new each time, as of pods: one of the same kind that came soon after.

    One on the same host is preferred; a pod has an address of its own, and another name where the name is generated.
    """
    first_ms: dict[str, int] = {}
    for life in lives:
        first_ms[life.member.name] = min(life.began_ms, first_ms.get(life.member.name, life.began_ms))
    came = sorted((life for mine in free.values() for life in mine), key=_begin)
    lasting_ms: dict[tuple[str, str | None] | None, int] = {}
    for life in ended:
        if life.next is not None and _has_kept_its_number(life, life.next, known):
            kind = _kind_on_host(life)
            lasting_ms[kind] = min(life.next.began_ms, lasting_ms.get(kind, life.next.began_ms))
    for kind_of in (_kind_on_host, _kind_of_generated):
        alike: dict[tuple[str, str | None], list[Life]] = defaultdict(list)
        for life in ended:
            kind = kind_of(life)
            if kind is not None and life.next is None and life.member.instance_id is None:
                alike[kind].append(life)
        left = {kind: _Ended(mine, known) for kind, mine in alike.items()}
        for new in came:
            kind = kind_of(new)
            is_new = first_ms[new.member.name] >= new.began_ms - START_MS  # else its name is not new each time
            has_number = _NUMBER.search(new.member.client_id or "") is not None
            is_one_more = has_number and lasting_ms.get(kind, new.began_ms) < new.began_ms
            if new.previous is None and is_new and not is_one_more and kind in left:
                left[kind].follow_latest(new, new.began_ms, partial(_is_soon, new))


def _has_kept_its_number(life: Life, successor: Life, known: Known) -> bool:
    """Whether another process has come in its place with the same numbered name: from then on a number that is new is one process more."""
    if successor.member.name != life.member.name or not _NUMBER.search(life.member.client_id or ""):
        return False
    is_same = life.is_same_process_as_next(known)
    if is_same is not None or life.gone is None:
        return is_same is False
    return life.gone.kind is Kind.LEFT and life.gone.says is not Says.POLL_TIMEOUT


def _kind_on_host(life: Life) -> tuple[str, str | None] | None:
    return None if life.member.host is None else (stem(life.member.client_id), life.member.host)


def _kind_of_generated(life: Life) -> tuple[str, str | None] | None:
    """None: its name is not generated, or it is a number, of which there may be one more on another host."""
    name = life.member.client_id or ""
    kind = stem(name)
    return None if kind == name or _NUMBER.search(name) else (kind, None)


class _Ended:
    """Lives that have ended and have no successor yet, in the order in which one may have begun."""

    def __init__(self, lives: Sequence[Life], known: Known) -> None:
        since_ms = [_silent_ms(life, known) for life in lives]
        places = sorted(range(len(lives)), key=lambda place: (since_ms[place], -place))
        self._lives = [lives[place] for place in places]
        self._since_ms = [since_ms[place] for place in places]

    def follow_latest(self, new: Life, until_ms: int, fits: Callable[[Life], bool] = lambda _: True) -> None:
        """Let a life follow the one that ended last, among those whose successor may have begun until then."""
        for place in reversed(range(bisect_right(self._since_ms, until_ms))):
            old = self._lives[place]
            if old is not new and old.began_ms < new.began_ms and fits(old):
                old.next, new.previous = new, old
                del self._lives[place], self._since_ms[place]
                return


def _silent_ms(life: Life, known: Known) -> int:
    """Since when a successor may have begun."""
    if life.is_forgotten or _has_never_gone_on(life):
        return life.began_ms
    if life.stopped_ms is None:
        if (closed_ms := _closed_ms(life)) is not None:
            return closed_ms
        if life.activity is None and life.awaited_since_ms is not None:
            return life.awaited_since_ms  # if it is dead, its successor may have begun the rebalance
        silent_ms = life.silent_ms(known)
        # It joined in a rebalance that somebody else had begun.
        has_followed = life.activity is None and life.has_settled and life.joined_last_ms is not None
        return silent_ms + BEGINS_MS if has_followed else silent_ms
    return life.stopped_since_ms


def _has_never_gone_on(life: Life) -> bool:
    """Whether it had committed nothing of partitions that were committed regularly before it got them, and nobody saw it go."""
    if life.gone is None or life.gone.reason != UNSEEN:
        return False
    return life.gone.committed is not None and life.gone.committed.is_none


def _closed_ms(life: Life) -> int | None:
    """When the connection of a process was closed whose session expired: it had waited since its JoinGroup, or its session began anew when it was dead."""
    activity = life.activity
    if life.gone is None or life.gone.kind is not Kind.EXPIRED or activity is None or activity.closed_by != "client":
        return None
    return None if activity.closed_ms is None else max(activity.closed_ms, activity.last_request_ms)


def _begin(life: Life) -> int:
    return life.began_ms


def _ended_ms(life: Life) -> int:
    """When its process had ended, as its connection tells, or it was gone."""
    if life.activity is not None and life.activity.closed_ms is not None:
        return life.activity.closed_ms
    return 0 if life.gone is None else life.gone.ts_ms


def _is_soon(new: Life, old: Life) -> bool:
    return new.began_ms <= _ended_ms(old) + RETURN_MS


def _is_same(new: Life, old: Life) -> bool:
    """Whether a member is surely of the same process as one before."""
    return not _ids_at_end(old).isdisjoint(_ids_at_begin(new))


def _ids_at_end(life: Life) -> set[str]:
    """What tells its process: its member id, and the connection on which it spoke last."""
    return _ids(life, life.activity)


def _ids_at_begin(life: Life) -> set[str]:
    """Its member id, and the connection on which it joined."""
    return _ids(life, None if life.joined is None else life.joined.activity)


def _ids(life: Life, activity: Activity | None) -> set[str]:
    return {f"member {life.member.member_id}"} | (
        set() if activity is None else {f"connection {activity.connection_id}"}
    )


@lru_cache(_NAMES_MAX)
def stem(client_id: str | None) -> str:
    """A client id without what a generator of names appends: hexadecimal digits, counters, random letters.

    >>> stem("billing-0003"), stem("billing-7d9fbc6-x2z9q"), stem("billing-7d9fbc6-nwhgc"), stem("orders-retry")
    ('billing', 'billing', 'billing', 'orders-retry')
    >>> stem("billing-0d7be79f-beef-4e05-8e59-54c4e78cc41e-StreamThread-1-consumer")
    'billing'
    """
    return _GENERATED.sub("", OF_STREAMS.sub("", client_id or ""))


@lru_cache(_NAMES_MAX)
def release_of(client_id: str | None) -> str | None:
    """What the names of all pods of one release have in common: the hash of its template. None: it is no name of a pod of a Deployment.

    >>> release_of("billing-7d9fbc6-x2z9q"), release_of("billing-0003")
    ('7d9fbc6', None)
    """
    generated = (client_id or "")[len(stem(client_id)) :].split("-")
    return generated[1] if len(generated) == 3 and len(generated[2]) == _POD_LETTERS else None
