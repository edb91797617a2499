"""What `KSHIM_*` variables say: options of `kshim serve`, and any of Kafka's configuration keys."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping

from kshim.cli.addresses import is_wildcard
from kshim.cli.exit_codes import EXIT_USAGE, CommandError

_PREFIX = "KSHIM_"
_CONFIG_PREFIX = "KSHIM_CONFIG_"
_FLAGS = {"1": True, "true": True, "0": False, "false": False}


class Given:
    """The options of one command line, and for those it does not name, variables; empty ones count as not set."""

    def __init__(self, found: Namespace, environment: Mapping[str, str]) -> None:
        self._found = vars(found)
        self._environment = environment

    def name(self, option: str) -> str:
        """What the user wrote: `--data-dir`, or `KSHIM_DATA_DIR` where only the variable is set."""
        return _variable(option) if self.is_of_environment(option) else option

    def is_of_environment(self, option: str) -> bool:
        """Whether the command line leaves this to its variable, which is set."""
        return self._found[_attribute(option)] is None and bool(self._environment.get(_variable(option)))

    def text(self, option: str) -> str | None:
        """The value, None where there is none or an empty one."""
        text: str | None = self._found[_attribute(option)]
        return (self._environment.get(_variable(option)) if text is None else text) or None

    def values(self, option: str) -> list[str]:
        """The values of an option that may be repeated; a variable separates them by commas."""
        texts: list[str] | None = self._found[_attribute(option)]
        if texts is None:
            texts = self._environment.get(_variable(option), "").split(",")
        return [text for text in texts if text]

    def flag(self, option: str) -> bool:
        """Whether an option without a value is given, and not as `--no-...`. Raises CommandError (usage)."""
        if not self.is_of_environment(option):
            return bool(self._found[_attribute(option)])
        text = self._environment[_variable(option)]
        if text.lower() not in _FLAGS:
            raise CommandError(f"{_variable(option)} must be true or false, not {text!r}", EXIT_USAGE)
        return _FLAGS[text.lower()]

    def is_denied(self, option: str) -> bool:
        """Whether the command line has `--no-...` of an option without a value."""
        return self._found[_attribute(option)] is False

    def warnings(self) -> list[str]:
        """A sentence for each variable that looks as if it were meant to be an option's. Others are not ours."""
        known = {_variable("--" + name.replace("_", "-")): "" for name in self._found if name != "command"}
        known[_CONFIG_PREFIX.rstrip("_")] = "_ and the name of a key"
        unknown = sorted(
            name
            for name in self._environment
            if name.startswith(_PREFIX) and not name.startswith(_CONFIG_PREFIX) and (name not in known or known[name])
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

    def count(self, option: str) -> int:
        """How often an option without a value is given; a variable says how often, or true for once.

        Raises CommandError (usage).
        """
        if not self.is_of_environment(option):
            return self._found[_attribute(option)] or 0
        text = self._environment[_variable(option)]
        if text.isascii() and text.isdigit() and len(text) < 3:
            return int(text)
        return int(self.flag(option))


def _attribute(option: str) -> str:
    return option.removeprefix("--").replace("-", "_")


def _variable(option: str) -> str:
    return _PREFIX + ("TOPICS" if option == "--topic" else _attribute(option).upper())


def configuration_of(environment: Mapping[str, str]) -> dict[str, str]:
    """Kafka's keys that `KSHIM_CONFIG_*` variables set; empty ones count as not set.

    Raises CommandError (usage) for an unknown key or a bad value.
    As in Kafka's own image, `_` stands for a dot, `__` for an underscore and `___` for a hyphen.

    >>> configuration_of({"KSHIM_CONFIG_GROUP_MAX_SIZE": "3", "KSHIM_CONFIG_LISTENER_NAME_SASL__SSL_SSL_CLIENT_AUTH": "none"})
    {'group.max.size': '3', 'listener.name.sasl_ssl.ssl.client.auth': 'none'}
    """
    variables = [name for name, value in environment.items() if name.startswith(_CONFIG_PREFIX) and value]
    return {_key_of(variable, environment[variable]): environment[variable] for variable in variables}


def _key_of(variable: str, text: str) -> str:
    from kshim.config.broker_config import ConfigError, known_key, nearest_key, parse_value

    name = variable.removeprefix(_CONFIG_PREFIX).lower()
    for underscores, character in (("___", "-"), ("__", "\0"), ("_", "."), ("\0", "_")):
        name = name.replace(underscores, character)
    key = known_key(name)
    if key is None:
        near = nearest_key(name)
        hint = f"; did you mean {_variable_of_key(near)}?" if near else ""
        raise CommandError(f"{variable}: {name} is not a configuration key of Kafka{hint}", EXIT_USAGE)
    try:
        parse_value(key, text)
    except ConfigError as error:
        raise CommandError(f"{variable}: bad configuration value: {error}", EXIT_USAGE) from None
    return name


def _variable_of_key(key: str) -> str:
    for character, underscores in (("_", "__"), ("-", "___"), (".", "_")):
        key = key.replace(character, underscores)
    return _CONFIG_PREFIX + key.upper()


def listener_of(environment: Mapping[str, str]) -> str:
    """`HOST:PORT` where a client on this machine finds the first listener that variables ask for, or else the default.

    >>> listener_of({"KSHIM_LISTEN": "0.0.0.0:9093"})
    '127.0.0.1:9093'
    """
    first = environment.get(_CONFIG_PREFIX + "LISTENERS", "").split(",")[0].rpartition("://")[2]
    host, _, port = (first or environment.get(_variable("--listen")) or "127.0.0.1:9092").strip().rpartition(":")
    return f"{'127.0.0.1' if is_wildcard(host.strip('[]')) else host}:{port}"
