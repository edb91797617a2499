"""Who may log in: the users of `--users` and of the configuration, before the broker's SASL listeners."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kshim.broker.authentication.gate import Gate
from kshim.broker.authentication.settings import Randomness, sasl_listeners
from kshim.broker.authentication.users_file import UserLine, parse_users
from kshim.broker.config import BrokerConfig, ConfigError
from kshim.cli.exits import EXIT_USAGE, CommandError
from kshim.server.identities import new_nonce, new_salt

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kshim.broker.listeners import Listener
    from kshim.broker.node import Node

__all__ = ["authenticate", "read_users"]


def authenticate(node: Node, listeners: Sequence[Listener], config: BrokerConfig, users_file: str | None) -> None:
    """Put a gate before the router of a node. Raises CommandError (usage); LogError when credentials cannot be read."""
    users = read_users(users_file) if users_file else []
    names = [listener.name for listener in listeners if listener.has_sasl]
    try:
        found = sasl_listeners(config, names, users, node.cluster.scram_credentials, Randomness(new_salt, new_nonce))
    except ConfigError as error:
        raise CommandError(f"bad configuration value: {error}", EXIT_USAGE) from None
    Gate(node, found)


def read_users(path: str) -> list[UserLine]:
    """The users of a file. Raises CommandError (usage)."""
    try:
        with open(path, encoding="utf-8") as file:
            return parse_users(file.read())
    except OSError as error:
        raise CommandError(f"--users: cannot read {path}: {error.strerror}", EXIT_USAGE) from None
    except UnicodeDecodeError:
        raise CommandError(f"--users: {path} is not UTF-8", EXIT_USAGE) from None
    except ValueError as error:
        raise CommandError(f"--users: {path}: {error}", EXIT_USAGE) from None
