"""Faults from a test: `faults.on("OffsetCommit", group="billing").error("NOT_COORDINATOR").times(2)`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from kshim.faults.faults import Fault as ArmedFault
    from kshim.faults.faults import Faults as FaultRules
    from kshim.faults.faults import Firing
    from kshim.faults.rule import Action, Match, Rule


class Fault:
    """A rule in force. It may be used in any thread in which its brokers may be called."""

    def __init__(self, fault: ArmedFault, cancel: Callable[[ArmedFault], None]) -> None:
        self._fault = fault
        self._cancel = cancel

    @property
    def rule(self) -> Rule:
        """What it does to which requests."""
        return self._fault.rule

    @property
    def fault_id(self) -> str:
        """Its id, as in the log and over HTTP."""
        return self._fault.fault_id

    @property
    def fired(self) -> list[Firing]:
        """When it fired and on what: one entry each, in order. Also after the brokers have ended."""
        return list(self._fault.fired)

    def why_unused(self) -> str:
        """A sentence about a rule that has never fired: what came close."""
        return self._fault.why_unused()

    @property
    def is_cancelled(self) -> bool:
        """Whether it was ended by `cancel` or `Faults.clear`."""
        return self._fault.is_cancelled

    def cancel(self) -> None:
        """End it. Requests that it acts on already stay as they are. Idempotent."""
        self._cancel(self._fault)

    def __repr__(self) -> str:
        return f"<Fault {self.fault_id} {self.rule.name}, {self.rule.trigger}>"


class Faults:
    """The faults of some brokers. `call(do)` does something in the thread of the brokers and returns what it returns.

    A rule is described and then armed by its trigger, which is the last call of the chain. One that was described and not armed is
    an error in `assert_all_used` and `check_all_armed`.
    """

    def __init__(self, rules: Callable[[], FaultRules], call: Callable[[Callable[[], Any]], Any]) -> None:
        self._rules = rules
        self._call = call
        self._unarmed: list[Described] = []

    def on(
        self,
        api: str,
        *,
        version: int | str | None = None,
        group: str | None = None,
        client_id: str | None = None,
        member_id: str | None = None,
        group_instance_id: str | None = None,
        topic: str | None = None,
        partition: int | None = None,
        broker: int | None = None,
        listener: str | None = None,
        nth: int | None = None,
        name: str | None = None,
    ) -> Matched:
        """Describe which requests; an action and a trigger follow. Texts may be patterns, such as `group="billing-*"`.

        `api` is Kafka's name of an API, `"*"` for every one, or `"Append"`. `version` is a number or a range such as `"3-5"`
        or `"8+"`. `nth`: of these requests only that one, counted from 1. `name` stands in the log and in the history. Raises
        InvalidRule (a ValueError).
        """
        from kshim.faults.rule import Match, check_match

        text = str(version) if type(version) is int else version
        match = Match(
            api, text, group, client_id, member_id, group_instance_id, topic, partition, broker, listener, nth  # type: ignore[arg-type]
        )  # fmt: skip
        check_match(match)
        return Matched(self, match, name)

    def add(self, document: Mapping[str, Any]) -> Fault:
        """Arm a rule that is given as data, as it stands in a TOML file or goes over HTTP. Raises InvalidRule."""
        from kshim.faults.document import rule_from_document

        return self._arm(rule_from_document(document))

    def load(self, toml: str) -> list[Fault]:
        """Arm the rules of a TOML text. Raises InvalidRule."""
        from kshim.faults.document import rules_from_toml

        return [self._arm(rule) for rule in rules_from_toml(toml)]

    @property
    def all(self) -> list[Fault]:
        """All rules since the last `clear`, also those that have done their work."""
        return [Fault(fault, self._cancel) for fault in self._call(lambda: list(self._rules().all))]

    def clear(self) -> None:
        """Cancel and forget all rules."""
        self._unarmed.clear()
        self._call(lambda: self._rules().clear())

    def assert_all_used(self) -> None:
        """Raises AssertionError, which names each rule that never fired, with what came close, or was never armed."""
        self.check_all_armed()
        self._call(lambda: self._rules().assert_all_used())

    def check_all_armed(self) -> None:
        """Raises AssertionError for rules that were described and not armed."""
        if self._unarmed:
            raise AssertionError("\n".join(self.unarmed))

    @property
    def unarmed(self) -> list[str]:
        """A sentence for each rule that was described and not armed."""
        return [described.problem() for described in self._unarmed]

    def forget_unarmed(self) -> None:
        """Give up the rules that were described and not armed: they are no error any more."""
        self._unarmed.clear()

    def _arm(self, rule: Rule) -> Fault:
        return Fault(self._call(lambda: self._rules().arm(rule)), self._cancel)

    def _cancel(self, fault: ArmedFault) -> None:
        self._call(lambda: self._rules().cancel(fault))


class Described(ABC):
    """Part of a rule. It is not in force before a trigger arms it."""

    def __init__(self, faults: Faults, match: Match, name: str | None) -> None:
        self._faults = faults
        self._match = match
        self._name = name
        faults._unarmed.append(self)

    @abstractmethod
    def problem(self) -> str:
        """What is missing, as a sentence."""

    def _done(self) -> None:
        """The next call of the chain takes over."""
        if self in self._faults._unarmed:
            self._faults._unarmed.remove(self)


class Matched(Described):
    """Which requests: say next what happens to them."""

    def problem(self) -> str:
        return f'faults.on("{self._match.api}") says not what happens: add an action and a trigger, .hang().once() for example'

    def error(
        self, code: str | int, *, level: Literal["top", "group", "topic", "partition", "member"] | None = None
    ) -> Acting:
        """Answer with an error, and do nothing else; of a rule for a topic or partition only those entries have it.

        `code` is Kafka's name, such as "COORDINATOR_LOAD_IN_PROGRESS", or its number. `level` says where in the answer, if not as near as can be
        to what is matched. Raises InvalidRule for a code that this API does not answer.
        """
        return self._acting("error", code, level)

    def delay(self, seconds: float, when: Literal["before", "after"] = "after") -> Acting:
        """Answer later: the work is done at once and the answer held back, or with `before` both come later."""
        return self._acting("delay", seconds, when)

    def hang(self) -> Acting:
        """Do nothing, and never answer; the connection stays open."""
        return self._acting("hang")

    def drop_reply(self) -> Acting:
        """Do the work, and never answer; the connection stays open."""
        return self._acting("drop_reply")

    def disconnect(self, when: Literal["before", "after"] = "before") -> Acting:
        """Close the connection instead of answering, before the work or after it."""
        return self._acting("disconnect", when)

    def throttle(self, milliseconds: int) -> Acting:
        """Answer with this `throttle_time_ms`."""
        return self._acting("throttle", milliseconds)

    def truncate(self) -> Acting:
        """Do the work, send half of the answer, and close the connection."""
        return self._acting("truncate")

    def corrupt(self) -> Acting:
        """Do the work, and invert every byte of the answer's body. Size and correlation id are sound."""
        return self._acting("corrupt")

    def oversize(self, size_bytes: int | None = None) -> Acting:
        """Do the work, and claim that the answer has this size, 200 MB if not given; no more bytes come than it has."""
        return self._acting("oversize", size_bytes)

    def stale_generation(self) -> Acting:
        """Treat the member as one of the generation before, so that it gets ILLEGAL_GENERATION; of JoinGroup: give it
        the number of the generation before, so that what it does next gets it."""
        return self._acting("stale_generation")

    def not_coordinator(self) -> Acting:
        """Move the coordinator to another broker first, which needs two; the request gets NOT_COORDINATOR."""
        return self._acting("not_coordinator")

    def loading(self, seconds: float) -> Acting:
        """Have the coordinator's partition load so long: all its requests get COORDINATOR_LOAD_IN_PROGRESS meanwhile."""
        return self._acting("loading", seconds)

    def disk_full(self) -> Acting:
        """Fail what the request appends, as a full disk does."""
        return self._acting("disk_full")

    def slow_fsync(self, seconds: float) -> Acting:
        """Have what the request appends take so long to become durable; answers that depend on it wait."""
        return self._acting("slow_fsync", seconds)

    def _acting(self, name: str, value: str | float | None = None, option: str | None = None) -> Acting:
        from kshim.faults.rule import Action, checked_action

        action = checked_action(self._match, Action(name, value, option))
        self._done()
        return Acting(self._faults, self._match, self._name, action)


class Acting(Described):
    """Which requests, and what happens: a trigger is missing, which puts the rule in force."""

    def __init__(self, faults: Faults, match: Match, name: str | None, action: Action) -> None:
        super().__init__(faults, match, name)
        self._action = action

    def problem(self) -> str:
        return (
            f'faults.on("{self._match.api}").{self._action.name}(...) was never armed: end it with a trigger, which is '
            ".once(), .times(n), .nth(n), .always() or .probability(p, seed=1)"
        )

    def once(self) -> Fault:
        """Act on the first of these requests."""
        return self._armed("once")

    def times(self, count: int) -> Fault:
        """Act on the first `count`."""
        return self._armed("times", count)

    def nth(self, number: int) -> Fault:
        """Act on this one only, counted from 1."""
        return self._armed("nth", number)

    def always(self) -> Fault:
        """Act on each of them, until it is cancelled."""
        return self._armed("always")

    def probability(self, probability: float, *, seed: int) -> Fault:
        """Act on each of them with this probability; the same seed draws the same ones."""
        return self._armed("probability", probability, seed)

    def _armed(self, name: str, value: float | None = None, seed: int | None = None) -> Fault:
        from kshim.faults.rule import Trigger, new_rule

        rule = new_rule(self._match, self._action, Trigger(name, value, seed), self._name)
        fault = self._faults._arm(rule)
        self._done()
        return fault
