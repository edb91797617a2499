"""One behaviour: played, watched from the brokers, and judged."""

from __future__ import annotations

import math
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

import trio

from kshim.tools.conform_client.acts import ACTS, ActFailed, remove_member
from kshim.tools.conform_client.dialogue import Exchange
from kshim.tools.conform_client.lines import lines_of
from kshim.tools.conform_client.model import REJOINS, Behaviour
from kshim.tools.conform_client.program import CommandProblem
from kshim.tools.conform_client.stage import COMMITTED_OFFSET, Stage, open_stage
from kshim.tools.report import Entry, Verdict

if TYPE_CHECKING:
    from kshim.faults.faults import Firing

START_TIMEOUT_S: Final = 45.0
"""From the start of the program to its first commit: a JVM on a busy machine included."""
MEET_TIMEOUT_S: Final = 20.0
"""From then until the request that is to be met: automatic commits come every five seconds in most clients."""
MAX_REQUESTS_PER_S: Final = 30
"""Of one API. Java's default retry.backoff.ms of 100 makes ten a second."""
_PAUSE_GRACE_S: Final = 0.15
"""A request that was under way when its sender was told to wait."""


class Failed(Exception):
    """The program does not do what is expected."""

    def __init__(self, expected: str, seen: str) -> None:
        super().__init__(expected, seen)
        self.expected = expected
        self.seen = seen


class NotApplicable(Exception):
    """The behaviour says nothing of this program; `str(error)` is why."""


async def judge(behaviour: Behaviour, command: str, *, patience: float = 1.0) -> Entry:
    """Play a behaviour. All time limits for the program are multiplied by `patience`. Raises CommandProblem."""
    began_s = trio.current_time()
    problem: CommandProblem | None = None
    failures: list[Failed] = []
    reason, details = "", []
    async with open_stage(behaviour, command) as stage:
        episode = _Episode(stage, behaviour, patience)
        try:
            await episode.play()
            failures = list(episode.failures())
        except NotApplicable as not_applicable:
            reason = str(not_applicable)
        except (ActFailed, Failed) as failure:
            seen = failure if isinstance(failure, Failed) else Failed("takes part in its group", str(failure))
            failures = [seen, *episode.failures()]
        except CommandProblem as error:  # raised outside, where no ExceptionGroup is put around it
            problem = error
        for defect in stage.brokers.defects:  # then nothing else that was seen counts
            failures = [Failed("brokers that work", f"a defect of kshim, please report it: {defect!r}")]
        if failures:
            details = [line for failure in failures for line in _lines_of(failure)]
            details += [f"  {line}" for line in lines_of(stage.dialogue)]
            details += [f"  output: {line}" for line in stage.program.last_output()]
    if problem is not None:
        raise problem
    return Entry(
        behaviour.suite,
        behaviour.name,
        behaviour.title,
        Verdict.FAILED if failures else Verdict.SKIPPED if reason else Verdict.PASSED,
        trio.current_time() - began_s,
        reason,
        details,
        _facts(behaviour, failures, details, episode.how),
    )


def _lines_of(failure: Failed) -> list[str]:
    return [f"expected  {failure.expected}", f"seen      {failure.seen}"]


def _facts(behaviour: Behaviour, failures: list[Failed], details: list[str], how: str) -> dict[str, Any]:
    facts: dict[str, Any] = {"source": behaviour.source}
    if how:
        facts["how"] = how
    if failures:
        facts["failures"] = [{"expected": failure.expected, "seen": failure.seen} for failure in failures]
        facts["dialogue"] = [line.strip() for line in details[2 * len(failures) :]]
    return facts


class _Episode:
    """One playing: first everything is well, or nothing has begun; then it goes wrong; then it is over."""

    def __init__(self, stage: Stage, behaviour: Behaviour, patience: float) -> None:
        self._stage = stage
        self._dialogue = stage.dialogue
        self._program = stage.program
        self._behaviour = behaviour
        self._patience = patience
        self._began_s = math.inf
        self._met: Exchange | None = None
        self.how = ""
        """In what way it ended well."""

    async def play(self) -> None:
        """Returns when it has ended well. Raises Failed, ActFailed, NotApplicable, CommandProblem."""
        behaviour = self._behaviour
        is_consuming = behaviour.moment == "consuming"
        if is_consuming:
            await self._program.start(self._stage.nursery)
            await self._consume()
        self._began_s = self._dialogue.now_s
        async with self._trouble():
            if not is_consuming:
                await self._program.start(self._stage.nursery)
            await self._meet(MEET_TIMEOUT_S if is_consuming else START_TIMEOUT_S)
            await self._dialogue.wait_until(self._has_ended, until_s=self._dialogue.now_s + behaviour.for_s)
        if behaviour.ends == "exits":
            await self._exit()
        else:
            await self._recover()

    async def _consume(self) -> None:
        """Until the program has committed what was there before, and is the member that is asked for."""
        goal = dict.fromkeys(self._stage.ends(), COMMITTED_OFFSET)
        limit_s = START_TIMEOUT_S * self._patience
        await self._dialogue.wait_until(
            lambda: self._has_ended() or self._stage.has_committed_beyond(goal), until_s=limit_s
        )
        if not self._stage.has_committed_beyond(goal):
            raise Failed(
                f"consumes the records of every partition and commits them before anything goes wrong, within {limit_s:g} s",
                self._end_of_program() or "it does not",
            )
        if self._behaviour.is_static and not any(
            each.request.group_instance_id for each in self._dialogue.since(0, "JoinGroup")
        ):
            raise NotApplicable("no static member: the program does not use KSHIM_INSTANCE or {instance}")

    @asynccontextmanager
    async def _trouble(self) -> AsyncIterator[None]:
        behaviour, brokers = self._behaviour, self._stage.brokers
        if behaviour.act:
            async with ACTS[behaviour.act](self._stage):
                yield
        elif behaviour.fault is not None:
            brokers.fault_rules.on_fired.append(self._fired)
            fault = brokers.faults.add(behaviour.fault)
            try:
                yield
            finally:
                fault.cancel()
        else:
            yield

    async def _meet(self, timeout_s: float) -> None:
        """Until the program has sent the request that goes wrong, and was answered as it should be."""
        behaviour = self._behaviour
        apis = (behaviour.needs,) if behaviour.needs else ()
        if not apis and not behaviour.error:
            return

        def is_met() -> bool:
            self._met = next(filter(self._is_it, self._dialogue.since(self._began_s, *apis)), None)
            return self._met is not None

        timeout_s *= self._patience
        until_s = self._dialogue.now_s + timeout_s
        if await self._dialogue.wait_until(lambda: is_met() or self._has_ended(), until_s=until_s) and is_met():
            return
        what = f"{behaviour.needs or 'request'}{f' that is answered {behaviour.error}' if behaviour.error else ''}"
        if self._has_ended():
            raise Failed(f"sends a {what}", self._end_of_program())
        versions = {each.version for each in self._dialogue.since(0, *apis)}
        if versions and max(versions) < behaviour.min_version:
            raise NotApplicable(
                f"it sends {behaviour.needs} v{max(versions)}, and this begins with v{behaviour.min_version}"
            )
        raise NotApplicable(f"it sent no {what} within {timeout_s:g} s")

    def _fired(self, firing: Firing) -> None:
        self._dialogue.fired(firing)
        if self._behaviour.error == "UNKNOWN_MEMBER_ID" and firing.member_id:
            # So that it is true: the group would wait for a member that it has told to be none.
            remove_member(self._stage, firing.member_id)

    def _is_it(self, exchange: Exchange) -> bool:
        """Whether this is a request that goes wrong."""
        if self._behaviour.fault is not None:
            return bool(exchange.fault)
        return self._behaviour.error in exchange.errors and exchange.version >= self._behaviour.min_version

    async def _recover(self) -> None:
        """Until the program has committed records that came afterwards."""
        over_s = self._dialogue.now_s
        goal = self._stage.ends()
        within_s = self._behaviour.within_s * self._patience

        def has_recovered() -> bool:
            return self._stage.has_committed_beyond(goal, since_s=over_s)

        await self._dialogue.wait_until(lambda: self._has_ended() or has_recovered(), until_s=over_s + within_s)
        may_exit = self._behaviour.ends == "recovers or exits"
        if has_recovered():
            self.how = f"recovered {self._dialogue.now_s - over_s:.1f} s after it was over"
            return
        if may_exit and self._program.exit_code:
            self.how = self._end_of_program()
            return
        expected = f"commits records of every partition that came afterwards, within {within_s:g} s"
        if may_exit:
            expected += ", or has ended with an exit code that is not 0"
        raise Failed(expected, self._end_of_program() or self._silence(over_s))

    async def _exit(self) -> None:
        """Until the program has ended with an error."""
        within_s = self._behaviour.within_s * self._patience
        await self._dialogue.wait_until(self._has_ended, until_s=self._dialogue.now_s + within_s)
        if not self._program.exit_code:
            raise Failed(
                f"ends with an exit code that is not 0, within {within_s:g} s",
                self._end_of_program() or "it goes on running",
            )
        self.how = self._end_of_program()

    def failures(self) -> Iterator[Failed]:
        """What else it did that it must not, from the beginning of the trouble on."""
        if self._began_s == math.inf:
            return
        yield from self._hammering()
        yield from self._commits_backwards()
        if self._met is not None:
            yield from self._what_follows(self._met)
        if "starts where committed" in self._behaviour.checks:
            yield from self._wrong_start()
        if "does not join again" in self._behaviour.checks:
            for each in self._dialogue.since(self._began_s, "JoinGroup"):
                when = f"JoinGroup {each.at_s - self._began_s:.1f} s after the newer process"
                yield Failed("does not join again, which would fence the newer process in turn", when)
                return

    def _hammering(self) -> Iterator[Failed]:
        windows: dict[str, deque[float]] = defaultdict(deque)
        worst: dict[str, int] = defaultdict(int)
        for exchange in self._dialogue.since(self._began_s):
            if exchange.api == "Fetch" and not exchange.is_refused:
                continue  # how often they come is a matter of how many records there are
            window = windows[exchange.api]
            window.append(exchange.at_s)
            while window[0] < exchange.at_s - 1:
                window.popleft()
            worst[exchange.api] = max(worst[exchange.api], len(window))
        for api, count in worst.items():
            if count > MAX_REQUESTS_PER_S:
                yield Failed(
                    f"pauses between attempts: at most {MAX_REQUESTS_PER_S} {api} in a second", f"{count} in a second"
                )

    def _commits_backwards(self) -> Iterator[Failed]:
        newest: dict[int, int] = {}
        for exchange, partition, offset in self._stage.commits():
            if offset < newest.get(partition, 0):
                yield Failed(
                    "never commits an offset before one that it has committed",
                    f"offset {offset} of partition {partition} after {newest[partition]}, at {exchange.at_s:.2f} s",
                )
                return
            newest[partition] = offset

    def _what_follows(self, met: Exchange) -> Iterator[Failed]:
        behaviour = self._behaviour
        told_s = met.answered_s if met.answered_s is not None else met.at_s
        later = list(self._dialogue.since(told_s))
        if behaviour.asks and not any(each.api == behaviour.asks for each in later):
            yield Failed(f"sends {behaviour.asks} after it", "none")
        if behaviour.rejoins:
            # To ask with an id that is unknown, and learn it, costs a request and harms nobody.
            joins = [each for each in later if each.api == "JoinGroup" and "UNKNOWN_MEMBER_ID" not in each.errors]
            yield from self._wrong_identity(met, next(iter(joins), None))
        if "waits for the answer" in behaviour.checks:
            yield from self._impatience(met)
        if behaviour.pauses_s:
            until_s = told_s + behaviour.pauses_s - _PAUSE_GRACE_S
            for each in later:
                if each.connection == met.connection and told_s + _PAUSE_GRACE_S < each.at_s < until_s:
                    yield Failed(
                        f"sends nothing on the connection for the {behaviour.pauses_s:g} s that it is told to wait",
                        f"{each.api} {each.at_s - told_s:.2f} s after the answer",
                    )
                    return

    def _impatience(self, met: Exchange) -> Iterator[Failed]:
        expected = f"waits for the answer to {met.api} and sends no further one"
        again = [each for each in self._dialogue.since(met.at_s, met.api) if each is not met]
        if met.answered_s is None:
            ended_s = met.closed_s if met.closed_s is not None else self._dialogue.now_s
            yield Failed(expected, f"it closed the connection after {ended_s - met.at_s:.1f} s")
        elif again and again[0].at_s < met.answered_s:
            yield Failed(expected, f"{met.api} again after {again[0].at_s - met.at_s:.1f} s")

    def _wrong_identity(self, met: Exchange, join: Exchange | None) -> Iterator[Failed]:
        expected = REJOINS[self._behaviour.rejoins]
        if join is None:
            yield Failed(expected, "it does not join again")
            return
        wanted = {
            "given": getattr(met.response, "member_id", ""),
            "same": getattr(met.request, "member_id", ""),
            "new": "",
        }
        seen = join.request.member_id
        if seen != wanted[self._behaviour.rejoins]:
            yield Failed(expected, f"JoinGroup with member id {seen!r}" if seen else "JoinGroup without a member id")

    def _wrong_start(self) -> Iterator[Failed]:
        started: dict[int, int] = {}
        for exchange in self._dialogue.since(0, "Fetch"):
            for topic in exchange.request.topics:
                for each in topic.partitions:
                    started.setdefault(each.partition, each.fetch_offset)
        wrong = {partition: offset for partition, offset in started.items() if offset != COMMITTED_OFFSET}
        if wrong:
            seen = ", ".join(
                f"partition {partition} from offset {offset}" for partition, offset in sorted(wrong.items())
            )
            yield Failed(f"begins where the group had committed, at offset {COMMITTED_OFFSET}", seen)

    def _has_ended(self) -> bool:
        return self._program.exit_code is not None

    def _end_of_program(self) -> str:
        """How it ended; empty while it runs."""
        code = self._program.exit_code
        return "" if code is None else f"it ended with exit code {code} after {self._dialogue.now_s:.1f} s"

    def _silence(self, over_s: float) -> str:
        """What the program does that does not recover."""
        later = [each.api for each in self._dialogue.since(over_s)]
        if not later:
            return "it runs, and sends nothing any more"
        counts = ", ".join(f"{later.count(api)} {api}" for api in dict.fromkeys(later))
        return f"it runs, and has sent {counts} since"
