"""Looks, and writes what is seen: once, or on a terminal again and again."""

from __future__ import annotations

import json
import sys
import time
from contextlib import closing
from typing import Any, Literal, TextIO

from kshim.explain.document import document
from kshim.tools.client import PLAINTEXT
from kshim.tools.client_security import Security
from kshim.tools.logs import SourceError
from kshim.tools.logs.broker import BrokerLogs
from kshim.tools.screen import Screen, Span, is_live, render
from kshim.tools.top.pages import Watched
from kshim.tools.top.picture import draw
from kshim.tools.top.watch import View, Watch
from kshim.tools.why.follow import GLANCE_S

_VERSION = 1
_ANY_WIDTH = 1 << 16
_MORE = "pip install 'kshim[top]' adds keys, a search, and the swim lanes of each group"


def run_top(
    *,
    bootstrap_server: tuple[str, int],
    security: Security = PLAINTEXT,
    groups: frozenset[str] | None = None,
    interval_s: float = 5.0,
    is_once: bool = False,
    output: Literal["text", "json"] = "text",
    stream: TextIO | None = None,
) -> int:
    """Show `groups`, or all: on a terminal until it is interrupted, else once. Returns 0.

    Raises SourceError when the cluster cannot be reached to begin with; later that is shown, and it tries again.
    """
    stream = stream or sys.stdout
    if is_once or output == "json" or not is_live(stream):
        with closing(BrokerLogs(*bootstrap_server, client_id="top", security=security)) as logs:
            view = Watch(logs, groups).look(_now_ms())
            if output == "json":
                stream.write(json.dumps(as_json(view), ensure_ascii=False) + "\n")
            else:
                lines = draw(view, str(logs))
                stream.writelines(render(line, _ANY_WIDTH, is_coloured=False) + "\n" for line in lines)
        return 0
    try:
        from kshim.tools.top.app import TopApp
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("textual", "rich"):
            raise
        TopApp = None  # type: ignore[assignment,misc]
    try:
        with closing(BrokerLogs(*bootstrap_server, client_id="top", security=security)) as logs:
            if TopApp is None:
                _watch(Watch(logs, groups, interval_s), str(logs), min(GLANCE_S, interval_s), stream)
            else:
                watched = Watched(logs, groups, interval_s)
                watched.look(_now_ms())
                TopApp(watched, interval_s=min(GLANCE_S, interval_s)).run()
    except KeyboardInterrupt:
        pass
    return 0


def _watch(watch: Watch, source: str, interval_s: float, stream: TextIO) -> None:
    view, problem = watch.look(_now_ms()), None
    with closing(Screen(stream)) as screen:
        while True:
            room = screen.room - 1
            screen.draw([*draw(view, source, room=room, problem=problem)[:room], [Span(_MORE, "dim")]])
            time.sleep(interval_s)
            try:
                view, problem = watch.look(_now_ms()), None
            except SourceError as error:
                problem = f"{error}; trying again"


def as_json(view: View) -> dict[str, Any]:
    """One look, version 1 (docs/why.md)."""
    return {
        "version": _VERSION,
        "ts_ms": view.ts_ms,
        "left_out": view.left_out_count,
        "groups": [
            row._asdict() | {"last_cause": None if row.last_cause is None else row.last_cause._asdict()}
            for row in view.rows
        ],
        "incidents": document(view.incidents, (), None)["incidents"],
    }


def _now_ms() -> int:
    return int(time.time() * 1_000)
