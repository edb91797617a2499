"""Write `docs/reference/command-line.md` from the parsers: `python -m tests.docs.command_page --write`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator

from kshim.cli import options
from kshim.tools.ctl.run import ctl_parser
from kshim_pipeline import cli as pipeline
from tests.docs.blocks import DOCS

PAGE = DOCS / "reference" / "command-line.md"
_HEAD = """# Command line

`kshim COMMAND --help` prints the same. This page is generated from the parsers by `python -m tests.docs.command_page --write`.
"""
_TAIL = """## Exit codes

| Code | When |
| ---: | --- |
| 0 | The command ended as it should; `serve` was ended by SIGTERM, `page` or `top` by Ctrl-C. |
| 1 | The command failed while it ran. `conform`: a behaviour failed. `dump-offsets`: something could not be decoded. `replay`: an answer differs, or there was nothing to replay. `pipeline budget`: a group exceeded its budget. |
| 2 | An option or a configuration value is wrong. Nothing was started. |
| 3 | The address cannot be bound, the data directory is locked, damaged or cannot be used, or something is missing on this machine. |
| 130 | Ended by Ctrl-C. |
"""

Parser = argparse.ArgumentParser
BAR = "\\|"
"""A bar inside of a cell."""


def page() -> str:
    """The whole page."""
    return "\n".join([_HEAD, *(line for name, parser in parsers() for line in _section(name, parser)), _TAIL])


def parsers() -> Iterator[tuple[str, Parser]]:
    """Every command and what reads its options."""
    commands = _subparsers(options._parser())
    pipeline_parser = commands["pipeline"] = pipeline._parser()
    commands["ctl"] = ctl_parser()
    for name, parser in commands.items():
        yield f"kshim {name}", parser
        if name == "ctl":
            yield from _below(f"kshim {name}", parser)
    for name, parser in _subparsers(pipeline_parser).items():
        yield f"kshim pipeline {name}", parser


def _below(name: str, parser: Parser) -> Iterator[tuple[str, Parser]]:
    """The commands of a command, at any depth; not those that only hold others."""
    for word, found in _subparsers(parser).items():
        if any(isinstance(action, argparse._SubParsersAction) for action in found._actions):
            yield from _below(f"{name} {word}", found)
        else:
            yield f"{name} {word}", found


def _subparsers(parser: Parser) -> dict[str, Parser]:
    (action,) = (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    return dict(action.choices)


def _section(name: str, parser: Parser) -> Iterator[str]:
    yield f"## `{name}`\n"
    if parser.description:
        yield f"{parser.description}\n"
    shown = [action for action in parser._actions if not isinstance(action, _LEFT_OUT)]
    if shown:
        has_variables = name == "kshim serve"
        yield "| Option | Meaning | Variable |" if has_variables else "| Option | Meaning |"
        yield "| --- | --- | --- |" if has_variables else "| --- | --- |"
        for action in shown:
            yield _row(action, has_variable=has_variables)
        yield ""
    if parser.epilog:
        yield f"{parser.epilog}\n"


_LEFT_OUT = (argparse._HelpAction, argparse._SubParsersAction)


def _row(action: argparse.Action, *, has_variable: bool) -> str:
    value = _value(action)
    names = action.option_strings or [value]
    spelled = ", ".join(f"`{name} {value}`" if value and name.startswith("--") else f"`{name}`" for name in names)
    meaning = (action.help or "").replace("%%", "%") + (
        "; required" if action.required and action.option_strings else ""
    )
    cells = [spelled, f"{meaning[:1].upper()}{meaning[1:].removesuffix('.')}."]
    if has_variable:
        cells.append(f"`{_variable(action)}`")
    return f"| {' | '.join(cell.replace('|', BAR) for cell in cells)} |"


def _variable(action: argparse.Action) -> str:
    (option,) = (option for option in options._SERVE if option.name in action.option_strings)
    return f"{option.variable}_KEY" if option.name == "--config" else option.variable


def _value(action: argparse.Action) -> str:
    if action.nargs == 0:
        return ""
    if isinstance(action.metavar, str):
        return action.metavar
    return "|".join(map(str, action.choices)) if action.choices else action.dest.upper()


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        PAGE.write_text(page())
    else:
        sys.stdout.write(page())
