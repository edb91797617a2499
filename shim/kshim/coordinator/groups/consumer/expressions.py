"""The regular expressions of a group, and the topics that they stand for (KIP-848, record type 16).

Nothing is matched here. A heartbeat asks `lookup_due`, and puts a `Lookup` into its Step when it is; the broker matches in
a thread and brings the topics back (`GroupCoordinator.expressions_resolved`), which `Plan.put_topics` plans. Until then a new
expression stands for nothing: its member joins without a new group epoch, as on a live 4.4.

Source: Kafka's GroupMetadataManager (maybeUpdateRegularExpressions, handleRegularExpressionsResult), TopicRegexResolver.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from kshim.coordinator.groups.consumer.updates import Resolved

MIN_INTERVAL_MS: Final = 10_000
"""Between two look-ups of a group; a new expression waits for it, too."""
NEVER: Final = -1
"""The version of the topics before the first look-up since the group was loaded."""


class Asked(NamedTuple):
    """The look-ups of a group since it was loaded; in no record. `version` is that of the topics at the last one."""

    version: int = NEVER
    is_waiting: bool = False


def lookup_due(
    used: Collection[str],
    resolved: Mapping[str, Resolved],
    asked: Asked,
    *,
    is_new: bool,
    topics_version: int,
    now_ms: int,
    interval_ms: int,
) -> bool:
    """Whether the expressions that members use now have to be matched again.

    That is so for one that is new or not resolved yet, when topics have changed (Kafka: when one was made), and after
    `interval_ms`, because rights on topics may have changed. `now_ms` is Unix time.
    """
    if not used or asked.is_waiting:
        return False
    last_ms = max((found.resolved_ms for found in resolved.values()), default=None)
    if last_ms is not None and now_ms <= last_ms + MIN_INTERVAL_MS:
        return False
    return (
        is_new
        or last_ms is None
        or any(expression not in resolved for expression in used)
        or asked.version != topics_version
        or now_ms > last_ms + interval_ms
    )


def changes_topics(resolved: Mapping[str, Resolved], before: str, after: str) -> bool:
    """Whether a member wants other topics with another expression; "" is none. A new one stands for nothing yet."""
    return before != after and (not after or after in resolved)
