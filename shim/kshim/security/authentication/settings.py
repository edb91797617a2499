"""From configuration and users to the SASL listeners of a broker."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from kshim.config.broker_config import BrokerConfig, ConfigError
from kshim.security.authentication.jaas import JaasEntry, parse_jaas
from kshim.security.authentication.listener import SaslListener, SaslMechanism
from kshim.security.authentication.plain import PasswordDigests, PlainServer
from kshim.security.authentication.scram import (
    MIN_ITERATIONS,
    SCRAM_MECHANISMS,
    ScramCredential,
    ScramServer,
    salted_password,
)

if TYPE_CHECKING:
    from kshim.security.authentication.credentials import ScramCredentials
    from kshim.security.authentication.mechanism import Mechanism
    from kshim.security.authentication.users_file import UserLine


PLAIN: Final = "PLAIN"
_MODULES: Final = {
    PLAIN: "org.apache.kafka.common.security.plain.PlainLoginModule",
    **dict.fromkeys(SCRAM_MECHANISMS, "org.apache.kafka.common.security.scram.ScramLoginModule"),
}
_JAAS: Final = "sasl.jaas.config"


class Randomness(NamedTuple):
    """Where secrets come from: `new_salt` gives random bytes, `new_nonce` printable ASCII without a comma."""

    new_salt: Callable[[], bytes]
    new_nonce: Callable[[], str]


def sasl_listeners(
    config: BrokerConfig,
    names: Iterable[str],
    users: Sequence[UserLine],
    credentials: ScramCredentials,
    randomness: Randomness,
    *,
    salted: Callable[[str, str, bytes, int], bytes] = salted_password,
) -> dict[str, SaslListener]:
    """The SASL listeners of these names. `users` are those of `--users`: they may log in on all of them.

    A user with a password gets a SCRAM credential for each mechanism that is enabled somewhere, at about a millisecond
    each, which `salted` takes; afterwards no password is kept. Raises ConfigError.
    """
    listeners = {name: _listener(config, name, users, credentials, randomness) for name in names}
    enabled = {mechanism for listener in listeners.values() for mechanism in listener.mechanisms}
    for line in users:
        if line.credential is not None and line.mechanism is not None:
            credentials.fixed[line.user, line.mechanism] = line.credential
        for mechanism in SCRAM_MECHANISMS:
            if line.password is not None and mechanism in enabled:
                salt = randomness.new_salt()
                key = salted(mechanism, line.password, salt, MIN_ITERATIONS)
                credentials.fixed[line.user, mechanism] = ScramCredential.of(mechanism, salt, MIN_ITERATIONS, key)
    return listeners


def _listener(
    config: BrokerConfig,
    name: str,
    users: Sequence[UserLine],
    credentials: ScramCredentials,
    randomness: Randomness,
) -> SaslListener:
    key = "sasl.enabled.mechanisms"
    enabled = cast("tuple[str, ...]", config.listener_value(key, name))
    mechanisms = {}
    has_users = bool(users)
    for mechanism in enabled:
        if mechanism not in _MODULES:
            raise ConfigError(key, ",".join(enabled), f"one or more of {', '.join(_MODULES)}")
        jaas = _jaas(config, name, mechanism)
        start: Callable[[], Mechanism]
        if mechanism == PLAIN:
            digests = PasswordDigests(randomness.new_salt())
            for user, password in _passwords(jaas, users):
                digests.add(user, password)
            has_users = has_users or len(digests) > 0
            start = partial(PlainServer, digests)
        else:
            start = partial(ScramServer, mechanism, partial(credentials.find, mechanism), randomness.new_nonce)
        mechanisms[mechanism] = SaslMechanism(mechanism, start, _max_reauth_ms(config, name, mechanism))
    if not mechanisms:
        raise ConfigError(key, "", f"one or more of {', '.join(_MODULES)}")
    delay_ms = cast("int", config.listener_value("connection.failed.authentication.delay.ms", name))
    return SaslListener(mechanisms, delay_ms, has_users)


def _passwords(jaas: JaasEntry | None, users: Iterable[UserLine]) -> Iterator[tuple[str, str]]:
    """(user, password); where both name a user the listener's own configuration counts."""
    for line in users:
        if line.password is not None:
            yield line.user, line.password
    if jaas is not None:
        yield from jaas.users().items()


def _jaas(config: BrokerConfig, listener_name: str, mechanism: str) -> JaasEntry | None:
    for key in _keys(listener_name, mechanism, _JAAS):
        text = config.given.get(key, "")
        if text.strip():
            try:
                entry = parse_jaas(text)
            except ValueError as error:
                raise ConfigError(key, text, f"a login module with its options: {error}") from None
            if entry.module != _MODULES[mechanism]:
                raise ConfigError(key, text, f"the login module {_MODULES[mechanism]}")
            return entry
    return None


def _max_reauth_ms(config: BrokerConfig, listener_name: str, mechanism: str) -> int:
    key = "connections.max.reauth.ms"
    for name in _keys(listener_name, mechanism, key):
        if config.given.get(name, "").strip():
            return int(config.given[name])
    return cast("int", config.listener_value(key, listener_name))


def _keys(listener_name: str, mechanism: str, key: str) -> tuple[str, str]:
    """Where a mechanism's own value of a key may stand."""
    own = f"{mechanism.lower()}.{key}"
    return f"listener.name.{listener_name.lower()}.{own}", own
