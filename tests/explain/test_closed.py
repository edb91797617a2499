"""Members that are closed and do not leave, as those of Kafka Streams: their sessions expire as if they had been killed."""

from __future__ import annotations

import pytest

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


@pytest.mark.parametrize(
    ("client", "silent_ms", "cause"),
    [
        (THREADS[0], SESSION_MS + 20, "scale_down"),
        (THREADS[0], SESSION_MS - 2 * SECOND, "killed"),
        ("totals-1", SESSION_MS + 20, "killed"),
    ],
)
def test_without_connections_a_thread_whose_last_request_was_a_commit_was_closed(
    client: str, silent_ms: int, cause: str
) -> None:
    story = Story().joins(0, client).joins(100, THREADS[1]).joins(200, THREADS[2])
    last_ms = HOUR - silent_ms
    committed = Committed(last_ms, 30 * SECOND, last_ms - 11 * SECOND)
    story.expires(HOUR, client, committed=committed)
    assert the_last_causes(story) == [cause]


def test_whether_a_thread_that_commits_nothing_was_closed_or_killed_is_a_guess() -> None:
    lost = an_application().expires(HOUR, THREADS[0]).incidents(until_ms=2 * HOUR)[-1]
    told = {lost.cause.keyword: lost.confidence} | {each.cause.keyword: each.confidence for each in lost.alternatives}
    assert {"killed", "scale_down"} <= told.keys()
    assert max(told.values()) < CERTAIN
