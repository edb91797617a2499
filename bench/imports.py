"""What an import costs: CPU milliseconds of a fresh interpreter, beyond one that imports nothing.

    python -m bench.imports [--rounds 31] [MODULE]...

The modules take turns. Printed: median [lowest-highest] and how many modules are loaded afterwards. `a+b` imports both.
Modules that are not installed are left out.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys

MODULES = ["argparse", "click", "typer", "trio", "construct", "crc32c", "kshim_protocol.records.crc", "cramjam"]
MODULES += ["lz4.frame+zstandard+snappy", "kshim.cli.main", "kshim.cli.serve"]


def cpu_ms(code: str) -> float:
    """User and system time of an interpreter that runs `code`."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-I", "-c", code], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime) * 1000


def loaded(code: str) -> int | None:
    """How many modules are loaded after `code`; None if it fails."""
    command = [sys.executable, "-I", "-c", f"{code}\nimport sys\nprint(len(sys.modules))"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return int(done.stdout) if done.returncode == 0 else None


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=31)
    parser.add_argument("modules", nargs="*", default=MODULES)
    options = parser.parse_args()
    codes = {module: "import " + module.replace("+", ", ") for module in options.modules}
    counts = {module: count for module, code in codes.items() if (count := loaded(code)) is not None}
    costs: dict[str, list[float]] = {module: [] for module in counts}
    nothing = []
    for _ in range(options.rounds):
        nothing.append(cpu_ms("pass"))
        for module, cost in costs.items():
            cost.append(cpu_ms(codes[module]))
    base = statistics.median(nothing)
    print(f"an interpreter that imports nothing: {base:.1f} ms")
    for module, cost in costs.items():
        median, low, high = (value - base for value in (statistics.median(cost), min(cost), max(cost)))
        print(f"{module:30} {median:6.1f} ms [{low:.1f}-{high:.1f}]  {counts[module]} modules")


if __name__ == "__main__":
    main()
