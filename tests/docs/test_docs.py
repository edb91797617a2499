"""The page about the log lists what the code logs."""

from __future__ import annotations

import re

from kshim.cli.log import event_keyword
from kshim.coordinator.groups import events
from kshim.coordinator.groups.events import Cause, GroupEvent
from kshim.coordinator.step import Event
from tests.docs.blocks import DOCS, ROOT

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
    classes = [found for found in vars(events).values() if isinstance(found, type) and issubclass(found, Event)]
    assert {event_keyword(found) for found in classes if found not in (Event, GroupEvent)} - told == set()
    said = re.findall(r"log\.(?:note|caution|detail)\(\s*\"(\w+)\"", (ROOT / "shim/kshim/cli/serve.py").read_text())
    assert set(said) - told == set()
