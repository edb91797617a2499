"""Which life took the place of one that ended."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence

from kshim.explain.facts import RETURN_MS, START_MS, Known
from kshim.explain.life import Life

_GENERATED = re.compile(r"([-_.]((?=[a-z]*\d)[0-9a-z]+|[bcdfghjklmnpqrstvwxz2-9]{5,10}))+$")
"""Kubernetes takes letters that make no words, and one suffix in five has no digit."""

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
    since_ms = {id(life): _silent_ms(life, known) for mine in ended.values() for life in mine}
    for is_certain in (True, False):
        for name, mine in free.items():
            for new in sorted(mine, key=_begin):
                fitting = [
                    life
                    for life in ended[name]
                    if life is not new
                    and life.next is None
                    and since_ms[id(life)] - _TIMER_MS <= new.began_ms
                    and life.began_ms < new.began_ms
                    and (not is_certain or _is_same(life, new))
                ]
                if new.previous is None and fitting:
                    _follow(max(fitting, key=lambda life: since_ms[id(life)]), new)
    _link_new_names(lives, [life for mine in ended.values() for life in mine], free, known)


def _link_new_names(lives: Sequence[Life], ended: Sequence[Life], free: dict[str, list[Life]], known: Known) -> None:
    """Processes whose client id is new each time, as of pods: one of the same kind and host that came soon after."""
    alike: dict[tuple[str, str | None], list[Life]] = defaultdict(list)
    for life in ended:
        if life.next is None and life.member.instance_id is None and life.member.host is not None:
            alike[stem(life.member.client_id), life.member.host].append(life)
    first_ms: dict[str, int] = {}
    for life in lives:
        first_ms[life.member.name] = min(life.began_ms, first_ms.get(life.member.name, life.began_ms))
    for new in sorted((life for mine in free.values() for life in mine if life.previous is None), key=_begin):
        if first_ms[new.member.name] < new.began_ms - START_MS:
            continue  # its name is not new each time
        fitting = [
            life
            for life in alike.get((stem(new.member.client_id), new.member.host), ())
            if life is not new
            and life.next is None
            and _silent_ms(life, known) <= new.began_ms <= _ended_ms(life) + RETURN_MS
            and life.began_ms < new.began_ms
        ]
        if fitting:
            _follow(max(fitting, key=lambda life: _silent_ms(life, known)), new)


def _silent_ms(life: Life, known: Known) -> int:
    """Since when a successor may have begun; where a broker was stopped meanwhile, perhaps for a session timeout before that."""
    if life.is_forgotten:
        return life.began_ms
    if life.stopped_ms is None:
        return life.silent_ms(known)
    found = None if life.gone is None else life.gone.committed
    committed_ms = 0 if found is None or found.is_none else found.last_ms
    return max(life.stopped_ms - known.session_ms(life.member.member_id), life.began_ms, committed_ms)


def _follow(old: Life, new: Life) -> None:
    old.next, new.previous = new, old


def _begin(life: Life) -> int:
    return life.began_ms


def _ended_ms(life: Life) -> int:
    """When its process had ended, as its connection tells, or it was gone."""
    if life.activity is not None and life.activity.closed_ms is not None:
        return life.activity.closed_ms
    return 0 if life.gone is None else life.gone.ts_ms


def _is_same(old: Life, new: Life) -> bool:
    """Whether a member is surely of the same process as one before."""
    if old.member.member_id == new.member.member_id:
        return True
    return (
        old.activity is not None
        and new.joined is not None
        and new.joined.activity is not None
        and old.activity.connection_id == new.joined.activity.connection_id
    )


def stem(client_id: str | None) -> str:
    """A client id without what a generator of names appends: hexadecimal digits, counters, random letters.

    >>> stem("billing-0003"), stem("billing-7d9fbc6-x2z9q"), stem("billing-7d9fbc6-nwhgc"), stem("orders-retry")
    ('billing', 'billing', 'billing', 'orders-retry')
    """
    return _GENERATED.sub("", client_id or "")
