"""A small number of seeds; `python -m tests.simulation.run` runs many."""

from __future__ import annotations

import pytest

from tests.simulation.run import main, report, run_seed, summarise
from tests.simulation.script import Script
from tests.simulation.shrink import shrink
from tests.simulation.simulate import play, simulate
from tests.simulation.transcript import transcript


def test_forty_seeds_run_without_a_violation() -> None:
    summary = summarise(run_seed(seed, 300) for seed in range(40))
    assert not summary.failures, "\n\n".join(summary.failures)
    assert summary.seeds == 40
    assert summary.steps >= 40 * 300
    for fault in ("crash", "request lost", "reply lost", "request repeated", "connection closed", "topic deleted"):
        assert summary.faults[fault] > 0, report(summary)
    met = {(verb, outcome) for _, verb, outcome in summary.coverage}
    for verb, outcome in _TO_BE_MET:
        assert (verb, outcome) in met, f"{verb} -> {outcome} was never met"


_TO_BE_MET = (
    ("join", "NONE"),
    ("join", "parked"),
    ("join", "MEMBER_ID_REQUIRED"),
    ("join", "UNKNOWN_MEMBER_ID"),
    ("join", "FENCED_INSTANCE_ID"),
    ("join", "GROUP_MAX_SIZE_REACHED"),
    ("join", "COORDINATOR_LOAD_IN_PROGRESS"),
    ("sync", "NONE"),
    ("sync", "parked"),
    ("sync", "ILLEGAL_GENERATION"),
    ("sync", "REBALANCE_IN_PROGRESS"),
    ("sync", "crash"),
    ("heartbeat", "REBALANCE_IN_PROGRESS"),
    ("heartbeat", "NOT_COORDINATOR"),
    ("commit", "NONE"),
    ("commit", "REBALANCE_IN_PROGRESS"),
    ("commit", "crash"),
    ("commit", "COORDINATOR_NOT_AVAILABLE"),
    ("fetch", "NONE"),
    ("delete", "NON_EMPTY_GROUP"),
    ("offset-delete", "GROUP_SUBSCRIBED_TO_TOPIC"),
)


@pytest.mark.parametrize("seed", [1, 7])
def test_a_seed_always_gives_the_same_run(seed: int) -> None:
    first, second = simulate(seed, 400), simulate(seed, 400)
    assert list(map(repr, first.script.inputs)) == list(map(repr, second.script.inputs))
    assert (first.steps, first.end_steps, first.faults, first.coverage) == (
        second.steps,
        second.end_steps,
        second.faults,
        second.coverage,
    )


def test_a_script_played_again_gives_the_same_answers() -> None:
    seen: list[str] = []
    found = simulate(3, 400, trace=lambda what, call, released, events: seen.append(f"{what} {events}"))
    assert found.violation is None
    again: list[str] = []
    assert play(found.script, trace=lambda what, call, released, events: again.append(f"{what} {events}")) is None
    assert [line for line in again if "None []" not in line] == [line for line in seen if "None []" not in line]


def test_a_script_with_parts_taken_out_can_still_be_played() -> None:
    script = simulate(5, 300).script
    for left_out in range(2, 9):
        some = tuple(what for index, what in enumerate(script.inputs) if index % left_out)
        assert play(script._replace(inputs=some)) is None


def test_the_runner_says_what_was_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seeds", "2", "--steps", "100", "--first", "11", "--processes", "1"]) == 0
    written = capsys.readouterr().out
    assert "2 seeds" in written
    assert "Stable               heartbeat              NONE" in written


def test_a_transcript_reads_like_a_scenario() -> None:
    script = simulate(2, 60).script
    text = transcript(Script(script.setting, script.actors, script.inputs[:40]))
    assert "suite: simulation" in text
    assert "-> MEMBER_ID_REQUIRED" in text
    assert "    Empty -> PreparingRebalance    member-joined" in text


def test_only_scripts_that_fail_are_shortened() -> None:
    script = simulate(2, 60).script
    with pytest.raises(AssertionError, match="does not break two-leaders"):
        shrink(script, "two-leaders")
