"""The line of a log for an event of any coordinator."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from kshim.coordinator.step import Event
    from kshim.history.coordinator_lines import Line

_known: dict[str, Callable[[Event], Line | None]] = {}  # what words the events of each coordinator that had some


def line_of(event: Event) -> Line | None:
    """The line for an event; None if another event of the same step has the line."""
    found = _known.get(event.coordinator) or _imported(event.coordinator)
    return found(event)


def _imported(coordinator: str) -> Callable[[Event], Line | None]:
    if coordinator == "GroupCoordinator":
        from kshim.history.coordinator_lines import line_of

        _known[coordinator] = line_of
    else:
        from kshim.history.transaction_lines import transaction_line_of

        _known[coordinator] = transaction_line_of
    return _known[coordinator]
