"""Runs one command of `kshim ctl`."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NoReturn

from kshim.tools.ctl.client import ControlClient, control_url, quoted
from kshim.tools.ctl.commands import COMMANDS, Argument, Command, pair
from kshim.tools.ctl.table import lines, table

DEFAULT_URL: Final = "http://127.0.0.1:9080"
_WORDS: Final = {
    "topic": "topics and their records",
    "group": "groups, their members and rebalances",
    "fault": "faults on demand",
    "clock": "the clock of the brokers",
    "node": "the brokers themselves",
}


class UsageError(Exception):
    """A mistake in the arguments, as a sentence."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}; `{self.prog} --help` lists the options")


def ctl_parser() -> argparse.ArgumentParser:
    """What reads the arguments."""
    parser = _Parser(
        prog="kshim ctl",
        description="Look at the brokers of a running `kshim serve --control`, and do to them what tests need.",
        epilog="KSHIM_CONTROL is used where --url is not given, and KSHIM_CONTROL_TOKEN where --token-file is not. The options may "
        "also follow the command. Exit codes: 0 success, 1 refused or not so within the time, 2 usage, 3 nobody answers at the URL.",
        allow_abbrev=False,
    )
    _add_common(parser, None)
    parser.set_defaults(json=False)
    top = parser.add_subparsers(dest="word", metavar="COMMAND", required=True)
    groups: dict[str, Any] = {}
    for command in COMMANDS:
        first, _, second = command.words.partition(" ")
        if not second:
            _add(top.add_parser(first, help=command.help, description=_sentence(command), allow_abbrev=False), command)
            continue
        if first not in groups:
            group = top.add_parser(
                first, help=_WORDS[first], description=_WORDS[first].capitalize() + ".", allow_abbrev=False
            )
            _add_common(group, argparse.SUPPRESS)
            groups[first] = group.add_subparsers(dest="verb", metavar="COMMAND", required=True)
        added = groups[first].add_parser(
            second,
            help=command.help,
            description=_sentence(command),
            epilog=command.examples,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        _add(added, command)
    return parser


def _add_common(parser: argparse.ArgumentParser, default: str | None) -> None:
    """What may stand in front of a command and after it."""
    parser.add_argument(
        "--url",
        default=default,
        help=f"where the HTTP interface is, as a URL or HOST:PORT (default: {DEFAULT_URL})",
        metavar="URL",
    )
    parser.add_argument("--token-file", default=default, help="file with the token", metavar="FILE")
    parser.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="print the answer as JSON")


def _sentence(command: Command) -> str:
    return command.help[0].upper() + command.help[1:] + "."


def _add(parser: argparse.ArgumentParser, command: Command) -> None:
    parser.set_defaults(command=command)
    _add_common(parser, argparse.SUPPRESS)
    for argument in command.arguments:
        settings: dict[str, Any] = {"help": argument.help, "choices": argument.choices, "type": argument.type}
        if argument.metavar is not None:
            settings["metavar"] = argument.metavar
        if argument.is_repeated:
            settings["action"] = "append"
        parser.add_argument(argument.name, **settings)
    if command.words == "history":
        parser.add_argument(
            "--follow", action="store_true", help="go on with what happens, as JSON lines, until Ctrl-C"
        )


def run_ctl(
    arguments: Sequence[str],
    environment: Mapping[str, str],
    read_token: Callable[[str], str],
    show: Callable[[str], None],
) -> None:
    """Run the command that the arguments say; `show` is given each line of the output.

    Raises UsageError, ControlError, Unreachable; whatever `read_token` raises for its file.
    """
    found, unknown = ctl_parser().parse_known_args(arguments)
    command: Command = found.command
    if unknown:
        raise UsageError(
            f"unrecognized arguments: {' '.join(unknown)}; `kshim ctl {command.words} --help` lists the options"
        )
    token = environment.get("KSHIM_CONTROL_TOKEN", "").strip() or None
    if found.token_file is not None:
        token = read_token(found.token_file)
    client = ControlClient(_url(found.url, environment), token)
    path, query, body = request_of(command, found)
    if getattr(found, "follow", False):
        for event in client.follow(f"{path}/stream", query):
            show(json.dumps(event, ensure_ascii=False))
        return
    timeout_s = float(query.get("timeout", 10.0)) if command.path.endswith("/wait") else 0.0
    document = client.ask(command.method, path, query=query, body=body, timeout_s=timeout_s)
    if command.rows is not None and command.words in ("topic list", "group list"):
        _collect_pages(client, path, command.rows, document)
    for line in shown(command, document, as_json=found.json):
        show(line)


def _url(option: str | None, environment: Mapping[str, str]) -> str:
    """Raises UsageError."""
    source, text = "--url", option
    if text is None:
        source, text = "KSHIM_CONTROL", environment.get("KSHIM_CONTROL") or DEFAULT_URL
    try:
        return control_url(text)
    except ValueError as error:
        raise UsageError(f"{source}: {error}") from None


def request_of(command: Command, found: argparse.Namespace) -> tuple[str, dict[str, Any], Any]:
    """Path, query and body of a request."""
    given = [(argument, getattr(found, argument.field)) for argument in command.arguments]
    given = [(argument, value) for argument, value in given if value is not None]
    path = command.path.format_map({argument.field: quoted(value) for argument, value in given})
    query = {argument.field: value for argument, value in given if argument.place == "query"}
    body: Any = {
        _body_field(argument): _body_value(argument, value) for argument, value in given if argument.place == "body"
    }
    record = {argument.field: value for argument, value in given if argument.place == "record"}
    if record:
        body = {"records": [record]}
    for argument, value in given:
        if argument.place == "whole":
            body = value
    return path, query, body or None


def _body_field(argument: Argument) -> str:
    return "configs" if argument.name == "--config" else argument.field


def _body_value(argument: Argument, value: Any) -> Any:
    return dict(value) if argument.type is pair else value


def _collect_pages(client: ControlClient, path: str, rows: str, document: Any) -> None:
    """Put the rows of all further pages into the first one."""
    after = document.get("next")
    while after is not None:
        page = client.ask("GET", path, query={"after": after})
        document[rows] += page[rows]
        after = page["next"]
    document["next"] = None


def shown(command: Command, document: Any, *, as_json: bool) -> list[str]:
    """The lines of the output."""
    if as_json:
        return [json.dumps(document, ensure_ascii=False, indent=2)] if document is not None else []
    if not isinstance(document, dict):
        return [] if document is None else str(document).rstrip("\n").split("\n")
    if command.text:
        return [line for name in command.text for line in (*str(document[name]).split("\n"), "")][:-1]
    if command.rows is None:
        return lines(document)
    return table(document[command.rows], command.columns)
