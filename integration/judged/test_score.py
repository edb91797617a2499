"""What `kshim why` says of plays of an outside judge does not become worse."""

from __future__ import annotations

import pytest

from integration.judged.score import SOURCES, score

AT_LEAST = {
    "kshim-events": (52, 42, 61),
    "kshim-71": (56, 44, 64),
    "kafka-log": (45, 35, 52),
    "kafka-samples": (41, 31, 47),
}
"""So many causes of what was done, so many culprits, and so many right findings."""
AT_MOST_WRONG = {"kshim-events": 2, "kshim-71": 10, "kafka-log": 8, "kafka-samples": 14}


@pytest.mark.parametrize("source", SOURCES)
def test_as_much_is_told_rightly_as_when_it_was_last_looked_at(source: str) -> None:
    found = score(source)
    causes, culprits, right = AT_LEAST[source]
    assert found.causes >= causes, found.misses
    assert found.culprits >= culprits, found.misses
    assert found.right >= right, found.misses
    assert found.findings - found.right <= AT_MOST_WRONG[source], found.misses


def test_nothing_that_was_done_is_left_out_of_the_count() -> None:
    found = {source: score(source) for source in SOURCES}
    assert [(each.truths, each.asked) for each in found.values()] == [(53, 43), (56, 44), (51, 41), (51, 41)]
