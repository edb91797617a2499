"""`python -m tests.gate.full_run`, which is `make test-all`: everything this project can check, in stages.

Results are kept in `.cache/test-all` as `tests.gate.stages` says: a stage that passed runs again only when a commit
changed something that it depends on. That is `CODE`, or, for a stage of a few folders of tests, `PRODUCT` with these folders
and the modules that they import. Commits to the documentation alone therefore keep all results but that of `documents`,
which runs the tests that read pages and depends on the whole tree. Stages are ordered so that the quickest and most telling
come first; with two quiet cores none takes much longer than ten minutes.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.gate.stages import Stage, Stages, run_and_report

ROOT = Path(__file__).resolve().parents[2]
STORE = ROOT / ".cache" / "test-all"
CODE = (
    "bench",
    "conftest.py",
    "docs/examples",
    "integration",
    "Makefile",
    "pipeline",
    "protocol",
    "pyproject.toml",
    "shim",
    "tests",
)  # fmt: skip
PRODUCT = ("conftest.py", "pipeline", "protocol", "pyproject.toml", "shim")
NAMED = re.compile(r"\b((?:bench|integration|tests)(?:[./]\w+)+)")
"""The module or the path of something of the tests, wherever it is named."""
READS_PAGES = re.compile(r"""["'](?:docs["'/]|README\.md|CHANGELOG\.md|Dockerfile|compose\.yaml|\.ci)""")
"""A string that begins with the path of something outside of `CODE`."""

IN_PARALLEL = ("--numprocesses", "4", "--dist", "loadfile", "--no-loadscope-reorder", "--max-worker-restart", "0")

LONG: dict[str, tuple[str, ...]] = {
    "long-simulation": ("tests/simulation",),
    "long-http": ("tests/control",),
    "long-tools": ("tests/testing", "tests/tools"),
    "long-fuzz": ("integration/fuzz",),
    "long-hostile": ("integration/hostile",),
    "long-java": ("integration/java", "integration/kafka_python", "integration/offsets_topic"),
    "long-admin": ("integration/admin",),
    "long-assignors": ("integration/assignors",),
    "long-rolling": ("integration/rolling",),
    "long-streams": ("integration/streams",),
    "long-clients": ("integration/clients",),
    "long-kills": ("integration/durability/test_kill.py",),
    "long-exactly-once": ("integration/exactly_once",),
    "long-spark": (
        "integration/spark/test_cluster.py",
        "integration/spark/test_killed_landing.py",
        "integration/spark/test_storage.py",
        "integration/spark/test_tutorial.py",
    ),
    "long-spark-sources": (
        "integration/spark/test_incidents_stream.py",
        "integration/spark/test_real_consumers.py",
        "integration/spark/test_source_and_sink.py",
    ),
    "long-spark-scores": ("integration/spark/test_score.py",),
}
"""The tests marked `long`, by stage. Of `integration` and the examples, the rest runs in the stage `long-others`."""

OPTIONAL = ("soak",)
"""Run only when named."""


def stages(root: Path = ROOT, python: str = sys.executable) -> list[Stage]:
    """Every stage in order, the optional ones last."""
    pytest = (python, "-m", "pytest")
    others = [option for paths in LONG.values() for path in paths for option in ("--ignore", path) if path != "tests"]
    commands: dict[str, tuple[str, ...]] = {
        "lint": ("make", "lint"),
        "documents": (*pytest, *IN_PARALLEL, *readers_of_pages(root)),
        "gate": (*pytest, *IN_PARALLEL, "--durations=25", "tests", "integration", "docs/examples"),
        "codecs": (*pytest, "--hypothesis-profile", "thorough", "tests/protocol/test_codec.py"),
        "simulation": (python, "-m", "tests.simulation.run", "--seeds", "2000", "--steps", "500"),
        "differential": (python, "-m", "integration.differential.run", "--sequences", "1000"),
        "transactions": (python, "-m", "integration.transactions.random_calls", "--calls", "10000"),
        "client-matrix": (python, "-m", "integration.clients.matrix"),
        **{name: (*pytest, "-m", "long", *paths) for name, paths in LONG.items()},
        "long-others": (*pytest, "-m", "long", *others, "integration", "docs/examples"),
        "mutation": ("make", "mutation"),
        "soak": (python, "-m", "integration.soak.run", "--minutes", "30"),
    }
    folders = {
        "codecs": ("tests/protocol",),
        "simulation": ("tests/simulation",),
        "differential": ("integration/differential",),
        "transactions": ("integration/transactions",),
        "client-matrix": ("integration/clients",),
        "mutation": ("tests/coordinator", "tests/transcripts", "tests/mutation"),
        **LONG,
    }
    depends_on = {
        "documents": (".",),
        **{name: (*PRODUCT, *files_named(root, paths)) for name, paths in folders.items()},
    }
    return [
        Stage(name=name, commands=(command,), depends_on=depends_on.get(name, CODE))
        for name, command in commands.items()
    ]


def files_named(root: Path, paths: Sequence[str]) -> list[str]:
    """These, `integration.support`, and what they name of the tests, directly or through others: files, or whole folders.

    With a module come its packages, what prepares its tests, and what lies beside it and is no Python. `tests/gate`, which
    names all tests, is left out: it says which run, and not what comes of them.
    """
    waiting = ["integration/support", *paths]
    found: set[str] = set()
    while waiting:
        path = waiting.pop()
        if path in found or path.startswith("tests/gate"):
            continue
        found.add(path)
        if (root / path).is_dir():
            files = list((root / path).rglob("*.py"))
        elif path.endswith(".py"):
            files = [root / path]
            waiting += _beside(root, Path(path))
        else:
            continue
        named = {name for file in files for name in NAMED.findall(file.read_text())}
        waiting += filter(None, (_resolved(root, name) for name in named))
    return sorted(found)


def _beside(root: Path, module: Path) -> Iterator[str]:
    yield from (
        (folder / name).as_posix()
        for folder in module.parents
        for name in ("__init__.py", "conftest.py")
        if folder.parts and (root / folder / name).is_file()
    )
    for path in (root / module.parent).iterdir():
        if path.is_file() and path.suffix not in (".py", ".pyc"):
            yield path.relative_to(root).as_posix()


def _resolved(root: Path, name: str) -> str | None:
    """The file or the folder that a name begins with; None: it only looks like one."""
    parts = re.split("[./]", name)
    for count in range(len(parts), 0, -1):
        path = "/".join(parts[:count])
        if (root / f"{path}.py").is_file():
            return f"{path}.py"
        if count > 2 and (root / f"{'/'.join(parts[: count - 1])}.{parts[count - 1]}").is_file():
            return f"{'/'.join(parts[: count - 1])}.{parts[count - 1]}"
        if (count > 1 or path == "bench") and any((root / path).rglob("*.py")):
            return path
    return None


def readers_of_pages(root: Path) -> list[str]:
    """The files of tests that read what lies outside of `CODE`, themselves or through a module that they import."""
    texts = {
        path.relative_to(root): path.read_text()
        for folder in ("tests", "integration")
        for path in sorted((root / folder).rglob("*.py"))
        if not path.is_relative_to(root / "tests" / "gate")
    }
    readers = {path for path, text in texts.items() if READS_PAGES.search(text)}
    while True:
        modules = "|".join(re.escape(".".join(path.with_suffix("").parts)) for path in readers)
        imports = re.compile(rf"^ *from (?:{modules or '(?!)'}) import ", re.MULTILINE)
        found = {path for path, text in texts.items() if path in readers or imports.search(text)}
        if found == readers:
            return [path.as_posix() for path in texts if path in readers and path.name.startswith("test_")]
        readers = found


def chosen(everything: Sequence[Stage], names: Sequence[str]) -> Iterator[Stage]:
    """The stages named, in their order, or all that are not optional. Raises ValueError when a name is none."""
    if unknown := set(names) - {stage.name for stage in everything}:
        raise ValueError(f"no such stage: {', '.join(sorted(unknown))}")
    yield from (stage for stage in everything if (stage.name in names if names else stage.name not in OPTIONAL))


def main() -> int:
    """Run the stages; the exit code is 0 when all of them passed, in this run or before."""
    parser = argparse.ArgumentParser(prog="python -m tests.gate.full_run", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="STAGE", help="only these stages")
    parser.add_argument("--list", action="store_true", help="print the stages and their commands, and stop")
    parser.add_argument("--uncommitted", action="store_true", help="run all as the files are now, and keep nothing")
    options = parser.parse_args()
    everything = stages()
    if options.list:
        for stage in everything:
            print(f"{stage.name:<20}{'(optional) ' if stage.name in OPTIONAL else ''}{' '.join(stage.commands[0])}")
        return 0
    try:
        wanted = list(chosen(everything, options.names))
    except ValueError as error:
        parser.error(str(error))
    return run_and_report(Stages(ROOT, STORE, wanted), keep=not options.uncommitted)


if __name__ == "__main__":
    raise SystemExit(main())
