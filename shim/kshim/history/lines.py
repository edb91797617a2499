"""The line of a log for an event of any coordinator."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kshim.coordinator.step import Event
    from kshim.history.coordinator_lines import Line


def line_of(event: Event) -> Line | None:
    """The line for an event; None if another event of the same step has the line."""
    if event.coordinator == "GroupCoordinator":
        from kshim.history.coordinator_lines import line_of

        return line_of(event)
    from kshim.history.transaction_lines import transaction_line_of

    return transaction_line_of(event)
