"""`kshim pipeline`: finds the command, runs it, and turns what goes wrong into one sentence and an exit code.

A command is a function of its options that returns an exit code. Its module is loaded only to run it: help needs none
of the packages that the extra `pipeline` brings.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from typing import Final, NamedTuple, NoReturn

from kshim_pipeline import options
from kshim_pipeline.errors import EXIT_INTERRUPTED, EXIT_UNAVAILABLE, EXIT_USAGE, PipelineError

_SPARK: Final = ("numpy", "pandas", "pyarrow", "pyspark")
_CHARTS: Final = (*_SPARK, "altair", "vl_convert")


class Command(NamedTuple):
    """Where a command lives (module:function), what it does, its options, and the packages of the extra that it needs."""

    place: str
    summary: str
    add_options: Callable[[argparse.ArgumentParser], None]
    packages: Sequence[str] = _SPARK

    def load(self) -> Callable[[argparse.Namespace], int]:
        """Import the function that runs it."""
        module, _, function = self.place.partition(":")
        found: Callable[[argparse.Namespace], int] = getattr(importlib.import_module(module), function)
        return found


COMMANDS: Final[Mapping[str, Command]] = {
    "setup": Command(
        "kshim_pipeline.setup.command:run", "fetch and check what Spark needs on this machine", options.setup_options
    ),
    "land": Command(
        "kshim_pipeline.land.command:run",
        "copy raw records into Parquet before compaction erases them",
        options.land_options,
    ),
    "watch": Command(
        "kshim_pipeline.detector.command:run",
        "write an alert for each incident, and when a rebalance stays open",
        options.watch_options,
    ),
    "analyse": Command(
        "kshim_pipeline.report.commands:analyse", "compute all tables and findings, as Parquet", options.analyse_options
    ),
    "report": Command(
        "kshim_pipeline.report.commands:report", "write a report, one HTML file", options.report_options, _CHARTS
    ),
    "explain": Command(
        "kshim_pipeline.report.explain_command:run", "explain why a group rebalanced", options.explain_options
    ),
    "budget": Command(
        "kshim_pipeline.report.commands:budget",
        "check groups against limits, for CI: JSON and an exit code",
        options.budget_options,
    ),
    "demo": Command(
        "kshim_pipeline.demo.command:run",
        "cause incidents on a broker for a minute, then diagnose them",
        options.demo_options,
        _CHARTS,
    ),
}
"""In the order of the help."""


class _Parser(argparse.ArgumentParser):
    """argparse, but a mistake is one sentence and not the whole usage again."""

    def error(self, message: str) -> NoReturn:
        raise PipelineError(f"{message}; `{self.prog} --help` lists the options", EXIT_USAGE)


def main(arguments: Sequence[str]) -> int:
    """Run `kshim pipeline` with `arguments` and return its exit code. `--help` raises SystemExit, as argparse does."""
    try:
        found = _parser().parse_args(arguments)
        return _run(COMMANDS[found.command], found)
    except PipelineError as error:
        print(f"kshim pipeline: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="kshim pipeline",
        description="Analyse with Spark why consumer groups rebalanced, from a coordinator's records, events or log.",
        epilog="`kshim pipeline COMMAND --help` lists a command's options. Exit codes: 0 success, 1 failure or a limit "
        "exceeded, 2 usage, 3 something is missing on this machine, 130 interrupted.",
        allow_abbrev=False,
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True, dest="command")
    for name, command in COMMANDS.items():
        description = f"{command.summary[0].upper()}{command.summary[1:]}."
        command.add_options(
            commands.add_parser(name, help=command.summary, description=description, allow_abbrev=False)
        )
    return parser


def _run(command: Command, found: argparse.Namespace) -> int:
    """Raises PipelineError: besides what the command raises, a package that it needs is missing."""
    if missing := [name for name in command.packages if find_spec(name) is None]:
        packages = f"the package {missing[0]} is" if len(missing) == 1 else f"the packages {', '.join(missing)} are"
        raise PipelineError(f"{packages} not installed: pip install 'kshim[pipeline]'", EXIT_UNAVAILABLE)
    return command.load()(found)
