"""What pytest loads. It imports kshim itself only when a fixture is used, so that it costs other runs nothing."""

from __future__ import annotations

import sys
from collections.abc import Generator, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

import pytest

from kshim.pytest_plugin import arguments, factories, report, tests_in_progress

kshim_proc = factories.kshim_proc()
kshim_noproc = factories.kshim_noproc()
kshim = factories.kshim("kshim_proc")
kshim_async = factories.kshim_async("kshim")
kshim_topic = factories.kshim_topic("kshim")
kshim_group = factories.kshim_group()


class PlainModules:
    """Finds the modules of kshim before pytest does, which would rewrite their assertions as those of tests.

    Brokers import in their own thread, and CPython before 3.11.10 and 3.12.4 cannot parse in two threads at once
    (python/cpython#106905: SystemError). It also saves the time.
    """

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """See importlib.abc.MetaPathFinder."""
        if name.partition(".")[0] in ("kshim", "kshim_protocol"):
            return PathFinder.find_spec(name, path, target)
        return None


_PLAIN_MODULES = pytest.StashKey[PlainModules]()


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Have kshim imported as it is, also by a conftest.py."""
    early_config.stash[_PLAIN_MODULES] = finder = PlainModules()
    sys.meta_path.insert(0, finder)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Leave the imports of whoever runs pytest as they were."""
    finder = config.stash.get(_PLAIN_MODULES, None)
    if finder in sys.meta_path:
        sys.meta_path.remove(finder)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add options, and keys of the configuration file."""
    arguments.add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    """Refuse options that cannot be used, once and not for each test, and describe the markers. Raises pytest.UsageError."""
    arguments.configured(config)
    config.addinivalue_line(
        "markers",
        f"kshim({', '.join(f'{name}=' for name in arguments.NAMES)}): what the brokers of the fixture kshim are to be,"
        " with the arguments of kshim.testing.Kshim",
    )
    config.addinivalue_line(
        "markers",
        "kshim_fault(on=, match=, do=, when=, name=, must_fire=True): arm this fault before the test, and fail the test"
        " when it has not fired at the end",
    )


def pytest_report_header(config: pytest.Config) -> str | None:
    """Say that the tests run on a true broker."""
    address = arguments.real_address(config)
    return None if address is None else f"kshim: tests run on the Kafka at {address}"


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Note when the test begins."""
    report.begin(item)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Fail a test that has passed but whose faults did not fire, or during which kshim failed."""
    tests_in_progress.check_before(item)
    try:
        result = yield
    except BaseException as error:
        tests_in_progress.check_skip(item, error)
        raise
    tests_in_progress.check_after(item)
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add to the report of a failure what the brokers know, and leave out how kshim came to raise it."""
    if call.excinfo is not None:
        report.hide_kshim(item.config, call.excinfo.value)
    found = yield
    if found.failed and call.when != "teardown":
        found.sections.extend(report.sections(item))
    return found
