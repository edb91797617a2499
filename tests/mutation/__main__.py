"""`python -m tests.mutation`: mutants of `kshim.coordinator`, a seeded sample, against its tests. See docs/mutation.md.

Exit 1 when fewer than 95 % are killed or a survivor is not explained in `survivors.toml`.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.mutation.mutants import HERE, Mutant, load_exclusions, mutants_of

ROOT = HERE.parents[1]
COPIED = ("shim/kshim", "protocol/kshim_protocol", "tests", "docs", "pyproject.toml")
COORDINATOR = "shim/kshim/coordinator"
CONTROLLED = "groups/classic/heartbeat.py"
SEED = 44
SAMPLE = 600
REQUIRED = 0.95
VERDICTS = ("killed", "timeout", "survived", "untested", "error")


def main() -> int:
    """Run; the report goes to stdout."""
    options = _parse_arguments()
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="kshim-mutation-") as name:
        copy = Path(name)
        _copy_tree(copy)
        population, sample = _draw(copy, options)
        print(f"seed {options.seed}: {len(sample)} of {population} mutants of {COORDINATOR}", flush=True)
        if options.list:
            print(*(f"{mutant.name}\n    {mutant.change}" for mutant in sample), sep="\n")
            return 0
        trials = _run(copy, sample)
    return _report(sample, trials, time.monotonic() - started, is_whole=not options.only)


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--sample", type=int, default=SAMPLE, help="how many mutants; 0: all")
    parser.add_argument(
        "--only", action="append", default=[], metavar="TEXT", help="only mutants with TEXT in the name"
    )
    parser.add_argument("--list", action="store_true", help="show the sample and stop")
    return parser.parse_args()


def _copy_tree(copy: Path) -> None:
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(source, copy / name)


def _draw(copy: Path, options: argparse.Namespace) -> tuple[int, list[Mutant]]:
    """How many mutants there are, and the sample of them."""
    exclusions = load_exclusions()
    mutants = [
        mutant
        for mutant in mutants_of(copy / COORDINATOR)
        if not any(exclusion.covers(mutant) for exclusion in exclusions)
    ]
    chosen = [mutant for mutant in mutants if not options.only or any(text in mutant.name for text in options.only)]
    sample: list[Mutant] = []
    for mutant in sorted(chosen, key=lambda mutant: mutant.rank(options.seed)):
        if options.sample and len(sample) == options.sample:
            break
        if mutant.source is not None:
            sample.append(mutant)
    return len(mutants), sample


def _run(copy: Path, sample: Iterable[Mutant]) -> dict[str, dict[str, Any]]:
    jobs, results = copy / "jobs.jsonl", copy / "results.jsonl"
    with jobs.open("w", encoding="utf-8") as stream:
        for control, source in _controls(copy).items():
            stream.write(json.dumps({"name": control, "file": CONTROLLED, "function": "", "source": source}) + "\n")
        for mutant in sample:
            job = {
                "name": mutant.name,
                "file": mutant.module.file,
                "function": mutant.function,
                "source": mutant.source,
            }
            stream.write(json.dumps(job) + "\n")
    path = os.pathsep.join(str(copy / folder) for folder in ("shim", "protocol", "."))
    subprocess.run(
        [sys.executable, "-m", "tests.mutation.trials", str(jobs), str(results)],
        cwd=copy,
        env=os.environ | {"PYTHONPATH": path, "PYTHONHASHSEED": "0"},
        check=True,
    )
    trials = [json.loads(line) for line in results.read_text(encoding="utf-8").splitlines()]
    return {trial["name"]: trial for trial in trials}


def _controls(copy: Path) -> dict[str, str]:
    """Changes with a known verdict: one that changes nothing, one that cannot even be loaded."""
    source = (copy / COORDINATOR / CONTROLLED).read_text(encoding="utf-8")
    return {"survived": source, "killed": source + "\nraise AssertionError\n"}


def _report(sample: list[Mutant], trials: dict[str, dict[str, Any]], seconds: float, *, is_whole: bool) -> int:
    explained = {entry["mutant"]: entry for entry in _explanations()}
    counts = Counter(trials[mutant.name]["verdict"] for mutant in sample)
    problems = []
    for mutant in sample:
        verdict, entry = trials[mutant.name]["verdict"], explained.get(mutant.name)
        if verdict == "error":
            problems.append(f"pytest itself broke: {mutant.name}")
        elif verdict in ("survived", "untested"):
            print(f"\n{verdict}: {mutant.name}", *mutant.diff, sep="\n  ")
            if entry is None:
                problems.append(f"not explained: {mutant.name}")
            elif entry["change"] != mutant.change:
                problems.append(f"explained for another change: {mutant.name}: {mutant.change}")
            else:
                print(f"  {entry['kind']}: {entry['reason']}")
        elif verdict == "timeout":
            print(f"\ntimeout: {mutant.name}", *mutant.diff, sep="\n  ")
        elif entry is not None:
            problems.append(f"explained, but killed: {mutant.name} by {trials[mutant.name]['by']}")
    killed = (counts["killed"] + counts["timeout"]) / max(len(sample), 1)
    print(f"\n{len(sample)} mutants in {seconds:.0f} s:", ", ".join(f"{counts[name]} {name}" for name in VERDICTS))
    print(f"{killed:.1%} killed (timeouts count: the tests do not pass)")
    if is_whole and killed < REQUIRED:
        problems.append(f"fewer than {REQUIRED:.0%} killed")
    print(*problems, sep="\n")
    return 1 if problems else 0


def _explanations() -> list[dict[str, str]]:
    entries: list[dict[str, str]] = tomllib.loads((HERE / "survivors.toml").read_text(encoding="utf-8"))["survivor"]
    return entries


if __name__ == "__main__":
    raise SystemExit(main())
