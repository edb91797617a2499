"""Play situations: each combination of client, situation and broker gives one outcome."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from integration.clients.catalogue import Client
from integration.clients.driver import Unsupported
from integration.clients.scene import Scene
from integration.clients.situation import Situation
from integration.support.broker import Broker
from integration.support.unavailable import Unavailable

OK, FAIL, CANNOT, MISSING = "ok", "FAIL", "-", "n/a"


class Outcome(NamedTuple):
    """What became of one playing."""

    client: str
    situation: str
    broker: str
    """`kshim` or `kafka`."""
    verdict: str
    """`ok`, `FAIL`, `-` (the client cannot express it) or `n/a` (not installed here)."""
    detail: str
    """Why, in a line, unless ok."""
    seconds: float
    version: str
    """The client's, if it got so far as to say."""


def play(client: Client, situation: Situation, broker: Broker, folder: Path) -> Outcome:
    """One playing, with its drivers' logs in `folder`, and the whole failure if it fails."""
    folder.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    scene = Scene(client, broker, folder)
    verdict, detail = OK, ""
    try:
        situation.play(scene)
    except Unsupported as reason:
        verdict, detail = CANNOT, str(reason)
    except Unavailable as missing:
        verdict, detail = MISSING, str(missing)
    except Exception as error:
        verdict, detail = FAIL, f"{type(error).__name__}: {error}".splitlines()[0]
        (folder / "failure.txt").write_text(traceback.format_exc())
    scene.close(at_once=verdict != OK)
    version = next(iter(scene.versions), "")
    took = time.monotonic() - began
    return Outcome(client.name, situation.name, broker.name, verdict, detail, round(took, 1), version)


def play_alone(client: Client, situation: Situation, make: Callable[[Path], Broker], folder: Path) -> Outcome:
    """One playing with a broker of its own, which it may kill."""
    folder.mkdir(parents=True, exist_ok=True)
    broker = make(folder)
    broker.start()
    try:
        return play(client, situation, broker, folder)
    finally:
        broker.kill()
