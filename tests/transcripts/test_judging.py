"""A scenario that says something else than what happens fails, whatever it is about."""

from __future__ import annotations

import pytest

from kshim.tools.scenario.parse import parse_scenario
from kshim.tools.scenario.verdict import Mismatch
from tests.transcripts.sans_io import play

HEADER = "# T\nsuite: s\nrules: r\nrun: virtual\ntopics: t:1\n\n"
JOINED = "join a -> MEMBER_ID_REQUIRED\njoin a -> NONE generation=1\n"
STABLE = JOINED + "sync a assign=a:x -> NONE assignment=x\n"


def run(text: str) -> None:
    play(parse_scenario("name", HEADER + text))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("join a -> NONE", "expected NONE, seen MEMBER_ID_REQUIRED"),
        ("join a -> parked", "a stays parked"),
        (JOINED + "heartbeat a -> NONE nonsense=1", "nonsense: expected 1, seen \\(no such field\\)"),
        (JOINED + "join b -> MEMBER_ID_REQUIRED\njoin b -> NONE", "seen:     no answer"),
        (STABLE + "join b -> MEMBER_ID_REQUIRED\njoin b -> parked\njoin a -> NONE", "b stays parked"),
        (STABLE + "heartbeat a -> NONE | b: NONE", "b has nothing parked"),
        (STABLE + "join b -> MEMBER_ID_REQUIRED\njoin b -> parked\njoin a -> NONE | b: NONE leader=b", "expected b"),
        (STABLE + "leave a -> NONE\n    Stable -> PreparingRebalance   member-left a", "no further transitions"),
        (STABLE + "leave a -> NONE\n    Stable -> PreparingRebalance -> Stable", "PreparingRebalance -> Stable"),
        (STABLE + "leave a -> NONE\n    Stable -> PreparingRebalance -> Empty   expired a", "expired a"),
        (STABLE + "leave a -> NONE\n    Stable -> PreparingRebalance -> Empty   member-left b", "member-left b"),
        (STABLE + "heartbeat a -> NONE\n    Stable -> Empty", "no transition"),
        (STABLE + "heartbeat a -> NONE\n    writes group-tombstone", "1 records"),
        (STABLE + "commit a t-0=1 -> NONE\n    writes nothing", "0 records"),
        (STABLE + "commit a t-0=1 -> NONE\n    writes offset t-0=2", "writes offset t-0=2"),
        (STABLE + "commit a t-0=1 -> NONE\n    writes offset-tombstone t-0", "writes offset-tombstone"),
        (STABLE + "commit a t-0=1 -> NONE\n    writes offset t-0=1 batch=2", "batch=2"),
    ],
)
def test_what_does_not_happen_is_found(text: str, found: str) -> None:
    with pytest.raises(Mismatch, match=found):
        run(text + "\n")


def test_only_what_is_named_is_compared() -> None:
    run(STABLE + "describe -> NONE\n" + "leave a -> NONE\n")


def test_time_passes_only_when_it_is_said() -> None:
    run(STABLE + "advance 29999\nheartbeat a -> NONE\nadvance 30000\nheartbeat a -> UNKNOWN_MEMBER_ID\n")
