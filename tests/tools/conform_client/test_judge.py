"""`kshim conform-client` finds each mistake that a client is given, and finds none in one that has none."""

from __future__ import annotations

import io
import json
import shlex
import subprocess
import sys
import time
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
import trio

from kshim.tools.conform_client.judge import judge
from kshim.tools.conform_client.model import Behaviour, load_behaviours
from kshim.tools.conform_client.run import run_conform_client
from kshim.tools.report import Entry, Verdict
from tests.docs.blocks import DOCS, blocks

BEHAVIOURS = {behaviour.name: behaviour for behaviour in load_behaviours()}
CONSUMER = [sys.executable, "-m", "tests.tools.conform_client.consumer"]

MISTAKES: dict[tuple[str, ...], tuple[str, ...]] = {
    ("never commits",): ("consumes-and-commits",),
    ("dies of errors",): (
        "find-coordinator-coordinator-*",
        "join-coordinator-load-in-progress",
        "join-rebalance-in-progress",
        "commit-coordinator-load-in-progress",
        "commit-rebalance-in-progress",
        "coordinator-loads",
    ),
    ("dies of disconnects",): (
        "find-coordinator-disconnect",
        "*-answer-lost",
        "heartbeat-disconnect",
        "coordinator-stops",
        "all-brokers-stop",
    ),
    ("is impatient", "dies of disconnects"): ("heartbeat-delayed",),
    ("is impatient",): ("join-delayed",),
    ("hammers",): ("join-coordinator-load-in-progress", "offset-fetch-coordinator-load-in-progress"),
    ("ignores the member id",): ("member-id-required",),
    ("keeps its coordinator",): ("*-coordinator-not-available", "*-not-coordinator", "coordinator-moves"),
    ("keeps its member id",): ("*-unknown-member-id", "expelled"),
    ("forgets its member id",): (
        "*-illegal-generation",
        "sync-rebalance-in-progress",
        "heartbeat-rebalance-in-progress",
    ),
    ("ignores heartbeats",): ("second-member",),
    ("hides errors",): ("group-full", "inconsistent-protocol", "*-not-authorized", "fenced-instance"),
    ("is silent about errors",): ("group-full", "commit-not-authorized"),
    ("joins again when fenced",): ("fenced-instance",),
    ("waits forever",): ("sync-answer-never",),
    ("commits backwards",): ("commit-answer-lost",),
    ("takes errors for no offset",): (
        "offset-fetch-coordinator-load-in-progress",
        "offset-fetch-unstable-offset-commit",
    ),
    ("hangs after disconnects",): ("*-truncated", "*-corrupt", "*-oversized"),
    ("does not wait when throttled",): ("*-throttled",),
}
"""What a client must not do, and the behaviours that find it."""

FIRST_LOOK_IS_LATER = ("find-coordinator-coordinator-not-available",)
"""Nothing is known yet that could be kept."""

QUICK = (
    ("keeps its coordinator", "commit-not-coordinator"),
    ("forgets its member id", "sync-illegal-generation"),
    ("hides errors", "inconsistent-protocol"),
    ("dies of errors", "commit-rebalance-in-progress"),
)


def matching(pattern: str) -> list[str]:
    return [name for name in BEHAVIOURS if fnmatchcase(name, pattern)]


PLANTED = [
    (mistakes, name)
    for mistakes, patterns in MISTAKES.items()
    for pattern in patterns
    for name in matching(pattern)
    if not (mistakes == ("keeps its coordinator",) and name in FIRST_LOOK_IS_LATER)
]


def command(*mistakes: str) -> str:
    return shlex.join([*CONSUMER, *mistakes])


async def judged(pairs: list[tuple[tuple[str, ...], Behaviour]], jobs: int = 4) -> list[Entry]:
    """The entries of these, in this order."""
    limiter = trio.CapacityLimiter(jobs)
    found: dict[int, Entry] = {}

    async def one(number: int, mistakes: tuple[str, ...], behaviour: Behaviour) -> None:
        async with limiter:
            found[number] = await judge(behaviour, command(*mistakes))

    async with trio.open_nursery() as nursery:
        for number, (mistakes, behaviour) in enumerate(pairs):
            nursery.start_soon(one, number, mistakes, behaviour)
    return [found[number] for number in range(len(pairs))]


@pytest.mark.trio
async def test_some_mistakes_are_found_quickly() -> None:
    entries = await judged([((mistake,), BEHAVIOURS[name]) for mistake, name in QUICK])
    assert [(entry.name, entry.verdict) for entry in entries] == [(name, Verdict.FAILED) for _, name in QUICK]
    assert all(entry.details[0].startswith("expected  ") and "seen  " in entry.details[1] for entry in entries)


@pytest.mark.trio
async def test_a_client_without_mistakes_is_found_to_have_none() -> None:
    names = ("consumes-and-commits", *(name for _, name in QUICK))
    entries = await judged([((), BEHAVIOURS[name]) for name in names])
    assert [(entry.name, entry.verdict, entry.details) for entry in entries] == [
        (name, Verdict.PASSED, []) for name in names
    ]


def test_each_behaviour_finds_some_mistake() -> None:
    assert {name for _, name in PLANTED} == set(BEHAVIOURS)


@pytest.mark.long
@pytest.mark.timeout(1_800)
@pytest.mark.trio
async def test_every_mistake_is_found() -> None:
    entries = await judged([(mistakes, BEHAVIOURS[name]) for mistakes, name in PLANTED])
    missed = [
        f"{name}, by a client that {' and '.join(mistakes)}: {entry.verdict.value} {entry.reason}"
        for (mistakes, name), entry in zip(PLANTED, entries, strict=True)
        if entry.verdict is not Verdict.FAILED
    ]
    assert "\n".join(missed) == ""


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.trio
async def test_nothing_is_found_in_a_client_without_mistakes() -> None:
    entries = await judged([((), behaviour) for behaviour in BEHAVIOURS.values()])
    assert [(entry.name, list(entry.details)) for entry in entries if entry.verdict is not Verdict.PASSED] == []


@pytest.mark.long
@pytest.mark.timeout(900)
def test_what_is_found_in_the_program_of_the_documentation(tmp_path: Path) -> None:
    report = io.StringIO()
    (text,) = blocks(DOCS / "testing" / "conform-client.md", "python")
    program = tmp_path / "consumer.py"
    program.write_text(text)
    assert run_conform_client(shlex.join([sys.executable, str(program)]), output="json", stream=report) == 1
    failed = [each["name"] for each in json.loads(report.getvalue())["behaviours"] if each["verdict"] != "passed"]
    assert failed == ["offset-fetch-coordinator-not-available", "all-brokers-stop"]


def test_a_program_that_does_not_work_at_all_is_judged_no_further() -> None:
    report = io.StringIO()
    program = shlex.join([sys.executable, "-c", "print('no broker for me'); raise SystemExit(3)"])
    assert run_conform_client(program, suites=["answers"], output="json", stream=report) == 1
    found = json.loads(report.getvalue())
    first, *others = found["behaviours"]
    assert (first["name"], first["verdict"]) == ("consumes-and-commits", "failed")
    assert "exit code 3" in first["failures"][0]["seen"]
    assert "output: no broker for me" in first["dialogue"]
    assert {each["reason"] for each in others} == {"the program does not work without any trouble"}


@pytest.mark.long
def test_a_signal_ends_the_programs_too(tmp_path: Path) -> None:
    trace = tmp_path / "lives"
    program = f"import os, time\nopen({str(trace)!r}, 'w').write(str(os.getpid()))\ntime.sleep(600)"
    judging = subprocess.Popen(
        [sys.executable, "-m", "kshim", "conform-client", "--command", shlex.join([sys.executable, "-c", program])],
        stdout=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 120
    while not (trace.exists() and trace.read_text()):
        assert time.monotonic() < deadline, "the program was not started"
        time.sleep(0.05)
    judging.terminate()
    assert judging.wait(60) == 130
    assert not Path("/proc", trace.read_text()).exists()
