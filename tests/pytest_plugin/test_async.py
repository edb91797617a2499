"""The fixture of asynchronous tests: under pytest-trio, pytest-asyncio, anyio, and whatever else runs coroutines."""

from __future__ import annotations

import importlib.util

import pytest

from tests.pytest_plugin.conftest import Run

TESTS = """
import pytest

{mark}
async def test_waits(kshim_async, kshim_topic):
    assert kshim_async.produce(kshim_topic, "coffee")
    assert [record.value for record in kshim_async.records(kshim_topic)] == [b"coffee"]
    view = await kshim_async.group("billing").wait_empty()
    assert view.state == "Dead"
    with pytest.raises(TimeoutError, match="billing"):
        await kshim_async.group("billing").wait_stable(timeout=0.001)

{mark}
@pytest.mark.kshim(brokers=2)
async def test_brokers_of_its_own(kshim_async, kshim):
    assert kshim_async.live == [1, 2]
    assert kshim_async.bootstrap_servers == kshim.bootstrap_servers
    await kshim_async.reset()

{mark}
async def test_that_fails(kshim_async):
    await kshim_async.group("billing").wait_generation(1, timeout=0.001)
"""


@pytest.mark.parametrize(
    ("package", "mark", "tests"),
    [
        ("pytest_trio", "@pytest.mark.trio", 3),
        ("pytest_asyncio", "@pytest.mark.asyncio", 3),
        ("anyio", "@pytest.mark.anyio", 6),
    ],
)
def test_asynchronous_tests_wait_for_groups(
    run: Run, package: str, mark: str, tests: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"needs {package}")
    if package == "pytest_asyncio":
        monkeypatch.setenv(
            "PYTEST_ADDOPTS", "-p no:schemathesis -W error -o asyncio_default_fixture_loop_scope=function"
        )
    result = run(TESTS.format(mark=mark))
    result.assert_outcomes(passed=tests * 2 // 3, failed=tests // 3)
    result.stdout.fnmatch_lines("*TimeoutError: group billing was not in generation 1 within 0.001 s*")


def test_a_coroutine_that_the_test_runs_itself(run: Run) -> None:
    run(
        """
        import asyncio

        def test_it(kshim_async):
            asyncio.run(kshim_async.group("billing").wait_empty())
        """
    ).assert_outcomes(passed=1)
