"""The rules that are in force, which of them fires on a request, and what they have done so far."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from hashlib import blake2b
from typing import Final, NamedTuple

from kshim.coordinator.step import Now
from kshim.faults.entries import Entry
from kshim.faults.request import AUTHENTICATION, FaultableRequest
from kshim.faults.rule import APPEND, OF_APPENDS, Rule
from kshim.partitions.operations import Operations
from kshim.wording import counted

_REASONS_KEPT: Final = 5
FIRINGS_KEPT: Final = 10_000
"""Of one rule; the oldest are forgotten."""


class Firing(NamedTuple):
    """One time that a fault did something: `number` counts those of its rule, from 1; `now` is the time on the group clock.

    `topic_partitions` are those of the request that the rule is for. An append has neither client nor version (-1).
    """

    rule: str
    number: int
    now: Now
    api: str
    version: int
    correlation_id: int
    client_id: str | None
    client_host: str
    listener: str
    broker: int
    groups: tuple[str, ...]
    member_ids: tuple[str, ...]
    instance_ids: tuple[str, ...]
    transactional_ids: tuple[str, ...]
    topic_partitions: tuple[str, ...]

    @property
    def group(self) -> str | None:
        """The group of the request; the first, where it names several."""
        return next(iter(self.groups), None)

    @property
    def member_id(self) -> str | None:
        """The member that sent it, or that it is about."""
        return next(iter(self.member_ids), None)

    def __str__(self) -> str:
        about = [f"group {self.group}"] if self.group else []
        about += [f"member {self.member_id}"] if self.member_id else []
        about += [f"transactional id {', '.join(self.transactional_ids[:5])}"] if self.transactional_ids else []
        about += [", ".join(self.topic_partitions[:5])] if self.topic_partitions else []
        if self.api == APPEND:
            return f"{self.rule} (firing {self.number}) on an append to {', '.join(about)}"
        who = f"{self.client_id or 'a client'} at {self.client_host.removeprefix('/')}"
        of = f" ({', '.join(about)})" if about else ""
        return f"{self.rule} (firing {self.number}) on {self.api} v{self.version} of {who}{of}"


def drawn(seed: int, number: int) -> float:
    """A number from 0 up to 1 that looks random: the same for the same seed and number.

    >>> drawn(1, 1) == drawn(1, 1) != drawn(1, 2)
    True
    """
    digest = blake2b(f"{seed} {number}".encode(), digest_size=8).digest()
    return (int.from_bytes(digest, "big") >> 11) / (1 << 53)


class Fault:
    """A rule in force, and what has come of it."""

    def __init__(self, rule: Rule, fault_id: str) -> None:
        self.rule = rule
        self.fault_id = fault_id
        """Unique among the faults of one set of brokers."""
        self.fired: list[Firing] = []
        self.fired_count = 0
        self.seen_count = 0
        """Requests of its API that came while it was in force."""
        self.matched_count = 0
        self.taken_count = 0
        """Requests that it acts on. It has fired on each that its reply was made for."""
        self.is_cancelled = False
        self.misses: dict[str, int] = {}
        """Why requests of its API did not match, and how many there were of each."""

    @property
    def is_over(self) -> bool:
        """Whether it can fire no more."""
        trigger = self.rule.trigger
        if self.is_cancelled:
            return True
        match trigger.name:
            case "once":
                return self.taken_count >= 1
            case "times":
                return self.taken_count >= (trigger.value or 0)
            case "nth":
                return self.matched_count >= (trigger.value or 0)
            case _:
                pass
        nth = self.rule.match.nth
        return nth is not None and self.matched_count >= nth

    def takes(self, request: FaultableRequest) -> bool:
        """Count a request of its API; whether it is to be acted on."""
        self.seen_count += 1
        reason = self.rule.match.mismatch(request)
        if reason is not None:
            if reason in self.misses or len(self.misses) < _REASONS_KEPT:
                self.misses[reason] = self.misses.get(reason, 0) + 1
            return False
        self.matched_count += 1
        nth = self.rule.match.nth
        if (nth is not None and self.matched_count != nth) or not self._is_triggered():
            return False
        self.taken_count += 1
        return True

    def _is_triggered(self) -> bool:
        trigger = self.rule.trigger
        if trigger.name == "nth":
            return self.matched_count == trigger.value
        if trigger.seed is not None:
            return drawn(trigger.seed, self.matched_count) < (trigger.value or 0)
        return True

    def why_unused(self) -> str:
        """A sentence about a rule that has never fired: what came close."""
        rule = self.rule
        said = f"{rule.name} ({self.fault_id}, {rule.trigger}) never fired: "
        what = "append" if rule.api == APPEND else "request" if rule.api == "*" else f"{rule.api} request"
        if not self.seen_count:
            return f"{said}no {what} came"
        if self.taken_count:
            came_to = "appended nothing" if rule.action.name in OF_APPENDS else "got no answer that it could act on yet"
            return f"{said}it took {counted(self.taken_count, what)}, which {came_to}"
        parts = []
        if self.matched_count:
            wanted = rule.match.nth or (rule.trigger.value if rule.trigger.name == "nth" else None)
            which = f"number {wanted} was to fire" if wanted else "none was drawn"
            parts.append(f"{counted(self.matched_count, what)} matched, {which}")
        parts.extend(f"{counted(count, what)} came with {reason}" for reason, count in self.misses.items())
        return said + "; ".join(parts)


class Faults:
    """All rules of one cluster. `on_change()` is called when other rules are in force than before, `on_fired` with each firing.

    Of several rules that a request matches the first acts, in the order in which they were armed; the others do not
    count it.
    """

    def __init__(self) -> None:
        self.on_change: Callable[[], None] = lambda: None
        self.on_fired: list[Callable[[Firing], None]] = []
        self.checks: list[Callable[[Rule], None]] = []
        """Called with each new rule; may raise InvalidRule, where this cluster cannot do what it asks."""
        self.all: list[Fault] = []
        """Every rule since `clear`, also those that are over."""
        self.active: list[Fault] = []
        self.operation = Operations()
        """What these are done by."""
        self._last_number = 0

    def arm(self, rule: Rule) -> Fault:
        """Put a rule in force. Raises InvalidRule."""
        return self.operation("arm-fault", {"fault": rule}, lambda: self._arm(rule))

    def _arm(self, rule: Rule) -> Fault:
        for check in self.checks:
            check(rule)
        self._last_number += 1
        fault = Fault(rule, f"fault-{self._last_number}")
        self.all.append(fault)
        self.active.append(fault)
        self.on_change()
        return fault

    def cancel(self, fault: Fault) -> None:
        """End a rule. Requests that it acts on already stay as they are. Idempotent."""
        self.operation("cancel-fault", {"fault": fault.fault_id}, lambda: self._cancel(fault))

    def _cancel(self, fault: Fault) -> None:
        fault.is_cancelled = True
        self._drop(fault)

    def clear(self) -> None:
        """Cancel and forget all rules."""
        self.operation("clear-faults", {}, self._clear)

    def _clear(self) -> None:
        for fault in self.all:
            fault.is_cancelled = True
        self.all.clear()
        self.active.clear()
        self.on_change()

    def find(self, fault_id: str) -> Fault:
        """Raises LookupError."""
        for fault in self.all:
            if fault.fault_id == fault_id:
                return fault
        known = ", ".join(fault.fault_id for fault in self.all) or "none"
        raise LookupError(f"there is no fault {fault_id!r}; there are {known}")

    def take(self, request: FaultableRequest) -> Fault | None:
        """The rule that acts on a request, None if it goes its way."""
        for fault in self.active:
            if fault.rule.api == request.api or (fault.rule.api == "*" and request.api not in AUTHENTICATION):
                taken = fault.takes(request)
                if fault.is_over:
                    self._drop(fault)
                if taken:
                    return fault
        return None

    def fired(self, fault: Fault, request: FaultableRequest, now: Now) -> None:
        """A fault has acted on a request."""
        match = fault.rule.match
        entries: Iterable[Entry] = request.entries
        if match.names_entries:
            entries = filter(match.takes, entries)
        fault.fired_count += 1
        firing = Firing(
            fault.rule.name,
            fault.fired_count,
            now,
            *request[:-1],
            topic_partitions=tuple(entry.text() for entry in entries if entry.topic is not None)[:100],
        )
        fault.fired.append(firing)
        if len(fault.fired) > FIRINGS_KEPT:
            del fault.fired[0]
        for listener in self.on_fired:
            listener(firing)

    def assert_all_used(self) -> None:
        """Raises AssertionError, which names each rule that has never fired and what came close."""
        unused = [fault.why_unused() for fault in self.all if not fault.fired_count]
        if unused:
            raise AssertionError("\n".join(unused))

    def _drop(self, fault: Fault) -> None:
        if fault in self.active:
            self.active.remove(fault)
            self.on_change()
