"""Faults from a test: `faults.on("OffsetCommit", group="billing").error("NOT_COORDINATOR").times(2)`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, Never, NoReturn, Protocol, TypeVar

from kshim.testing.arguments import TIMEOUT_S, check_integer
from kshim.testing.awaiting import awaited
from kshim.testing.naming import shown_as
from kshim.wording import counted

if TYPE_CHECKING:
    from kshim.faults.faults import Fault as ArmedFault
    from kshim.faults.faults import Faults as FaultRules
    from kshim.faults.faults import Firing
    from kshim.faults.rule import Action, Match, Rule

T = TypeVar("T")
F = TypeVar("F", bound="FaultFace")


class Broking(Protocol):
    """How to reach some brokers: `call` does something in their thread and returns what it returns."""

    @property
    def fault_rules(self) -> FaultRules:
        """Their rules, to be used in their thread."""
        ...

    def call(self, do: Callable[[], T]) -> T:
        """Raises what `do` raises; RuntimeError when they are closed."""
        ...

    def result_of(self, future: Future[T]) -> T:
        """Block until a future is done. Raises what it raises; RuntimeError in their thread, which it would block."""
        ...

    def until_fired(self, look: Callable[[], T | None], timeout_s: float, describe: Callable[[], str]) -> Future[T]:
        """A future of what `look` returns as soon as that is not None, or TimeoutError with what `describe` says."""
        ...


@shown_as("Fault")
class FaultFace:
    """A rule in force. It may be used in any thread in which its brokers may be called."""

    def __init__(self, fault: ArmedFault, brokers: Broking) -> None:
        self._fault = fault
        self._brokers = brokers

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
        self._brokers.call(lambda: self._brokers.fault_rules.cancel(self._fault))

    def _firings(self, times: int, timeout: float) -> Future[list[Firing]]:
        check_integer("times", times)
        if times < 1:
            raise ValueError(f"times must be a number from 1 on, not {times}")

        def look() -> list[Firing] | None:
            return self.fired if self._fault.fired_count >= times else None

        def describe() -> str:
            count = self._fault.fired_count
            if not count:
                return f"not within {timeout:g} s: {self.why_unused()}"
            return f"{self.rule.name} ({self.fault_id}, {self.rule.trigger}) fired {counted(count, 'time')} within {timeout:g} s, and not {times}"

        found = look()  # what has happened can be asked for after the brokers have ended, too
        if found is None:
            return self._brokers.until_fired(look, timeout, describe)
        future: Future[list[Firing]] = Future()
        future.set_result(found)
        return future

    def __repr__(self) -> str:
        return f"<Fault {self.fault_id} {self.rule.name}, {self.rule.trigger}>"

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            from kshim.faults.rule import TRIGGERS

            if name in TRIGGERS:
                raise AttributeError(
                    f"{self.rule.name} is in force already, {self.rule.trigger}: a rule has one trigger"
                )
            raise AttributeError(f"a fault has no attribute {name}")


class Fault(FaultFace):
    """A rule in force, with a wait that blocks the caller."""

    def wait_fired(self, times: int = 1, timeout: float = TIMEOUT_S) -> list[Firing]:
        """Until it has fired so many times; returns `fired`. `timeout` is in seconds of real time.

        Raises TimeoutError, with what came close.
        """
        return self._brokers.result_of(self._firings(times, timeout))


class AsyncFault(FaultFace):
    """A rule in force, with a wait to be awaited, under asyncio or trio."""

    async def wait_fired(self, times: int = 1, timeout: float = TIMEOUT_S) -> list[Firing]:  # noqa: ASYNC109
        """See `Fault.wait_fired`."""
        return await awaited(self._firings(times, timeout))


@shown_as("Faults")
class FaultsFace(Generic[F]):
    """The faults of some brokers. `unarmed`: what was described and not armed, where another face has the same brokers.

    A rule is described and then armed by its trigger, which is the last call of the chain. One that was described and not armed is
    an error in `assert_all_used` and `check_all_armed`.
    """

    _fault_type: ClassVar[type[FaultFace]]

    def __init__(self, brokers: Broking, unarmed: list[Described[Any]] | None = None) -> None:
        self._brokers = brokers
        self._unarmed: list[Described[Any]] = [] if unarmed is None else unarmed

    def on(
        self,
        api: str,
        *,
        version: int | str | None = None,
        group: str | None = None,
        client_id: str | None = None,
        member_id: str | None = None,
        group_instance_id: str | None = None,
        transactional_id: str | None = None,
        topic: str | None = None,
        partition: int | None = None,
        broker: int | None = None,
        listener: str | None = None,
        nth: int | None = None,
        name: str | None = None,
        **unknown: Never,
    ) -> Matched[F]:
        """Describe which requests; an action and a trigger follow. Texts may be patterns, such as `group="billing-*"`.

        `api` is Kafka's name of an API, `"*"` for every one but those of the authentication, or `"Append"`. `version` is a number or a range such as `"3-5"`
        or `"8+"`. `nth`: of these requests only that one, counted from 1. `name` stands in the log and in the history. Raises
        InvalidRule (a ValueError).
        """
        from kshim.faults.rule import Match, check_match

        for other in unknown:
            known = (*Match._fields[1:], "name")
            raise TypeError(f"faults.on has no {other}; {_listed(other, known)}")
        text = str(version) if type(version) is int else version
        match = Match(
            api, text, group, client_id, member_id, group_instance_id, transactional_id, topic, partition, broker,  # type: ignore[arg-type]
            listener, nth,
        )  # fmt: skip
        check_match(match)
        return Matched(self, match, name)

    def add(self, document: Mapping[str, Any]) -> F:
        """Arm a rule that is given as data, as it stands in a TOML file or goes over HTTP. Raises InvalidRule."""
        from kshim.faults.document import rule_from_document

        return self._arm(rule_from_document(document))

    def load(self, toml: str) -> list[F]:
        """Arm the rules of a TOML text. Raises InvalidRule."""
        from kshim.faults.document import rules_from_toml

        return [self._arm(rule) for rule in rules_from_toml(toml)]

    @property
    def all(self) -> list[F]:
        """All rules since the last `clear`, also those that have done their work."""
        return [self._fault(fault) for fault in self._brokers.call(lambda: list(self._brokers.fault_rules.all))]

    def clear(self) -> None:
        """Cancel and forget all rules."""
        self._unarmed.clear()
        self._brokers.call(lambda: self._brokers.fault_rules.clear())  # noqa: PLW0108 - looked up in their thread

    def assert_all_used(self) -> None:
        """Raises AssertionError, which names each rule that never fired, with what came close, or was never armed."""
        self.check_all_armed()
        self._brokers.call(lambda: self._brokers.fault_rules.assert_all_used())  # noqa: PLW0108

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

    def _arm(self, rule: Rule) -> F:
        return self._fault(self._brokers.call(lambda: self._brokers.fault_rules.arm(rule)))

    def _fault(self, fault: ArmedFault) -> F:
        return self._fault_type(fault, self._brokers)  # type: ignore[return-value]


class Faults(FaultsFace[Fault]):
    """The faults of some brokers, whose waits block the caller."""

    _fault_type = Fault

    def as_async(self) -> AsyncFaults:
        """The same faults, with waits to be awaited."""
        return AsyncFaults(self._brokers, self._unarmed)


class AsyncFaults(FaultsFace[AsyncFault]):
    """The faults of some brokers, with waits to be awaited."""

    _fault_type = AsyncFault


class Described(ABC, Generic[F]):
    """Part of a rule. It is not in force before a trigger arms it."""

    def __init__(self, faults: FaultsFace[F], match: Match, name: str | None) -> None:
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


class Matched(Described[F]):
    """Which requests: say next what happens to them."""

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            from kshim.faults.rule import ACTIONS, TRIGGERS

            on = f'faults.on("{self.__dict__["_match"].api}")' if "_match" in self.__dict__ else "faults.on(...)"
            if name in TRIGGERS:
                raise AttributeError(
                    f'{on} says not what happens: put an action before .{name}(), such as .error("...") or .hang(); '
                    f"there are {', '.join(ACTIONS)}"
                )
            raise AttributeError(f"{on}: there is no action {name}; {_listed(name, ACTIONS)}")

    def problem(self) -> str:
        return f'faults.on("{self._match.api}") does not say what happens: add an action and a trigger, such as .hang().once()'

    def error(
        self, code: str | int, *, level: Literal["top", "group", "topic", "partition", "member"] | None = None
    ) -> Acting[F]:
        """Answer with an error, and do nothing else; of a rule for a topic or partition only those entries have it.

        `code` is Kafka's name, such as "COORDINATOR_LOAD_IN_PROGRESS", or its number. `level` says where in the answer, if not as near as can be
        to what is matched. Raises InvalidRule for a code that this API does not answer.
        """
        return self._acting("error", code, level)

    def delay(self, seconds: float, when: Literal["before", "after"] = "after") -> Acting[F]:
        """Answer later: the work is done at once and the answer held back, or with `before` both come later."""
        return self._acting("delay", seconds, when)

    def hang(self) -> Acting[F]:
        """Do nothing, and never answer; the connection stays open."""
        return self._acting("hang")

    def drop_reply(self) -> Acting[F]:
        """Do the work, and never answer; the connection stays open."""
        return self._acting("drop_reply")

    def disconnect(self, when: Literal["before", "after"] = "before") -> Acting[F]:
        """Close the connection instead of answering, before the work or after it."""
        return self._acting("disconnect", when)

    def throttle(self, milliseconds: int) -> Acting[F]:
        """Answer with this `throttle_time_ms`."""
        return self._acting("throttle", milliseconds)

    def truncate(self) -> Acting[F]:
        """Do the work, send half of the answer, and close the connection."""
        return self._acting("truncate")

    def corrupt(self) -> Acting[F]:
        """Do the work, and invert every byte of the answer's body. Size and correlation id are sound."""
        return self._acting("corrupt")

    def oversize(self, size_bytes: int | None = None) -> Acting[F]:
        """Do the work, and claim that the answer has this size, 200 MB if not given; no more bytes come than it has."""
        return self._acting("oversize", size_bytes)

    def stale_generation(self) -> Acting[F]:
        """Treat the member as one of the generation before, so that it gets ILLEGAL_GENERATION; of JoinGroup: give it
        the number of the generation before, so that what it does next gets it."""
        return self._acting("stale_generation")

    def not_coordinator(self) -> Acting[F]:
        """Move the coordinator to another broker first, which needs two; the request gets NOT_COORDINATOR."""
        return self._acting("not_coordinator")

    def loading(self, seconds: float) -> Acting[F]:
        """Have the coordinator's partition load so long: all its requests get COORDINATOR_LOAD_IN_PROGRESS meanwhile."""
        return self._acting("loading", seconds)

    def disk_full(self) -> Acting[F]:
        """Fail what the request appends, as a full disk does."""
        return self._acting("disk_full")

    def slow_fsync(self, seconds: float) -> Acting[F]:
        """Have what the request appends take so long to become durable; answers that depend on it wait."""
        return self._acting("slow_fsync", seconds)

    def _acting(self, name: str, value: str | float | None = None, option: str | None = None) -> Acting[F]:
        from kshim.faults.rule import Action, checked_action

        action = checked_action(self._match, Action(name, value, option))
        self._done()
        return Acting(self._faults, self._match, self._name, action)


class Acting(Described[F]):
    """Which requests, and what happens: a trigger is missing, which puts the rule in force."""

    def __init__(self, faults: FaultsFace[F], match: Match, name: str | None, action: Action) -> None:
        self._action = action
        super().__init__(faults, match, name)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            from kshim.faults.rule import ACTIONS, TRIGGERS

            if name in ACTIONS and "_action" in self.__dict__:
                raise AttributeError(
                    f"a rule does one thing, {self._action.name}, and no {name} beside it: end it with a trigger, such as .once()"
                )
            raise AttributeError(f"there is no trigger {name}; {_listed(name, TRIGGERS)}")

    def problem(self) -> str:
        return (
            f'faults.on("{self._match.api}").{self._action.name}(...) was never armed: end it with a trigger, which is '
            ".once(), .times(n), .nth(n), .always() or .probability(p, seed=1)"
        )

    def once(self) -> F:
        """Act on the first of these requests."""
        return self._armed("once")

    def times(self, count: int) -> F:
        """Act on the first `count`."""
        return self._armed("times", count)

    def nth(self, number: int) -> F:
        """Act on this one only, counted from 1."""
        return self._armed("nth", number)

    def always(self) -> F:
        """Act on each of them, until it is cancelled."""
        return self._armed("always")

    def probability(self, probability: float, *, seed: int) -> F:
        """Act on each of them with this probability; the same seed draws the same ones."""
        return self._armed("probability", probability, seed)

    def _armed(self, name: str, value: float | None = None, seed: int | None = None) -> F:
        from kshim.faults.rule import Trigger, new_rule

        rule = new_rule(self._match, self._action, Trigger(name, value, seed), self._name)
        fault = self._faults._arm(rule)
        self._done()
        return fault


def _listed(name: str, known: Iterable[str]) -> str:
    """What there is instead."""
    names = list(known)
    near = get_close_matches(name, names, n=1)
    return f"there are {', '.join(names)}" + (f"; did you mean {near[0]}?" if near else "")
