"""The page about the log lists what the code logs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kshim.cli.event_fields import event_keyword
from kshim.coordinator.groups import events
from kshim.coordinator.groups.events import Cause, GroupEvent
from kshim.coordinator.step import Event
from kshim.coordinator.transactions import events as transaction_events
from kshim.coordinator.transactions.events import TransactionEvent
from tests.docs.blocks import DOCS, ROOT

SOURCES = [
    path.relative_to(ROOT).as_posix()
    for folder in ("shim", "protocol", "pipeline", "tests", "integration", "bench")
    for path in (ROOT / folder).rglob("*.py")
]
LOG = (DOCS / "log.md").read_text()


def test_every_cause_of_the_coordinator_is_listed() -> None:
    listed = LOG.partition("<!-- causes:begin -->")[2].partition("<!-- causes:end -->")[0]
    assert re.findall(r"`([\w-]+)`", listed) == [str(cause) for cause in Cause]


def test_every_event_is_in_the_table_of_the_log() -> None:
    told = {
        name
        for row in re.findall(r"^\| (`\w+`(?:, `\w+`)*) ", LOG, re.MULTILINE)
        for name in row.strip("`").split("`, `")
    }
    modules = (events, transaction_events)
    classes = {
        found
        for module in modules
        for found in vars(module).values()
        if isinstance(found, type) and issubclass(found, Event)
    }
    not_logged = {Event, GroupEvent, TransactionEvent}
    assert {event_keyword(found) for found in classes - not_logged} - told == set()
    sources = "".join(path.read_text() for path in (ROOT / "shim" / "kshim" / "cli").glob("*.py"))
    assert set(re.findall(r"log\.(?:note|caution|detail)\(\s*\"(\w+)\"", sources)) - told == set()


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=lambda page: page.stem)
def test_modules_that_a_page_names_exist(page: Path) -> None:
    named = set(re.findall(r"`((?:[a-z_]+/)*[a-z_]+\.py)`", page.read_text()))
    assert {name for name in named if not any(("/" + path).endswith("/" + name) for path in SOURCES)} == set()
