"""Which topics the regular expressions of groups stand for: matched in a thread, so that the broker goes on meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial

from kshim.broker.regular_expressions import matcher
from kshim.coordinator.step import Lookup
from kshim.scheduling.background_tasks import BackgroundTask, BackgroundTasks
from kshim_protocol.errors import KafkaError

Found = Mapping[str, frozenset[str]]
"""Names of topics by the expression that they match. An expression that could not be matched is not in it."""

_CHECKED_AT_ONCE = 100
"""Rights are looked up on the loop, this many at a time: less than a millisecond's work."""


class TopicExpressions:
    """Does what Steps wish in `lookups`; `resolved` is called once with each of them and what was found.

    As in Kafka only topics count that the client may describe whose heartbeat asked. `topic_names` are those that exist.
    """

    def __init__(
        self,
        background_tasks: BackgroundTasks,
        topic_names: Callable[[], Iterable[str]],
        resolved: Callable[[Lookup, Found], None],
        report: Callable[[BaseException, object], None],
    ) -> None:
        self._background_tasks = background_tasks
        self._topic_names = topic_names
        self._resolved = resolved
        self._report = report

    def look_up(self, lookup: Lookup) -> None:
        """Have it done soon."""
        self._background_tasks.add(self._resolve(lookup), urgent=True)

    def _resolve(self, lookup: Lookup) -> BackgroundTask:
        found: Found = {}
        try:
            found = yield partial(matching, lookup.expressions, list(self._topic_names()))
            may_describe = lookup.may_describe
            if may_describe is not None:
                names = sorted({name for topics in found.values() for name in topics})
                allowed: set[str] = set()
                for at in range(0, len(names), _CHECKED_AT_ONCE):
                    allowed.update(filter(may_describe, names[at : at + _CHECKED_AT_ONCE]))
                    yield None
                found = {expression: topics & allowed for expression, topics in found.items()}
        except Exception as error:
            self._report(error, lookup)
            found = {}
        self._resolved(lookup, found)


def matching(expressions: Iterable[str], names: Collection[str]) -> Found:
    """The names that each expression matches as a whole. What is no expression by now (without google-re2) is left out."""
    found = {}
    for expression in expressions:
        try:
            matches = matcher(expression)
        except KafkaError:
            continue
        found[expression] = frozenset(filter(matches, names))
    return found
