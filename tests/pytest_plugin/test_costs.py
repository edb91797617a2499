"""What the plugin loads, and what is left when the run has ended."""

from __future__ import annotations

import pytest

from tests.pytest_plugin.conftest import Run

PLAIN = ("-p", "no:trio", "-p", "no:hypothesispytest")
ENDED = """
import os
import sys
import threading

import psutil
import pytest


class Watch:
    def pytest_unconfigure(self):
        self.threads = [thread.name for thread in threading.enumerate()]
        self.sockets = psutil.Process().net_connections(kind="inet")


files = os.listdir("/proc/self/fd")
code = pytest.main([*sys.argv[1:]])
assert code == 0, code
assert threading.enumerate() == [threading.main_thread()], threading.enumerate()
assert psutil.Process().net_connections(kind="inet") == []
assert len(os.listdir("/proc/self/fd")) == len(files), os.listdir("/proc/self/fd")
print("nothing is left")
"""
SOURCE = """
        import os
        import threading
        import pytest

        before = set(threading.enumerate())

        @pytest.mark.parametrize("number", range(3))
        def test_shared(kshim, number):
            assert len(set(threading.enumerate()) - before) == 1
            with open("addresses", "a") as file:
                print(os.environ.get("PYTEST_XDIST_WORKER", "main"), kshim.bootstrap_servers, file=file)

        @pytest.mark.parametrize("number", range(3))
        @pytest.mark.kshim(brokers=2, users={"ann": "secret"})
        def test_own(kshim, number):
            kshim.create_topic("orders")

        def test_asynchronous(kshim_async):
            import asyncio
            asyncio.run(kshim_async.group("g").wait_empty())
"""


def test_a_run_that_uses_no_fixture_loads_nothing_of_kshim(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makepyfile(
        """
        import sys

        def test_it():
            loaded = {name for name in sys.modules if name.split(".")[0] in ("kshim", "kshim_protocol", "trio")}
            assert loaded == {
                "kshim",
                "kshim.pytest_plugin",
                "kshim.pytest_plugin.arguments",
                "kshim.pytest_plugin.factories",
                "kshim.pytest_plugin.plugin",
                "kshim.pytest_plugin.report",
                "kshim.pytest_plugin.tests_in_progress",
            }
        """
    )
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTEST_ADDOPTS", "-p kshim -W error")
    pytester.runpytest_subprocess().assert_outcomes(passed=1)


def test_the_modules_of_kshim_are_not_rewritten(run: Run, pytester: pytest.Pytester) -> None:
    """pytest would parse them in the thread of the brokers, while it parses others: python/cpython#106905."""
    pytester.makepyfile(
        """
        import sys
        from importlib.machinery import SourceFileLoader

        def test_it(kshim):
            modules = [module for name, module in sys.modules.items() if name.startswith(("kshim.", "kshim_protocol."))]
            others = {module.__name__ for module in modules if type(module.__loader__) is not SourceFileLoader}
            assert all(name.startswith("kshim.pytest_plugin") for name in others)
        """
    )
    pytester.runpytest_subprocess(*PLAIN).assert_outcomes(passed=1)


@pytest.mark.parametrize("arguments", [(), ("-p", "randomly"), ("-n2",)], ids=["alone", "randomly", "xdist"])
def test_a_run_leaves_no_thread_and_no_socket(run: Run, pytester: pytest.Pytester, arguments: tuple[str, ...]) -> None:
    pytester.makepyfile(SOURCE)
    pytester.makepyfile(ended=ENDED)
    done = pytester.runpython_c(
        "import runpy, sys; sys.argv[1:] = {!r}; runpy.run_path('ended.py')".format(["-q", *PLAIN, *arguments])
    )
    done.stdout.fnmatch_lines("nothing is left")
    lines = set((pytester.path / "addresses").read_text().splitlines())
    workers = {line.split()[0] for line in lines}
    assert len(lines) == len(workers), "one set of brokers for each worker"
