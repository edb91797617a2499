"""What the pytest plugin costs: a hundred small tests with a clean broker each, and a run that does not use it.

    python -m bench.harness [--rounds 5] [--tests 100]

Each round starts pytest on an empty test without and with the plugin, in turn, and on the tests: on the brokers of the run,
cleaned for each test, and on brokers of each test's own. A test creates a topic, writes a record and reads it. Printed: wall and
CPU time of the process, median and lowest, and what the plugin adds.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

EMPTY = "def test_nothing():\n    pass\n"
CLEAN = """
import pytest

{mark}
@pytest.mark.parametrize("number", range({tests}))
def test_small(kshim, kshim_topic, number):
    kshim.produce(kshim_topic, "coffee")
    assert [record.value for record in kshim.records(kshim_topic)] == [b"coffee"]
"""
OWN = '@pytest.mark.kshim(config={"message.max.bytes": "1000000"})'
BUDGET_S = 10.0
ADDED_MS = 300.0


def run(folder: Path, *arguments: str) -> tuple[float, float]:
    """Wall and CPU seconds of a pytest that passes."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True)
    wall_s = time.perf_counter() - begun
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall_s, after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tests", type=int, default=100)
    options = parser.parse_args()
    plugin = ("-p", "kshim.pytest_plugin.plugin")
    runs = {
        "an empty test, without the plugin": (EMPTY, ()),
        "an empty test, with the plugin": (EMPTY, plugin),
        f"{options.tests} tests, cleaned brokers": (CLEAN.format(mark="", tests=options.tests), plugin),
        f"{options.tests} tests, brokers of their own": (CLEAN.format(mark=OWN, tests=options.tests), plugin),
    }
    wall: dict[str, list[float]] = {name: [] for name in runs}
    cpu: dict[str, list[float]] = {name: [] for name in runs}
    with tempfile.TemporaryDirectory() as scratch:
        for number in range(options.rounds + 1):
            for name, (source, arguments) in runs.items():
                (Path(scratch) / "test_it.py").write_text(source)
                wall_s, cpu_s = run(Path(scratch), *arguments, "test_it.py")
                if number:  # the first round compiles
                    wall[name].append(wall_s)
                    cpu[name].append(cpu_s)
    for name in runs:
        print(
            f"{name:40} wall {statistics.median(wall[name]):6.2f} s (least {min(wall[name]):.2f}), "
            f"CPU {statistics.median(cpu[name]):6.2f} s (least {min(cpu[name]):.2f})"
        )
    without, with_it, shared, own = runs
    for what, times in (("wall", wall), ("CPU", cpu)):
        added = [1_000 * (each - bare) for each, bare in zip(times[with_it], times[without], strict=True)]
        print(
            f"the plugin adds {statistics.median(added):.0f} ms of {what} time to a run: "
            f"{statistics.median(added) / ADDED_MS:.2f} of the {ADDED_MS:.0f} allowed"
        )
    for name in (shared, own):
        share = statistics.median(wall[name]) / BUDGET_S
        print(f"{name}: {share:.2f} of the {BUDGET_S:.0f} s allowed")


if __name__ == "__main__":
    main()
