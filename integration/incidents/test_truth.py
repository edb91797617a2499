"""The file of truths."""

from __future__ import annotations

from pathlib import Path

from integration.incidents.truth import (
    Accident,
    Cause,
    Ended,
    Late,
    Play,
    Subject,
    SubjectKind,
    Truth,
    TruthFile,
    read_truth,
)
from kshim.explain import causes


def test_what_was_written_is_read_back(tmp_path: Path) -> None:
    subject = Subject(SubjectKind.CLIENT, ("a@127.0.1.1",), "127.0.1.1", ("a-1", "a-2"))
    truth = Truth(1, Cause.KILLED, "late", ("g", "h"), subject, 1_000, 2_000)
    accident = Accident("g", "b@127.0.1.2", 1_500)
    file = TruthFile(tmp_path / "truth.jsonl")
    file.add(truth)
    trigger = truth._replace(cause=Cause.SCALE_UP)
    file.add_trigger(trigger)
    file.add_accident(accident)
    file.add_late(Late(2_100, 2_900))
    ended = Ended("g", "a@127.0.1.1", 2_950, is_crash=True)
    file.add_ended(ended)
    file.end(3_000)
    file.close()
    expected = Play((truth,), (accident,), 3_000, (Late(2_100, 2_900),), (trigger,), (ended,))
    assert read_truth(tmp_path / "truth.jsonl") == expected
    assert file.accident_count == 1


def test_the_diagnosis_knows_the_causes_and_culprits_that_are_played() -> None:
    assert {str(cause) for cause in Cause} <= {str(cause) for cause in causes.Cause}
    assert {str(kind) for kind in SubjectKind} <= {str(kind) for kind in causes.Subject}
