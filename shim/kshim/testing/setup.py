"""What brokers for tests are started from: checked once, and used for each start and reset."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from functools import cache, lru_cache
from os import PathLike, fspath
from typing import TYPE_CHECKING

from kshim.config.broker_config import BrokerConfig, ConfigError, known_key, unknown_key
from kshim.config.listeners import Listener, SecurityProtocol
from kshim.config.security_keys import SECURITY_KEYS
from kshim.scheduling.clock_rate import clock_rate
from kshim.testing.arguments import (
    check_text,
    checked_configuration,
    checked_control,
    checked_directory,
    checked_topics,
    checked_users,
)

if TYPE_CHECKING:
    from kshim.broker.cluster import Cluster
    from kshim.broker.router import Router
    from kshim.security.authorizer.model import AclRule
    from kshim.server.transport_layer import TransportLayer
    from kshim.testing.authority import CaFile

_ACCESS_KEYS = frozenset({"authorizer.class.name", "controller.listener.names"})
"""Of the keys of listeners and security those that do not depend on a listener."""
_SASL_KEYS = frozenset(
    {"sasl.enabled.mechanisms", "connections.max.reauth.ms", "connection.failed.authentication.delay.ms"}
)
"""Those that may be given with users."""

_LOG = logging.getLogger("kshim")


class Setup:
    """Raises ConfigError; TypeError and ValueError for an argument that cannot be used; RuntimeError for TLS without its extra.

    `ca_pem` is what clients have to trust, None without TLS.
    """

    def __init__(
        self,
        count: int,
        *,
        topics: Mapping[str, int] | None = None,
        users: Mapping[str, str] | None = None,
        tls: bool = False,
        acls: Mapping[str, str | Iterable[str]] | None = None,
        config: Mapping[str, str] | None = None,
        data_dir: str | PathLike[str] | None = None,
        clock: str = "real",
        record: str | PathLike[str] | None = None,
        control: bool | str = False,
    ) -> None:
        self.count = count
        self.control = checked_control(control)
        self.record = None if record is None else fspath(record)
        self.topics = checked_topics(topics)
        self.users = checked_users(users)
        self.data_dir = checked_directory(data_dir)
        check_text("clock", clock)
        self.clock_rate = clock_rate(clock)
        given = checked_configuration("config", config)
        _refuse_listeners(given, has_users=bool(self.users))
        self.rules: list[AclRule] = []
        if acls is not None:
            given |= self._access(acls, given)
        self.ca_pem: str | None = None
        self._ca_file: CaFile | None = None
        if tls:
            given |= self._identity()
        protocol: SecurityProtocol = (
            ("SASL_SSL" if tls else "SASL_PLAINTEXT") if self.users else ("SSL" if tls else "PLAINTEXT")
        )
        self.listener = Listener(protocol, protocol, "127.0.0.1", 0)
        self.config = BrokerConfig(given)
        for key in given:
            if known_key(key) is None:
                raise ValueError(f"config: {unknown_key(key)}")
        self.transport_layers: Mapping[str, Callable[[], TransportLayer]] = {}
        if tls:
            from kshim.server.tls_context import tls_transport_layers

            self.transport_layers = tls_transport_layers((self.listener,), self.config)
        for warning in self.config.warnings:
            _LOG.warning(warning)

    def _access(self, acls: Mapping[str, str | Iterable[str]], given: Mapping[str, str]) -> dict[str, str]:
        from kshim.security.authorizer.authorizer import STANDARD_AUTHORIZER
        from kshim.testing.acls import parse_acls

        super_users, self.rules = parse_acls(acls, self.users)
        super_users = [*filter(None, [given.get("super.users")]), *super_users]
        return {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": ";".join(super_users)}

    def _identity(self) -> dict[str, str]:
        from kshim.testing.authority import authority

        found = authority()
        self.ca_pem = found.ca_pem
        return {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.key": found.key_pem,
            "ssl.keystore.certificate.chain": found.chain_pem,
        }

    @property
    def why_no_reset(self) -> str | None:
        """Why brokers of this kind cannot be reset; None: they can."""
        if self.data_dir is not None:
            return "reset() needs brokers that keep everything in memory: leave data_dir out"
        if self.record is not None:
            return "reset() is not possible while a recording is written: leave record out"
        return None

    @property
    def ca_file(self) -> str | None:
        """A file with `ca_pem`, made when first asked for; `close` removes it."""
        if self.ca_pem is None:
            return None
        if self._ca_file is None:
            from kshim.testing.authority import CaFile

            self._ca_file = CaFile(self.ca_pem)
        return self._ca_file.path

    def close(self) -> None:
        """Nothing starts from this any more."""
        if self._ca_file is not None:
            self._ca_file.remove()

    def secure(self, cluster: Cluster, routers: Iterable[Router]) -> None:
        """Have the routers authenticate their clients, and the cluster know its rules, as was asked for."""
        if self.rules:
            assert cluster.authorizer is not None
            cluster.authorizer.change(add=self.rules)
        if not self.users:
            return
        from kshim.broker.sasl_authenticator import SaslAuthenticator
        from kshim.security.authentication.settings import Randomness, sasl_listeners
        from kshim.security.authentication.users_file import UserLine
        from kshim.server.random_ids import new_nonce

        lines = [UserLine(user, password) for user, password in self.users.items()]
        found = sasl_listeners(
            self.config,
            [self.listener.name],
            lines,
            cluster.scram_credentials,
            Randomness(_salt_of_this_process, new_nonce),
            salted=_salted,
        )
        for router in routers:
            SaslAuthenticator(router, found)


@cache
def _salt_of_this_process() -> bytes:
    """One for all passwords, so that each is salted once, and not in each start and reset at a millisecond a mechanism."""
    from kshim.server.random_ids import new_salt

    return new_salt()


@lru_cache
def _salted(mechanism: str, password: str, salt: bytes, iterations: int) -> bytes:
    from kshim.security.authentication.scram import salted_password

    return salted_password(mechanism, password, salt, iterations)


def _refuse_listeners(given: Mapping[str, str], *, has_users: bool) -> None:
    """Raises ConfigError."""
    for key, value in given.items():
        if key in _ACCESS_KEYS or (has_users and key in _SASL_KEYS):
            continue
        if key.startswith("listener.name.") or key in SECURITY_KEYS:
            raise ConfigError(
                key,
                value,
                "the key to be left out: brokers for tests listen on 127.0.0.1, with users= for SASL and tls=True",
            )
