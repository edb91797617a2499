"""What is told of an incident in plain text."""

from __future__ import annotations

from kshim.explain.paragraph import paragraph
from tests.explain.test_html import HOUR, an_incident


def test_a_paragraph_says_what_happened_since_when_how_sure_why_and_what_to_change() -> None:
    assert paragraph(an_incident("app", from_ms=HOUR, to_ms=2 * HOUR)).splitlines() == [
        "1970-01-01 01:00:00Z to 1970-01-01 02:00:00Z  app: killed (93%)",
        "  app was killed or crashed. [inferred]",
        "  app: 2 rebalances, JOIN took 40.0 s (last to join: app), SYNC took 0.08 s, "
        "partitions had no living owner for 45.0 s. [observed]",
        "  For it: app closed its connection. [observed]",
        "  Against it: app committed later. [observed]",
        "  To change: Look at app.",
    ]


def test_where_it_is_not_certain_it_names_the_alternatives_and_what_would_tell() -> None:
    lines = paragraph(an_incident("app", confidence=0.55, host="h2", would_tell="The broker's log.")).splitlines()
    assert lines[1] == "  app was killed or crashed. Host: h2. [inferred]"
    assert lines[-3:] == [
        "  It may as well be: paused (7%). [inferred]",
        "  To change: Look at app.",
        "  What would tell: The broker's log.",
    ]


def test_names_that_are_not_printable_are_escaped() -> None:
    assert "\x1b[31mred" not in paragraph(an_incident("\x1b[31mred"))
