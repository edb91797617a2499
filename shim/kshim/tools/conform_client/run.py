"""Judges a program by all behaviours, several at a time, and reports them in order."""

from __future__ import annotations

import shutil
import signal
import sys
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Literal, TextIO

import trio

from kshim.tools.conform_client.judge import judge
from kshim.tools.conform_client.model import Behaviour, load_behaviours
from kshim.tools.conform_client.program import PLACEHOLDERS, CommandProblem, command_words
from kshim.tools.report import REPORTS, Entry, Heading, Verdict

OutputFormat = Literal["text", "json", "junit"]
BASELINE = "consumes-and-commits"
"""What every program must do, and is asked for first."""


class UnknownName(Exception):
    """There is no such suite or behaviour; `str(error)` says what there is."""


def run_conform_client(
    command: str,
    *,
    suites: Sequence[str] = (),
    names: Sequence[str] = (),
    jobs: int = 4,
    patience: float = 1.0,
    time_limit_s: float = 3_600.0,
    output: OutputFormat = "text",
    stream: TextIO | None = None,
) -> int:
    """Judge the program that `command` starts, and write the report to `stream` (default: stdout).

    `suites` and `names` choose behaviours; without either all are played. What has not begun when `time_limit_s` has
    passed is skipped. Returns the exit code: 0 when nothing failed and something passed, 1 otherwise.
    Raises UnknownName, CommandProblem.
    """
    behaviours = load_behaviours()
    chosen = select(behaviours, suites, names)
    words = command_words(command, dict.fromkeys(PLACEHOLDERS, ""))
    if shutil.which(words[0]) is None:
        raise CommandProblem(f"{words[0]} is not a program that can be found")
    heading = Heading(
        f"{command}, judged as a client of Apache Kafka 4.4", "kshim conform-client", {"command": command}
    )
    report = REPORTS[output](heading, stream or sys.stdout)
    entries: list[Entry] = []

    def add(entry: Entry) -> None:
        report.add(entry)
        entries.append(entry)

    baseline = next(each for each in behaviours if each.name == BASELINE)
    run = _Run(command, add, patience=patience, time_limit_s=time_limit_s)
    try:
        if trio.run(_until_signalled, partial(run.play, baseline, chosen, jobs)):
            raise KeyboardInterrupt
    except* CommandProblem as problems:
        raise CommandProblem(str(problems.exceptions[0])) from None
    report.end()
    has_failed = any(entry.verdict is Verdict.FAILED for entry in entries)
    has_passed = any(entry.verdict is Verdict.PASSED for entry in entries)
    return 0 if has_passed and not has_failed else 1


def print_behaviours(*, suites: Sequence[str] = (), names: Sequence[str] = (), stream: TextIO | None = None) -> int:
    """Write what is expected of programs, and return the exit code. Raises UnknownName."""
    stream = stream or sys.stdout
    suite = ""
    for behaviour in select(load_behaviours(), suites, names):
        if behaviour.suite != suite:
            suite = behaviour.suite
            stream.write(f"{suite}\n")
        stream.write(
            f"  {behaviour.name}\n    {behaviour.title}.\n    {behaviour.expectation}\n    {behaviour.source}\n"
        )
    return 0


async def _until_signalled(play: Callable[[], Awaitable[None]]) -> bool:
    """Play, with an end that leaves no process behind. Returns True when a signal ended it."""
    if threading.current_thread() is not threading.main_thread():
        await play()
        return False
    signals = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
    was_signalled = False
    with trio.open_signal_receiver(*signals) as received:
        async with trio.open_nursery() as nursery:

            async def watch() -> None:
                nonlocal was_signalled
                async for _ in received:
                    was_signalled = True
                    nursery.cancel_scope.cancel()

            nursery.start_soon(watch)
            await play()
            nursery.cancel_scope.cancel()
    return was_signalled


def select(behaviours: Sequence[Behaviour], suites: Sequence[str], names: Sequence[str]) -> list[Behaviour]:
    """Those of these suites and of these names, in their order; all when neither is given. Raises UnknownName."""
    known = list(dict.fromkeys(each.suite for each in behaviours))
    for suite in suites:
        if suite not in known:
            raise UnknownName(f"unknown suite {suite}; the suites are {', '.join(known)}")
    all_names = [each.name for each in behaviours]
    for name in names:
        if name not in all_names:
            raise UnknownName(f"unknown behaviour {name}; the behaviours are {', '.join(all_names)}")
    return [each for each in behaviours if each.suite in suites or each.name in names or not (suites or names)]


class _Run:
    """All behaviours of one program. `add` is called with each entry, in the order of the behaviours."""

    def __init__(self, command: str, add: Callable[[Entry], None], *, patience: float, time_limit_s: float) -> None:
        self._command = command
        self._add = add
        self._patience = patience
        self._time_limit_s = time_limit_s

    async def play(self, baseline: Behaviour, chosen: Sequence[Behaviour], jobs: int) -> None:
        """Play the baseline, and the others if it passes; up to `jobs` at a time. Raises CommandProblem.

        A program that passes at its second try only has failed, but the others may still say something.
        """
        over_s = trio.current_time() + self._time_limit_s
        first = await judge(baseline, self._command, patience=self._patience)
        found = {baseline.name: first}
        if first.verdict is not Verdict.PASSED and not await self._can_work(baseline):
            self._add(first)
            for behaviour in chosen:
                if behaviour is not baseline:
                    self._add(_skipped(behaviour, "the program does not work without any trouble"))
            return
        if baseline not in chosen and first.verdict is not Verdict.PASSED:
            self._add(first)
        limiter = trio.CapacityLimiter(jobs)
        waiting = deque(chosen)

        async def judge_one(behaviour: Behaviour) -> None:
            async with limiter:
                if trio.current_time() >= over_s:
                    found[behaviour.name] = _skipped(behaviour, f"not begun within {self._time_limit_s:g} s")
                else:
                    found[behaviour.name] = await judge(behaviour, self._command, patience=self._patience)
            report()

        def report() -> None:
            while waiting and waiting[0].name in found:
                self._add(found[waiting.popleft().name])

        report()
        async with trio.open_nursery() as nursery:
            for behaviour in chosen:
                if behaviour.name not in found:
                    nursery.start_soon(judge_one, behaviour)

    async def _can_work(self, baseline: Behaviour) -> bool:
        again = await judge(baseline, self._command, patience=self._patience)
        return again.verdict is Verdict.PASSED


def _skipped(behaviour: Behaviour, reason: str) -> Entry:
    return Entry(behaviour.suite, behaviour.name, behaviour.title, Verdict.SKIPPED, 0.0, reason)
