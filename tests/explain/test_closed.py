"""Members that are closed and do not leave, as those of Kafka Streams: their sessions expire as if they had been killed."""

from __future__ import annotations

import pytest

from kshim.explain import Incident
from kshim.explain.facts import Committed
from kshim.explain.words import CERTAIN, advice, sentence
from tests.explain.story import MINUTE, SECOND, SESSION_MS, Story, activity

HOUR = 60 * MINUTE
THREADS = tuple(f"totals-{digit * 8}-beef-4e05-8e59-54c4e78cc41e-StreamThread-1-consumer" for digit in "123456")
CLOSED = {"last_api": "OffsetCommit", "closed_by": "client", "has_fetch_session": False}


def an_application() -> Story:
    """Three processes of Kafka Streams."""
    story = Story()
    for number, thread in enumerate(THREADS[:3]):
        story.joins(number * 100, thread)
    return story


def closes(story: Story, thread: str, at_ms: int, **how: object) -> None:
    """A thread is closed: its session expires."""
    gone = activity(last_request_ms=at_ms, closed_ms=at_ms + 10, **(CLOSED | how))  # type: ignore[arg-type]
    story.expires(at_ms + SESSION_MS, thread, activity=gone)


def the_last_causes(story: Story) -> list[str]:
    return [cause for cause, _ in story.causes()][1:]


def test_a_member_that_was_closed_and_stays_away_was_removed_in_order() -> None:
    story = an_application()
    closes(story, THREADS[0], HOUR)
    removed = story.incidents(until_ms=2 * HOUR)[-1]
    assert removed.cause.keyword == "scale_down"
    assert removed.from_ms == HOUR
    assert "was stopped in order and did not leave billing" in sentence(removed)
    assert "session.timeout.ms (now 45 s)" in (advice(removed) or "")


def test_a_member_that_was_not_closed_was_killed() -> None:
    story = an_application()
    closes(story, THREADS[0], HOUR, has_fetch_session=True)
    assert the_last_causes(story) == ["killed"]


def test_a_process_with_a_new_id_took_the_place_of_the_one_that_was_closed() -> None:
    story = an_application()
    closes(story, THREADS[0], HOUR)
    story.joins(HOUR + 4 * SECOND, THREADS[3])
    assert the_last_causes(story) == ["restart"]


def test_processes_that_are_closed_and_started_again_one_after_the_other_are_deployed() -> None:
    story = an_application()
    for number in range(3):
        closes(story, THREADS[number], HOUR + number * 20 * SECOND)
        story.joins(HOUR + number * 20 * SECOND + 5 * SECOND, THREADS[3 + number])
    assert the_last_causes(story) == ["deploy"]


def expires_after_a_commit(client: str, *, usual_ms: int, heard_ms: int, pause_ms: int | None = None) -> Incident:
    """What became of a member of which a log and commits tell: it was heard of so long after its last commit.

    `pause_ms`: between that and the one before it; a third of the usual one if it is not given.
    """
    story = Story().joins(0, client).joins(100, THREADS[1]).joins(200, THREADS[2])
    last_ms = HOUR - SESSION_MS - heard_ms
    story.expires(HOUR, client, committed=Committed(last_ms, usual_ms, last_ms - (pause_ms or usual_ms // 3)))
    return story.incidents(until_ms=2 * HOUR)[-1]


@pytest.mark.parametrize(
    ("client", "usual_ms", "heard_ms", "cause"),
    [
        (THREADS[0], 30 * SECOND, 20, "scale_down"),
        (THREADS[0], 30 * SECOND, 1_500, "scale_down"),
        (THREADS[0], 30 * SECOND, 10 * SECOND, "killed"),
        (THREADS[0], 6 * SECOND, 1_500, "killed"),
        ("totals-1", 30 * SECOND, 20, "killed"),
    ],
)
def test_without_connections_a_thread_that_committed_just_before_it_fell_silent_was_closed(
    client: str, usual_ms: int, heard_ms: int, cause: str
) -> None:
    gone = expires_after_a_commit(client, usual_ms=usual_ms, heard_ms=heard_ms)
    assert gone.cause.keyword == cause
    alternatives = {each.cause.keyword for each in gone.alternatives}
    assert not {"killed", "scale_down"} & alternatives


@pytest.mark.parametrize(
    ("usual_ms", "heard_ms", "pause_ms"),
    [(100, 20, 100), (30 * SECOND, 5 * MINUTE, 10 * SECOND), (30 * SECOND, 500, 29 * SECOND)],
)
def test_commits_of_a_timer_and_those_of_long_before_do_not_tell_whether_a_thread_was_closed(
    usual_ms: int, heard_ms: int, pause_ms: int
) -> None:
    gone = expires_after_a_commit(THREADS[0], usual_ms=usual_ms, heard_ms=heard_ms, pause_ms=pause_ms)
    assert {"killed", "scale_down"} <= {gone.cause.keyword, *(each.cause.keyword for each in gone.alternatives)}


def test_whether_a_thread_that_commits_nothing_was_closed_or_killed_is_a_guess() -> None:
    lost = an_application().expires(HOUR, THREADS[0]).incidents(until_ms=2 * HOUR)[-1]
    told = {lost.cause.keyword: lost.confidence} | {each.cause.keyword: each.confidence for each in lost.alternatives}
    assert {"killed", "scale_down"} <= told.keys()
    assert max(told.values()) < CERTAIN
