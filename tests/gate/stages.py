"""Long runs cut into stages whose results are kept, so that a run continues where it was interrupted.

A stage that passed is not run again for the same state of the files that it depends on: its result and all that it
printed are kept in `<store>/<key>/`, where the key is a hash of the git tree (or blob) of each of these folders (and
files) at HEAD. A commit that changes nothing in them therefore keeps the results; what failed, and what was
interrupted, runs again. Files that are not committed have no key: while any of them differs from HEAD a run is refused,
or, when that is asked for, runs every stage and keeps nothing; a stage whose files change while it runs has not passed.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

PYTEST_COUNTS = re.compile(r"^=* ?((?:\d+ [a-z]+(?:, )?)+)(?: in [\d.]+s.*)$", re.MULTILINE)
"""The last line of pytest, with or without its frame."""
SHOWN_OF_A_FAILURE = 30
"""Lines of output."""


class DirtyWorkTreeError(Exception):
    """There are changes that no commit has, so results could not be told apart from those of the commit."""


@dataclass(frozen=True, kw_only=True)
class Stage:
    """Commands that run one after the other, until one fails, at the root of the checkout."""

    name: str
    commands: tuple[tuple[str, ...], ...]
    depends_on: tuple[str, ...]
    """Folders and files below the root; `.` is the whole tree."""
    limit_seconds: float = 5_400
    """After this the stage is stopped, and has failed."""


@dataclass(frozen=True, kw_only=True)
class Result:
    """What came of a stage."""

    stage: str
    verdict: str
    """`passed`, `failed`, `timed out`, `files changed` or `not run`."""
    counts: str = ""
    """What pytest counted, or else the last line printed."""
    seconds: float = 0.0
    commit: str = ""
    """HEAD when it ran."""
    remembered: bool = False


class Stages:
    """The stages of one kind of run, of one checkout."""

    def __init__(self, root: Path, store: Path, stages: Sequence[Stage]) -> None:
        assert len({stage.name for stage in stages}) == len(stages), "stages of the same name"
        self._root = root
        self._store = store
        self._stages = tuple(stages)

    def run(self, *, keep: bool = True, say: Callable[[str], None] = print) -> list[Result]:
        """Run every stage that is not known to pass; the results are in the order of the stages.

        After an interruption (Ctrl-C) the remaining stages are `not run`. With `keep=False` nothing is remembered,
        neither looked up nor kept.

        Raises DirtyWorkTreeError, unless `keep` is False.
        """
        if keep and (changes := {line for stage in self._stages for line in self._changes(stage)}):
            raise DirtyWorkTreeError("\n".join(sorted(changes)))
        results: list[Result] = []
        interrupted = False
        for stage in self._stages:
            key = self.key(stage) if keep else None
            folder = self._store / (key or "uncommitted")
            known = _remembered(folder, stage) if key else None
            if known is not None:
                results.append(known)
            elif interrupted:
                results.append(Result(stage=stage.name, verdict="not run"))
            else:
                say(f"== {stage.name}: output in {_below(self._root, folder / stage.name)}.log")
                try:
                    results.append(self._run(stage, folder, key))
                except KeyboardInterrupt:
                    interrupted = True
                    results.append(Result(stage=stage.name, verdict="not run"))
                    continue
                _show(results[-1], folder, say)
        return results

    def key(self, stage: Stage) -> str:
        """What the results of a stage are kept under."""
        objects = [f"{path} {self._git('rev-parse', _revision(path))}" for path in sorted(stage.depends_on)]
        return hashlib.sha256("\n".join(objects).encode()).hexdigest()[:12]

    def _run(self, stage: Stage, folder: Path, key: str | None) -> Result:
        folder.mkdir(parents=True, exist_ok=True)
        log = folder / f"{stage.name}.log"
        started = time.monotonic()
        verdict = "passed"
        with log.open("wb") as output:
            for command in stage.commands:
                left = stage.limit_seconds - (time.monotonic() - started)
                verdict = _run_command(command, self._root, output.fileno(), left)
                if verdict != "passed":
                    break
        if verdict == "passed" and key is not None and (self._changes(stage) or self.key(stage) != key):
            verdict = "files changed"
        result = Result(
            stage=stage.name,
            verdict=verdict,
            counts=_counts(log.read_text(errors="replace")),
            seconds=round(time.monotonic() - started, 1),
            commit=self._git("rev-parse", "HEAD"),
        )
        log.with_suffix(".json").write_text(json.dumps(asdict(result), indent=1) + "\n")
        return result

    def _changes(self, stage: Stage) -> list[str]:
        """What of the stage's files differs from HEAD, untracked files included."""
        return self._git("status", "--porcelain", "--", *stage.depends_on).splitlines()

    def _git(self, *arguments: str) -> str:
        done = subprocess.run(["git", *arguments], cwd=self._root, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"git {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout.strip()


def table(results: Iterable[Result]) -> list[str]:
    """The lines of a summary: stage, result, seconds, counts."""
    rows = [("stage", "result", "seconds", "")]
    for result in results:
        verdict = f"{result.verdict} (remembered)" if result.remembered else result.verdict
        seconds = "" if result.verdict == "not run" else f"{result.seconds:.1f}"
        rows.append((result.stage, verdict, seconds, result.counts))
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    return [
        f"{stage:<{widths[0]}}  {verdict:<{widths[1]}}  {seconds:>{widths[2]}}  {counts}".rstrip()
        for stage, verdict, seconds, counts in rows
    ]


def run_and_report(stages: Stages, *, keep: bool = True) -> int:
    """Run, print the table and return the exit code of the process: 0 when every stage passed, now or before."""
    try:
        results = stages.run(keep=keep, say=lambda line: print(line, flush=True))
    except DirtyWorkTreeError as dirty:
        print(
            "Results are kept for a commit, and these changes are in none. Commit them, or run with --uncommitted,"
            f" which keeps nothing:\n{dirty}",
            file=sys.stderr,
        )
        return 2
    print("", *table(results), sep="\n", flush=True)
    return 0 if all(result.verdict == "passed" for result in results) else 1


def _revision(path: str) -> str:
    return "HEAD^{tree}" if path == "." else f"HEAD:{path}"


def _remembered(folder: Path, stage: Stage) -> Result | None:
    file = folder / f"{stage.name}.json"
    if not file.exists():
        return None
    result = Result(**json.loads(file.read_text()))
    return replace(result, remembered=True) if result.verdict == "passed" else None


def _run_command(command: tuple[str, ...], root: Path, output: int, limit_seconds: float) -> str:
    """The verdict on one command. It has a process group of its own, so that nothing it started outlives it."""
    os.write(output, f"$ {' '.join(command)}\n".encode())
    try:
        process = subprocess.Popen(
            command, cwd=root, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
        )
    except OSError as error:
        os.write(output, f"{error}\n".encode())
        return "failed"
    try:
        return "passed" if process.wait(limit_seconds) == 0 else "failed"
    except subprocess.TimeoutExpired:
        return "timed out"
    finally:
        _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
        except (ProcessLookupError, PermissionError):  # nobody is left
            return
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            continue


def _counts(text: str) -> str:
    found: list[str] = PYTEST_COUNTS.findall(text)
    if found:
        return "; ".join(found)
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1].strip()[:100] if lines else ""


def _below(root: Path, path: Path) -> Path:
    return path.relative_to(root) if path.is_relative_to(root) else path


def _show(result: Result, folder: Path, say: Callable[[str], None]) -> None:
    if result.verdict != "passed":
        for line in (folder / f"{result.stage}.log").read_text(errors="replace").splitlines()[-SHOWN_OF_A_FAILURE:]:
            say(f"   {line}")
    say(f"   {result.stage}: {result.verdict} in {result.seconds:.1f} s  {result.counts}")
