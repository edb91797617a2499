"""What the report of a failed test has besides: timelines and pages of its groups, the faults that fired, the brokers' log."""

from __future__ import annotations

import shutil
import sys
import time
from dis import opmap
from types import TracebackType
from typing import Any, Final

import pytest

_BEGAN: Final = pytest.StashKey[float]()
_LINES: Final = 200
"""Of one section; its end is what is shown."""
_OWN: Final = frozenset({"concurrent", "kshim", "kshim_protocol"})
_HIDDEN: Final = _OWN | {"asyncio", "outcome", "trio"}
_PYTEST: Final = frozenset({"_pytest", "pluggy"})


def begin(item: pytest.Item) -> None:
    """A test begins."""
    item.stash[_BEGAN] = time.time()


def hide_kshim(config: pytest.Config, error: BaseException) -> None:
    """Take the frames of kshim out of the traceback of a failure: it ends at the test's own call, and the message says why.

    Only where kshim.testing was called and the error was raised on purpose, and not with --full-trace. The frames are unlinked, since
    pytest goes through the links anew whatever is done to its own list.
    """
    entries: list[TracebackType] = []
    at = error.__traceback__
    while at is not None:
        entries.append(at)
        at = at.tb_next
    if (
        config.option.fulltrace
        or not entries
        or not (_package(entries[-1]) not in _OWN or _is_deliberate(entries[-1], error))
    ):
        return
    kept = list(entries)
    while kept and _package(kept[-1]) in _HIDDEN:
        kept.pop()
    called = [entry for entry in entries[len(kept) :] if _package(entry) in _OWN]
    if not called:
        kept = entries
    elif not _module(called[0]).startswith("kshim.testing.") or not kept or _package(kept[-1]) in _PYTEST:
        return
    kept = [entry for entry in kept if _package(entry) not in _OWN]
    for entry, following in zip(kept, [*kept[1:], None], strict=True):
        entry.tb_next = following


def _is_deliberate(entry: TracebackType, error: BaseException) -> bool:
    """Whether the error comes from a `raise`, and from no `assert` in the broker; or is the end of a wait."""
    if _module(entry) == "kshim.testing.awaiting":
        return True
    is_raised = entry.tb_frame.f_code.co_code[entry.tb_lasti] == opmap["RAISE_VARARGS"]
    return is_raised and (
        type(error) is not AssertionError or _module(entry).startswith(("kshim.testing.", "kshim.faults."))
    )


def _module(entry: TracebackType) -> str:
    return str(entry.tb_frame.f_globals.get("__name__", ""))


def _package(entry: TracebackType) -> str:
    return _module(entry).partition(".")[0]


def sections(item: pytest.Item) -> list[tuple[str, str]]:
    """Title and text of each, for every set of brokers that the fixtures of a test have given it."""
    if "kshim.testing" not in sys.modules:
        return []
    from kshim.testing import AsyncKshim, Kshim

    values = getattr(item, "funcargs", {}).values()
    found: list[tuple[str, str]] = []
    seen: set[str] = set()
    for kshim in (value for value in values if isinstance(value, (Kshim, AsyncKshim))):
        if kshim.bootstrap_servers not in seen:
            seen.add(kshim.bootstrap_servers)
            found.extend(_of_brokers(kshim))
            found.extend(_pages(kshim, item, len(seen)))
    return found + _log(item)


def _of_brokers(kshim: Any) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    try:
        found.extend((f"kshim group {group_id}", timeline) for group_id, timeline in kshim.timelines().items())
        firings = [str(firing) for fault in kshim.faults.all for firing in fault.fired]
        unused = [fault.why_unused() for fault in kshim.faults.all if not fault.fired]
        defects = list(map(repr, kshim.defects))
    except RuntimeError:
        return []  # closed by the test
    for title, lines in (
        ("kshim faults that fired", firings),
        ("kshim faults that did not fire", unused),
        ("defects of kshim", defects),
    ):
        if lines:
            found.append((title, "\n".join(lines)))
    return [(title, _end(text)) for title, text in found]


def _pages(kshim: Any, item: pytest.Item, number: int) -> list[tuple[str, str]]:
    """Write the pages of the groups of brokers to pytest's cache, in place of those of an earlier run, and say where they are."""
    cache = getattr(item.config, "cache", None)
    if cache is None:  # -p no:cacheprovider
        return []
    from kshim.page.files import plain, written

    name = f"{plain(item.nodeid.rpartition('/')[2])}{'' if number == 1 else f'-{number}'}"
    try:
        folder = cache.mkdir("kshim") / name
        shutil.rmtree(folder, ignore_errors=True)
        paths = list(written(folder, kshim.pages()))
    except (OSError, RuntimeError):  # a cache that cannot be written; brokers that the test has closed
        return []
    return [("kshim pages, to be opened in a browser", "\n".join(map(str, paths)))] if paths else []


def _log(item: pytest.Item) -> list[tuple[str, str]]:
    from kshim.pytest_plugin.log_tail import LOG_TAIL

    tail = item.config.stash.get(LOG_TAIL, None)
    text = "" if tail is None else tail.since(item.stash.get(_BEGAN, 0.0))
    return [("kshim log", _end(text))] if text else []


def _end(text: str) -> str:
    lines = text.splitlines()
    if len(lines) <= _LINES:
        return text
    return "\n".join([f"({len(lines) - _LINES} lines before these)", *lines[-_LINES:]])
