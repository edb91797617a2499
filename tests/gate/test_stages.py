"""Stages that run, remember and continue: toy stages in a toy repository, with real commands."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.gate.stages import DirtyWorkTreeError, Result, Stage, Stages, run_and_report, table


class Checkout:
    """A repository with two folders, and a log of which stages ran."""

    def __init__(self, home: Path) -> None:
        self.root = home / "checkout"
        self.ran = home / "ran"
        self.store = home / "store"
        for folder in ("code", "docs"):
            (self.root / folder).mkdir(parents=True)
            (self.root / folder / "file").write_text("one\n")
        self.git("init", "--quiet")
        self.commit()

    def git(self, *arguments: str) -> None:
        """Run git here, as somebody."""
        who = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
        subprocess.run(["git", *who, *arguments], cwd=self.root, check=True, capture_output=True)

    def commit(self) -> None:
        """Commit everything."""
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", "A change")

    def stage(self, name: str, script: str = "true", *, depends_on: str = "code", limit_seconds: float = 60) -> Stage:
        """A stage that notes that it ran, then runs a shell script."""
        noted = ("sh", "-c", f"echo {name} >> '{self.ran}'")
        commands = (noted, ("sh", "-c", script))
        return Stage(name=name, commands=commands, depends_on=(depends_on,), limit_seconds=limit_seconds)

    def stages(self, *stages: Stage) -> Stages:
        """Those stages here."""
        return Stages(self.root, self.store, stages)

    def run(self, *stages: Stage, keep: bool = True) -> dict[str, Result]:
        """Run them without printing anything."""
        results = self.stages(*stages).run(keep=keep, say=lambda _: None)
        return {result.stage: result for result in results}

    def names_that_ran(self) -> list[str]:
        """The stages that ran since this was last asked."""
        names = self.ran.read_text().split() if self.ran.exists() else []
        self.ran.unlink(missing_ok=True)
        return names


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


def test_what_passed_is_remembered_with_its_counts(checkout: Checkout) -> None:
    stage = checkout.stage("unit", "echo '==== 3 passed, 1 skipped in 0.10s ===='")
    first = checkout.run(stage)["unit"]
    again = checkout.run(stage)["unit"]
    assert checkout.names_that_ran() == ["unit"]
    assert (first.verdict, first.counts, first.remembered) == ("passed", "3 passed, 1 skipped", False)
    assert (again.verdict, again.counts, again.remembered) == ("passed", "3 passed, 1 skipped", True)


def test_a_failing_stage_does_not_stop_the_run_and_runs_again(checkout: Checkout) -> None:
    stages = [checkout.stage("bad", "echo broken; exit 3"), checkout.stage("good")]
    results = checkout.run(*stages)
    assert [result.verdict for result in results.values()] == ["failed", "passed"]
    assert results["bad"].counts == "broken"
    checkout.run(*stages)
    assert checkout.names_that_ran() == ["bad", "good", "bad"]


def test_the_commands_of_a_stage_stop_at_the_first_that_fails(checkout: Checkout) -> None:
    commands = (("sh", "-c", "exit 1"), ("touch", str(checkout.ran)))
    stage = Stage(name="two", commands=commands, depends_on=("code",))
    assert checkout.run(stage)["two"].verdict == "failed"
    assert not checkout.ran.exists()


def test_a_command_that_does_not_exist_fails_its_stage(checkout: Checkout) -> None:
    stage = Stage(name="lost", commands=(("./no-such-command",),), depends_on=("code",))
    result = checkout.run(stage)["lost"]
    assert result.verdict == "failed"
    assert "no-such-command" in result.counts


def test_everything_printed_is_kept(checkout: Checkout) -> None:
    checkout.run(checkout.stage("chatty", "echo out; echo err >&2"))
    (log,) = checkout.store.rglob("chatty.log")
    assert log.read_text().splitlines()[-2:] == ["out", "err"]


def test_a_commit_elsewhere_keeps_the_result(checkout: Checkout) -> None:
    stages = [checkout.stage("code"), checkout.stage("all", depends_on=".")]
    checkout.run(*stages)
    checkout.names_that_ran()
    (checkout.root / "docs" / "file").write_text("two\n")
    checkout.commit()
    checkout.run(*stages)
    assert checkout.names_that_ran() == ["all"]


def test_a_commit_to_its_files_runs_a_stage_again_and_going_back_does_not(checkout: Checkout) -> None:
    stage = checkout.stage("unit")
    checkout.run(stage)
    for text in ("two\n", "one\n"):
        (checkout.root / "code" / "file").write_text(text)
        checkout.commit()
        checkout.run(stage)
    assert checkout.names_that_ran() == ["unit", "unit"]


@pytest.mark.parametrize("name", ["code/file", "code/new"])
def test_changes_that_are_not_committed_are_refused(checkout: Checkout, name: str) -> None:
    (checkout.root / name).write_text("changed\n")
    with pytest.raises(DirtyWorkTreeError, match=name):
        checkout.run(checkout.stage("unit"))
    assert checkout.names_that_ran() == []


def test_changes_in_files_that_no_stage_depends_on_do_not_matter(checkout: Checkout) -> None:
    (checkout.root / "docs" / "file").write_text("changed\n")
    assert checkout.run(checkout.stage("unit"))["unit"].verdict == "passed"


def test_a_run_that_keeps_nothing_takes_any_work_tree(checkout: Checkout) -> None:
    stage = checkout.stage("unit")
    (checkout.root / "code" / "file").write_text("changed\n")
    checkout.run(stage, keep=False)
    checkout.run(stage, keep=False)
    assert checkout.names_that_ran() == ["unit", "unit"]


def test_a_stage_whose_files_change_meanwhile_has_not_passed(checkout: Checkout) -> None:
    result = checkout.run(checkout.stage("unit", "echo more >> code/file"))["unit"]
    assert result.verdict == "files changed"


def test_a_stage_that_takes_too_long_is_ended_with_all_that_it_started(checkout: Checkout) -> None:
    fifo = checkout.root.parent / "fifo"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    result = checkout.run(checkout.stage("endless", f"sleep 600 > {fifo} & wait", limit_seconds=0.5))["endless"]
    os.set_blocking(reader, True)
    assert os.read(reader, 1) == b"", "the end of file: nobody holds the other end any more"
    os.close(reader)
    assert result.verdict == "timed out"


def test_an_interrupted_run_continues_where_it_was(checkout: Checkout) -> None:
    code = f"""
from signal import SIGINT, default_int_handler, signal
from pathlib import Path
from tests.gate.stages import Stage, Stages, run_and_report
signal(SIGINT, default_int_handler)
stage = lambda name, script: Stage(name=name, commands=(("sh", "-c", script),), depends_on=("code",))
stages = [stage("a", "true"), stage("b", "kill -INT {{}}; sleep 600".format("$PPID")), stage("c", "true")]
raise SystemExit(run_and_report(Stages(Path({str(checkout.root)!r}), Path({str(checkout.store)!r}), stages)))
"""
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    assert [line.split()[:2] for line in done.stdout.splitlines()[-3:]] == [["a", "passed"], ["b", "not"], ["c", "not"]]
    results = checkout.run(checkout.stage("a"), checkout.stage("b"), checkout.stage("c"))
    assert checkout.names_that_ran() == ["b", "c"]
    assert results["a"].remembered


def test_the_exit_code_is_0_only_when_every_stage_passed(
    checkout: Checkout, capsys: pytest.CaptureFixture[str]
) -> None:
    good, bad = checkout.stage("good"), checkout.stage("bad", "exit 1")
    assert run_and_report(checkout.stages(good)) == 0
    assert run_and_report(checkout.stages(good, bad)) == 1
    (checkout.root / "code" / "file").write_text("changed\n")
    assert run_and_report(checkout.stages(good)) == 2
    assert "code/file" in capsys.readouterr().err


def test_the_table_has_a_row_for_each_stage() -> None:
    results = [
        Result(stage="lint", verdict="passed", counts="5 kept", seconds=61.26, remembered=True),
        Result(stage="tests", verdict="not run"),
    ]
    assert table(results) == [
        "stage  result               seconds",
        "lint   passed (remembered)     61.3  5 kept",
        "tests  not run",
    ]
