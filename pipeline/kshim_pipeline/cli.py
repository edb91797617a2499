"""`kshim pipeline`: finds the command, runs it, and turns what goes wrong into one sentence and an exit code.

A command is a module with `add_options(parser)` and `run(options) -> int`. Modules are loaded when their command is the
one that was asked for, so that a list of commands costs no Spark.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, NoReturn

from kshim_pipeline.errors import EXIT_INTERRUPTED, EXIT_UNAVAILABLE, EXIT_USAGE, PipelineError


class Command(NamedTuple):
    """Where a command lives, and what it does in a few words."""

    module: str
    summary: str


COMMANDS: Final[Mapping[str, Command]] = {
    "setup": Command("kshim_pipeline.setup.command", "fetch and check what Spark needs on this machine"),
    "land": Command("kshim_pipeline.land.command", "copy raw records into Parquet before compaction erases them"),
    "watch": Command("kshim_pipeline.detector.command", "write alerts about rebalances that stay open into a topic"),
    "analyse": Command("kshim_pipeline.report.command_analyse", "work out every table and finding, as Parquet"),
    "report": Command("kshim_pipeline.report.command_report", "draw one HTML file that answers what operators ask"),
    "explain": Command("kshim_pipeline.report.command_explain", "say in sentences why a group rebalanced"),
    "budget": Command(
        "kshim_pipeline.report.command_budget", "judge groups by a budget, for CI: JSON and an exit code"
    ),
    "demo": Command("kshim_pipeline.demo.command", "let consumers get into trouble for a minute, and say why"),
}
"""In the order of the help. To add one: its module, and a line here."""


class _Parser(argparse.ArgumentParser):
    """argparse, but a mistake is one sentence and not the whole usage again."""

    def error(self, message: str) -> NoReturn:
        raise PipelineError(f"{message}; `{self.prog} --help` lists the options", EXIT_USAGE)


def main(arguments: Sequence[str]) -> int:
    """Run `kshim pipeline` with `arguments` and return its exit code. `--help` raises SystemExit, as argparse does."""
    try:
        return _run(arguments)
    except PipelineError as error:
        print(f"kshim pipeline: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED


def _run(arguments: Sequence[str]) -> int:
    parser = _Parser(
        prog="kshim pipeline",
        description="Why did the groups rebalance: reads a coordinator's history with Spark.",
        epilog="`kshim pipeline COMMAND --help` lists a command's options. Exit codes: 0 ended cleanly, 1 failed or a "
        "budget is broken, 2 usage, 3 something is missing on this machine, 130 interrupted.",
        allow_abbrev=False,
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True, dest="command")
    asked = arguments[0] if arguments else ""
    for name, command in COMMANDS.items():
        options = commands.add_parser(name, help=command.summary, description=_sentence(command), allow_abbrev=False)
        if name == asked:
            _load(command).add_options(options)
    found = parser.parse_args(arguments)
    code: int = _load(COMMANDS[found.command]).run(found)
    return code


def _load(command: Command) -> Any:
    try:
        return importlib.import_module(command.module)
    except ImportError as error:
        if error.name is None or error.name.partition(".")[0] not in ("numpy", "pandas", "pyarrow", "pyspark"):
            raise
        raise PipelineError(
            f"the package {error.name} is missing: pip install 'kshim[pipeline]'", EXIT_UNAVAILABLE
        ) from None


def _sentence(command: Command) -> str:
    return f"{command.summary[0].upper()}{command.summary[1:]}."
