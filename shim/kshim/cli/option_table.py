"""Options of commands as rows of a table: what they are called, what they mean, and what reads their value."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from kshim.cli.addresses import Address, parse_address
from kshim.cli.environment import CONFIG_PREFIX
from kshim.cli.exit_codes import EXIT_USAGE, CommandError

Parse = Callable[[str, str], Any]
"""The value of a text, given the option or variable that it is of, for messages. Raises CommandError (usage)."""

_PREFIX = "KSHIM_"
_FLAGS = {"1": True, "true": True, "0": False, "false": False}


def as_text(_name: str, text: str) -> str:
    """The text itself."""
    return text


def address(name: str, text: str) -> Address:
    """`HOST:PORT`."""
    try:
        return parse_address(text)
    except ValueError as error:
        raise CommandError(f"{name}: {error}", EXIT_USAGE) from None


def number(least: int, most: int | None = None) -> Parse:
    """A number in a range."""
    range_ = f"of at least {least}" if most is None else f"from {least} to {most}"

    def parse(name: str, text: str) -> int:
        is_number = text.isascii() and text.isdigit() and len(text) < 20
        if not is_number or int(text) < least or (most is not None and int(text) > most):
            raise CommandError(f"{name}: {text!r} is not a number {range_}", EXIT_USAGE)
        return int(text)

    return parse


def choice(*choices: str) -> Parse:
    """One of several words."""

    def parse(name: str, text: str) -> str:
        if text not in choices:
            raise CommandError(f"{name} is {', '.join(choices[:-1])} or {choices[-1]}, not {text!r}", EXIT_USAGE)
        return text

    return parse


def time_ms(name: str, text: str) -> int:
    """A time in ISO 8601, UTC where it does not say otherwise, as ms since 1970."""
    from datetime import UTC, datetime

    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise CommandError(f"{name}: {text!r} is not a time such as 2026-11-21T10:00:00", EXIT_USAGE) from None
    return round((at if at.tzinfo is not None else at.replace(tzinfo=UTC)).timestamp() * 1_000)


def key_and_value(name: str, text: str) -> tuple[str, str]:
    """`KEY=VALUE`."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise CommandError(f"{name}: {text!r} is not KEY=VALUE", EXIT_USAGE)
    return key.strip(), value.strip()


def flag(name: str, text: str) -> bool:
    """What a variable says of an option without a value."""
    if text.lower() not in _FLAGS:
        raise CommandError(f"{name} must be true or false, not {text!r}", EXIT_USAGE)
    return _FLAGS[text.lower()]


def times(name: str, text: str) -> int:
    """How often a variable gives an option without a value: a number, or true for once."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 3 else int(flag(name, text))


_ACTIONS: Mapping[Parse, Any] = {flag: argparse.BooleanOptionalAction, times: "count"}


class Option(NamedTuple):
    """An option of a command line. Of those with `is_source` exactly one must be given. Without dashes it is an argument."""

    name: str
    help: str
    metavar: str | None = None
    """None, and no choices: the option has no value; `parse` reads its variable."""
    parse: Parse = as_text
    default: Any = None
    choices: tuple[str, ...] | None = None
    short: str | None = None
    is_repeated: bool = False
    is_required: bool = False
    is_source: bool = False
    is_optional: bool = False
    """Of an argument: it may be left out."""

    @property
    def field(self) -> str:
        """Its name in Python."""
        return self.name.removeprefix("--").replace("-", "_")

    @property
    def variable(self) -> str:
        """The environment variable that can take its place."""
        return f"{_PREFIX}{self.field.upper()}{'S' if self.name == '--topic' else ''}"


def add_options(parser: argparse.ArgumentParser, options: Iterable[Option]) -> None:
    """Let `parser` accept the options. Those that are not given are None."""
    sources: argparse._MutuallyExclusiveGroup | None = None
    for option in options:
        if option.is_source and sources is None:
            sources = parser.add_mutually_exclusive_group(required=True)
        settings: dict[str, Any] = {"help": option.help, "default": None}
        if not option.name.startswith("-"):
            settings["metavar"] = option.metavar
            if option.is_optional:
                settings["nargs"] = "?"
        elif option.metavar is None and option.choices is None:
            settings["action"] = _ACTIONS.get(option.parse, "store_true")
        else:
            settings |= {"metavar": option.metavar, "choices": option.choices, "required": option.is_required}
            settings["action"] = "append" if option.is_repeated else "store"
        names = [name for name in (option.short, option.name) if name is not None]
        (sources if option.is_source and sources is not None else parser).add_argument(*names, **settings)


class Given:
    """The values of a command line and, with an `environment`, of variables for options that it does not name.

    With an environment, empty values count as not set.
    """

    def __init__(
        self, options: Iterable[Option], found: argparse.Namespace, environment: Mapping[str, str] | None = None
    ) -> None:
        self._options = {option.field: option for option in options}
        self._found = vars(found)
        self._environment = environment or {}
        self._has_environment = environment is not None

    def name(self, field: str) -> str:
        """What the user wrote: `--data-dir`, or `KSHIM_DATA_DIR` where only the variable is set."""
        option = self._options[field]
        return option.variable if self.is_of_environment(field) else option.name

    def is_of_environment(self, field: str) -> bool:
        """Whether the command line leaves this to its variable, which is set."""
        return self._found[field] is None and bool(self._environment.get(self._options[field].variable))

    def is_denied(self, field: str) -> bool:
        """Whether the command line has `--no-...` of an option without a value."""
        return self._found[field] is False

    def warnings(self, *others: str) -> list[str]:
        """A sentence for each variable that looks as if it were meant to be an option's, or one of `others`."""
        known = dict.fromkeys((*(option.variable for option in self._options.values()), *others), "")
        known[CONFIG_PREFIX.rstrip("_")] = "_ and the name of a key"
        unknown = sorted(
            name
            for name in self._environment
            if name.startswith(_PREFIX) and not name.startswith(CONFIG_PREFIX) and (name not in known or known[name])
        )
        if not unknown:
            return []
        from difflib import get_close_matches

        names = [name.removeprefix(_PREFIX) for name in known]
        found = [(name, get_close_matches(name.removeprefix(_PREFIX), names, n=1, cutoff=0.75)) for name in unknown]
        return [
            f"{name} is not a variable of kshim and has no effect; did you mean {_PREFIX}{near[0]}{known[_PREFIX + near[0]]}?"
            for name, near in found
            if near
        ]

    def __getitem__(self, field: str) -> Any:
        """The value: a list for an option that may be repeated; its default, where it is not set.

        A variable separates several values by commas. Raises CommandError (usage).
        """
        option = self._options[field]
        value, name = self._found[field], self.name(field)
        if self.is_of_environment(field):
            value = self._environment[option.variable]
            value = [text for text in value.split(",") if text] if option.is_repeated else value
        if option.is_repeated:
            return [option.parse(name, text) for text in value or ()]
        if isinstance(value, str):
            value = option.parse(name, value) if value or not self._has_environment else None
        return option.default if value is None else value
