"""Brokers for a run and for a test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import pytest

from kshim.pytest_plugin import tests_in_progress
from kshim.pytest_plugin.arguments import (
    Arguments,
    configured,
    marked,
    merged,
    only_adds_topics,
    real_address,
)
from kshim.pytest_plugin.log_tail import log_tail
from kshim.pytest_plugin.tests_in_progress import FAULT_MARKER, Given
from kshim.testing import Kshim

if TYPE_CHECKING:
    from kshim.pytest_plugin.real import RealKafka
    from kshim.testing.faults import Fault

_STARTED_WITH: Final = pytest.StashKey[dict[Kshim, Arguments]]()


@contextmanager
def running(config: pytest.Config, arguments: Arguments) -> Iterator[Kshim | RealKafka]:
    """Brokers for a whole run, or the Kafka that it is to run on."""
    address = real_address(config)
    if address is not None:
        from kshim.pytest_plugin.real import RealKafka

        with RealKafka(address) as kafka:
            yield kafka
        return
    given = merged(configured(config), arguments)
    started_with = config.stash.setdefault(_STARTED_WITH, {})
    with log_tail(config), Kshim(**given) as kshim:
        started_with[kshim] = given
        yield kshim
        del started_with[kshim]


@contextmanager
def clean(process: Kshim | RealKafka, arguments: Arguments, request: pytest.FixtureRequest) -> Iterator[Any]:
    """The brokers of a run without anything that an earlier test has left, or others, as a test wants them."""
    item: pytest.Item = request.node
    asked = merged(arguments, marked(item))
    rules = _rules(item)
    if not isinstance(process, Kshim):
        tests_in_progress.note_kafka(item, process)
        with process.clean(asked, rules) as kafka:
            yield kafka
        return
    given = request.config.stash.get(_STARTED_WITH, {}).get(process, Arguments())
    if only_adds_topics(given, asked):
        process.reset()
        for name, partitions in asked.get("topics", {}).items():
            if name not in given.get("topics", {}):
                process.create_topic(name, partitions)
        _arm(process, rules, item)
        try:
            yield process
        finally:
            process.faults.forget_unarmed()
        return
    with log_tail(request.config), Kshim(**merged(given, asked)) as own:
        _arm(own, rules, item)
        try:
            yield own
        finally:
            own.faults.forget_unarmed()


def _rules(item: pytest.Item) -> list[dict[str, Any]]:
    """The faults of a test's markers, those of its class and module first. Raises pytest.UsageError."""
    rules = []
    for marker in reversed(list(item.iter_markers(FAULT_MARKER))):
        if marker.args:
            raise pytest.UsageError(
                '@pytest.mark.kshim_fault takes keywords only, such as on="Heartbeat", do="hang", when="once"'
            )
        rules.append(dict(marker.kwargs))
    return rules


def _arm(kshim: Kshim, rules: list[dict[str, Any]], item: pytest.Item) -> None:
    """Arm the faults of a test, and note its brokers. Raises InvalidRule."""
    must_fire: list[Fault] = []
    for rule in rules:
        is_required = rule.pop("must_fire", True)
        fault = kshim.faults.add(rule)
        if is_required:
            must_fire.append(fault)
    tests_in_progress.note(item, Given(kshim, must_fire))
