"""The brokers that a test has been given, and whether it may pass with what they say."""

from __future__ import annotations

from traceback import format_exception
from typing import TYPE_CHECKING, Final, NamedTuple

import pytest

from kshim.pytest_plugin.arguments import MARKER

if TYPE_CHECKING:
    from kshim.pytest_plugin.real import RealKafka
    from kshim.testing import Kshim
    from kshim.testing.faults import Fault

FAULT_MARKER: Final = "kshim_fault"


class Given(NamedTuple):
    """Brokers that a test has been given, and the faults that its markers have armed and that must fire."""

    kshim: Kshim
    must_fire: list[Fault]


_KAFKA: Final = pytest.StashKey["RealKafka"]()
GIVEN: Final = pytest.StashKey[list[Given]]()


def note(item: pytest.Item, given: Given) -> None:
    """A fixture has given brokers to a test."""
    item.stash.setdefault(GIVEN, []).append(given)


def note_kafka(item: pytest.Item, kafka: RealKafka) -> None:
    """A fixture has given a test a Kafka that is not kshim."""
    item.stash[_KAFKA] = kafka


def check_skip(item: pytest.Item, error: BaseException) -> None:
    """Skip a test that needs kshim, where it was skipped in a task: the task's nursery hides that, or the reason."""
    kafka = item.stash.get(_KAFKA, None)
    if kafka is None or kafka.why_skipped is None:
        return
    if isinstance(error, BaseExceptionGroup):
        is_hidden = error.split(pytest.skip.Exception)[1] is None
    else:
        is_hidden = isinstance(error, pytest.skip.Exception) and not error.msg
    if is_hidden:
        raise pytest.skip.Exception(kafka.why_skipped) from None


def check_before(item: pytest.Item) -> None:
    """Fail a test that is marked for brokers or a fault, and has no brokers to have it.

    A test with the fixture `request` may get them yet. Markers of a class or a module are for those of its tests that use brokers.
    """
    if GIVEN in item.stash or _KAFKA in item.stash or "request" in getattr(item, "fixturenames", ()):
        return
    for marker in item.own_markers:
        if marker.name in (MARKER, FAULT_MARKER):
            pytest.fail(
                f"@pytest.mark.{marker.name} needs a test that uses the fixture kshim, or one that is made with it, such as"
                " kshim_async and kshim_topic",
                pytrace=False,
            )


def check_after(item: pytest.Item) -> None:
    """Fail a test, which has passed otherwise, for each fault that should have fired and each defect of kshim."""
    problems: list[str] = []
    for kshim, must_fire in item.stash.get(GIVEN, ()):
        problems.extend("".join(format_exception(defect)) for defect in kshim.take_defects())
        problems.extend(fault.why_unused() for fault in must_fire if not fault.fired)
        problems.extend(kshim.faults.unarmed)
    if problems:
        pytest.fail("\n".join(problems), pytrace=False)
