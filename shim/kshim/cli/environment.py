"""What `KSHIM_*` variables say besides options of `kshim serve`: any of Kafka's configuration keys."""

from __future__ import annotations

from collections.abc import Mapping

from kshim.cli.addresses import is_wildcard
from kshim.cli.exit_codes import EXIT_USAGE, CommandError

CONFIG_PREFIX = "KSHIM_CONFIG_"


def configuration_of(environment: Mapping[str, str]) -> dict[str, str]:
    """Kafka's keys that `KSHIM_CONFIG_*` variables set; empty ones count as not set.

    Raises CommandError (usage) for an unknown key or a bad value.
    As in Kafka's own image, `_` stands for a dot, `__` for an underscore and `___` for a hyphen.

    >>> configuration_of({"KSHIM_CONFIG_GROUP_MAX_SIZE": "3", "KSHIM_CONFIG_LISTENER_NAME_SASL__SSL_SSL_CLIENT_AUTH": "none"})
    {'group.max.size': '3', 'listener.name.sasl_ssl.ssl.client.auth': 'none'}
    """
    variables = [name for name, value in environment.items() if name.startswith(CONFIG_PREFIX) and value]
    return {_key_of(variable, environment[variable]): environment[variable] for variable in variables}


def _key_of(variable: str, text: str) -> str:
    from kshim.config.broker_config import ConfigError, known_key, nearest_key, parse_value

    name = variable.removeprefix(CONFIG_PREFIX).lower()
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
    return CONFIG_PREFIX + key.upper()


def listener_of(environment: Mapping[str, str]) -> str:
    """`HOST:PORT` where a client on this machine finds the first listener that variables ask for, or else the default.

    >>> listener_of({"KSHIM_LISTEN": "0.0.0.0:9093"})
    '127.0.0.1:9093'
    """
    first = environment.get(CONFIG_PREFIX + "LISTENERS", "").split(",")[0].rpartition("://")[2]
    host, _, port = (first or environment.get("KSHIM_LISTEN") or "127.0.0.1:9092").strip().rpartition(":")
    return f"{'127.0.0.1' if is_wildcard(host.strip('[]')) else host}:{port}"
