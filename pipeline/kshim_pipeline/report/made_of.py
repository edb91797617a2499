"""What results were made of: a text that is another one whenever they may be others, and the days that are landed whole."""

from __future__ import annotations

import argparse
import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from importlib import metadata
from typing import Any, Final

from kshim_pipeline.folder import Folder
from kshim_pipeline.inputs.window import AROUND_MS, Window
from kshim_pipeline.land.batches import Batches, Landed
from kshim_pipeline.records import DECODER
from kshim_pipeline.topics import EVENTS_TOPIC, OFFSETS_TOPIC

_READ: Final = (OFFSETS_TOPIC, EVENTS_TOPIC)
"""Topics whose records make a day."""
_DAY_MS: Final = 86_400_000


def is_landed_alone(options: argparse.Namespace) -> bool:
    """Whether landed records are the only source that is named."""
    return options.landed is not None and not any((options.bootstrap_server, options.data_dir, options.broker_log))


def made_of(options: argparse.Namespace, at: Callable[[str], Folder]) -> str | None:
    """Of the results of these options; None: they may be others at any time.

    Only landed records say what they are: up to which offsets they were landed, of which cluster, and samples of log ends. `at`
    is the folder of an address. Raises PipelineError: what is landed contradicts itself.
    """
    if not is_landed_alone(options):
        return None
    place = at(options.landed)
    landed = Batches(place).landed()
    samples = place.find("log_ends/*.parquet")
    return _text(place, landed, Window(options.since, options.until), landed.end, samples)


def made_of_day(place: Folder, landed: Landed, day: str) -> str | None:
    """Of the results of a day that is landed whole: how many records each day until then has, of which late ones make more."""
    counts: Counter[str] = Counter()
    for file in landed.files.values():
        if file.topic in _READ and file.day <= day:
            counts[file.day] += file.records
    return _text(place, landed, window_of(day), sorted(counts.items()))


def _text(place: Folder, landed: Landed, *parts: Any) -> str | None:
    try:
        version = metadata.version("kshim")
    except metadata.PackageNotFoundError:
        return None
    whole = [version, DECODER, place.address, landed.cluster_id, landed.source, landed.topic_ids, *parts]
    return hashlib.sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest()


def window_of(day: str) -> Window:
    """A day of UTC, which is written as landed files have it: 2026-11-23."""
    since_ms = int(datetime.fromisoformat(day).replace(tzinfo=UTC).timestamp()) * 1_000
    return Window(since_ms, since_ms + _DAY_MS)


def whole_days(landed: Landed, newest_ms: int, asked: Window) -> Iterator[str]:
    """The days that have records, from the first on, until the first that is not landed whole, with the hour after it.

    `newest_ms`: of all landed records. `asked`: only days that lie in it.
    """
    days = {file.day for file in landed.files.values() if file.topic in _READ}
    for day in sorted(days):
        window = window_of(day)
        assert window.since_ms is not None
        assert window.until_ms is not None
        is_asked = (asked.since_ms is None or window.since_ms >= asked.since_ms) and (
            asked.until_ms is None or window.until_ms <= asked.until_ms
        )
        if is_asked and newest_ms >= window.until_ms + AROUND_MS:
            yield day
