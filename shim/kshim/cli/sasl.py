"""Authentication on SASL listeners, with the users of `--users` and of the configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kshim.broker.sasl_authenticator import SaslAuthenticator
from kshim.cli.exit_codes import EXIT_USAGE, CommandError
from kshim.config.broker_config import BrokerConfig, ConfigError
from kshim.security.authentication.settings import Randomness, sasl_listeners
from kshim.security.authentication.users_file import UserLine, parse_users
from kshim.server.random_ids import new_nonce, new_salt

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kshim.broker.router import Router
    from kshim.cli.log import Log
    from kshim.config.listeners import Listener


def authenticate(
    router: Router, listeners: Sequence[Listener], config: BrokerConfig, users: list[UserLine], log: Log
) -> None:
    """Require authentication on SASL listeners; warn if there are no users. Raises CommandError (usage); LogError when credentials cannot be read."""
    names = [listener.name for listener in listeners if listener.has_sasl]
    try:
        found = sasl_listeners(
            config, names, users, router.node.cluster.scram_credentials, Randomness(new_salt, new_nonce)
        )
    except ConfigError as error:
        raise CommandError(f"bad configuration value: {error}", EXIT_USAGE) from None
    if not any(listener.has_users for listener in found.values()) and not router.node.cluster.scram_credentials.users():
        names_text = ", ".join(names)
        log.caution(
            "no_users",
            f"No client can authenticate on {names_text}: define users with sasl.jaas.config or --users, or create SCRAM "
            "credentials through another listener",
        )
    SaslAuthenticator(router, found)


def read_users(path: str) -> list[UserLine]:
    """The users of a file, whether `--users` or its variable names it. Raises CommandError (usage)."""
    try:
        with open(path, encoding="utf-8") as file:
            return parse_users(file.read())
    except OSError as error:
        raise CommandError(f"cannot read {path}: {error.strerror}", EXIT_USAGE) from None
    except UnicodeDecodeError:
        raise CommandError(f"{path} is not UTF-8", EXIT_USAGE) from None
    except ValueError as error:
        raise CommandError(f"{path}: {error}", EXIT_USAGE) from None
