"""Runs the tests against mutants: a process for each core that has everything loaded but the coordinator forks once for each.

First the tests run unchanged, and which functions of the coordinator each of them calls is written down; a mutant is
then only shown to the tests that call its function, quickest first, up to the first that fails. Runs in a copy of the
tree, as `python -m tests.mutation.trials JOBS RESULTS`, both JSON lines.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import json
import multiprocessing
import os
import resource
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Generator, Iterable, Iterator, Sequence
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path
from types import CodeType, FrameType, ModuleType
from typing import Any, NamedTuple

import pytest
from hypothesis import Phase, settings

PACKAGE = "kshim.coordinator"
SUITES = (
    "tests/coordinator",
    "tests/history/test_share.py",
    "tests/history/test_streams.py",
    "tests/transcripts/test_scenarios.py",
)
"""Where the coordinator is tested. The two of the history test what it tells of groups with epochs."""
CONTROLS = ("survived", "killed")
"""Names of jobs whose verdict is known, and the same."""
LEAST_CPU_LIMIT_S = 10
"""A mutant has this and twice the time that its tests took unchanged, with the profiler."""

WALL_LIMIT_S = 240
MEMORY_LIMIT_BYTES = 4 << 30

_FROM_THE_COPY = ("--assert=plain", "-p", "no:kshim")
"""Both pytest and the plugin of kshim load the modules of kshim by ways of their own, past the changed one."""
_QUIET = ("-W", "ignore::pytest.PytestAssertRewriteWarning")  # plugins are loaded already in a forked process
_OPTIONS = (
    "-q",
    "--no-header",
    "--tb=line",
    "-p",
    "no:randomly",
    "-p",
    "no:cacheprovider",
    "--timeout=0",
    *_FROM_THE_COPY,
    *_QUIET,
)
_STALE = ("kshim", "tests")
"""Packages that a forked process loads anew: whatever may hold something of the coordinator."""


class Test(NamedTuple):
    """A test: its id, how long it takes unchanged, and the (file, function) it calls."""

    id: str
    seconds: float
    calls: frozenset[tuple[str, str]]


class Trial(NamedTuple):
    """How one mutant fared: `by` names the test that fails.

    `verdict`: killed, survived, timeout, untested (no test calls the function) or error (pytest itself broke).
    """

    name: str
    verdict: str
    by: str
    seconds: float


class _Recorder:
    """Writes down what each test calls."""

    def __init__(self, directory: Path) -> None:
        self.tests: list[Test] = []
        self._directory = f"{directory}/"
        self._calls: set[CodeType] = set()

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, None, None]:
        """Around one test."""
        _empty_caches()
        self._calls = set()
        started = time.perf_counter()
        sys.setprofile(self._on_event)
        yield
        sys.setprofile(None)
        calls = frozenset(
            (code.co_filename.removeprefix(self._directory), code.co_qualname.split(".<locals>")[0])
            for code in self._calls
            if code.co_filename.startswith(self._directory)
        )
        self.tests.append(Test(item.nodeid, time.perf_counter() - started, calls))

    def _on_event(self, frame: FrameType, event: str, _argument: Any) -> None:
        if event == "call":
            self._calls.add(frame.f_code)


def _empty_caches() -> None:
    """Cached functions are called by the first test only, unless they forget."""
    for name, module in list(sys.modules.items()):
        if name.startswith(PACKAGE):
            for value in vars(module).values():
                if hasattr(value, "cache_clear"):
                    value.cache_clear()


class _Selection:
    """Runs the chosen tests only, in the order chosen; remembers the first that fails."""

    def __init__(self, chosen: Sequence[str]) -> None:
        self._order = {id_: index for index, id_ in enumerate(chosen)}
        self.failed = ""

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Choose and order."""
        items[:] = sorted(
            (item for item in items if item.nodeid in self._order), key=lambda item: self._order[item.nodeid]
        )

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Remember."""
        if report.failed and not self.failed:
            self.failed = report.nodeid


class _MutantFinder(importlib.abc.MetaPathFinder):
    """Loads one module of the coordinator from another source."""

    def __init__(self, module: str, source: str, path: Path) -> None:
        self._module = module
        self._loader = _MutantLoader(module, str(path))
        self._loader.mutated = source.encode()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The spec of the mutant; None for everything else."""
        if fullname != self._module:
            return None
        return importlib.util.spec_from_file_location(fullname, self._loader.path, loader=self._loader)


class _MutantLoader(importlib.machinery.SourceFileLoader):
    mutated: bytes = b""

    def get_code(self, fullname: str) -> CodeType:
        """Never from a cache of the original."""
        return compile(self.mutated, self.path, "exec", dont_inherit=True)


def _purge() -> None:
    for name in list(sys.modules):
        if name.split(".")[0] in _STALE and not name.startswith("tests.mutation") and name != "tests":
            del sys.modules[name]
    for name in ("coordinator", "transcripts", "broker", "history"):
        if hasattr(sys.modules["tests"], name):
            delattr(sys.modules["tests"], name)


def _run_tests(chosen: Sequence[str]) -> tuple[int, str]:
    files = sorted({id_.split("::")[0] for id_ in chosen})
    selection = _Selection(chosen)
    return int(pytest.main(["-x", *_OPTIONS, *files], plugins=[selection])), selection.failed


def _in_child(job: dict[str, str], path: Path, chosen: Sequence[str], limit_s: int, answer: int) -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (limit_s, limit_s + 5))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT_BYTES, MEMORY_LIMIT_BYTES))
    signal.signal(signal.SIGXCPU, signal.SIG_DFL)
    sink = os.open(os.devnull, os.O_WRONLY)
    os.dup2(sink, 1)
    os.dup2(sink, 2)
    sys.meta_path.insert(
        0, _MutantFinder(".".join((PACKAGE, *Path(job["file"]).with_suffix("").parts)), job["source"], path)
    )
    status, failed = _run_tests(chosen)
    os.write(answer, json.dumps([status, failed]).encode())


def _try(job: dict[str, str], directory: Path, tests: list[Test]) -> Trial:
    """One mutant, in a process of its own."""
    started = time.monotonic()
    place = (job["file"], job["function"])
    calling = [test for test in tests if not job["function"] or place in test.calls]
    if not calling:
        return Trial(job["name"], "untested", "", 0.0)
    chosen = [test.id for test in calling]
    limit_s = LEAST_CPU_LIMIT_S + round(2 * sum(test.seconds for test in calling))
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reading)
            _in_child(job, directory / job["file"], chosen, limit_s, writing)
        finally:
            os._exit(0)
    os.close(writing)
    timed_out = not _wait(child, started + WALL_LIMIT_S)
    with os.fdopen(reading, "rb") as stream:
        answer = stream.read()
    seconds = time.monotonic() - started
    if timed_out or not answer:
        return Trial(job["name"], "timeout" if timed_out else "error", "", seconds)
    status, failed = json.loads(answer)
    return Trial(job["name"], "survived" if status == 0 else "killed", failed or f"pytest exit {status}", seconds)


def _wait(child: int, deadline: float) -> bool:
    """Whether the process ended by itself, and not by a signal (its limit of CPU time)."""
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return not os.WIFSIGNALED(status)
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return False
        time.sleep(0.005)


def _unchanged(directory: Path) -> list[Test]:
    """The tests, as they run without any change, quickest first. Raises SystemExit when one fails."""
    settings.register_profile("mutation", derandomize=True, database=None, deadline=None, phases=(Phase.generate,))
    settings.load_profile("mutation")
    recorder = _Recorder(directory)
    status = pytest.main([*_OPTIONS, *SUITES], plugins=[recorder])
    if status != 0:
        raise SystemExit("the tests fail without any mutation")
    _purge()
    return sorted(recorder.tests, key=lambda test: test.seconds)


class _Trials:
    """Tries mutants one after the other, and writes one line a result."""

    def __init__(self, directory: Path, tests: list[Test], results_file: str) -> None:
        self._directory = directory
        self._tests = tests
        self._results_file = results_file
        self._verdicts: dict[str, int] = defaultdict(int)

    def run(self, jobs: Iterable[dict[str, str]]) -> None:
        """Try these. Raises SystemExit when one of known verdict is judged wrongly."""
        for index, job in enumerate(jobs, 1):
            trial = _try(job, self._directory, self._tests)
            if job["name"] in CONTROLS and trial.verdict != job["name"]:
                raise SystemExit(f"the run judges wrongly: {trial}")
            self._verdicts[trial.verdict] += 1
            with Path(self._results_file).open("a", encoding="utf-8") as results:
                results.write(json.dumps(trial._asdict()) + "\n")
            if trial.verdict != "killed" or index % 50 == 0:
                counts = ", ".join(f"{count} {verdict}" for verdict, count in sorted(self._verdicts.items()))
                print(f"{index}: {counts}; {trial.name} {trial.verdict}", flush=True)


def _side_by_side(trials: _Trials, jobs: Sequence[dict[str, str]], count: int) -> None:
    """Let so many processes each take the next job until there is none. Raises SystemExit when one of them fails."""
    taken = multiprocessing.Value("i", 0)
    children = []
    for _ in range(count):
        child = os.fork()
        if child == 0:
            status = 1
            try:
                trials.run(_left(jobs, taken))
                status = 0
            finally:
                os._exit(status)
        children.append(child)
    statuses = [os.waitpid(child, 0)[1] for child in children]
    if any(statuses):
        raise SystemExit("not all mutants were tried")


def _left(jobs: Sequence[dict[str, str]], taken: Synchronized[int]) -> Iterator[dict[str, str]]:
    """The next job that no process has taken yet, one after the other."""
    while True:
        with taken.get_lock():
            index = taken.value
            taken.value += 1
        if index >= len(jobs):
            return
        yield jobs[index]


def main(jobs_file: str, results_file: str) -> None:
    """Try all jobs, on all cores."""
    found = importlib.util.find_spec(PACKAGE)
    assert found is not None
    assert found.origin is not None
    directory = Path(found.origin).parent
    assert directory.is_relative_to(Path.cwd()), f"{directory} is not in the copy"
    trials = _Trials(directory, _unchanged(directory), results_file)
    jobs = [json.loads(line) for line in Path(jobs_file).read_text(encoding="utf-8").splitlines()]
    controls = [job for job in jobs if job["name"] in CONTROLS]
    trials.run(controls)
    _side_by_side(trials, [job for job in jobs if job not in controls], len(os.sched_getaffinity(0)))


if __name__ == "__main__":
    main(*sys.argv[1:])
