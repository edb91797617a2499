"""Settings of a client, from a properties file as Java reads it; wrong ones are named before Spark starts."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from kshim.config.properties import parse_properties
from kshim.security.authentication.jaas import JaasEntry, parse_jaas
from kshim_pipeline.errors import EXIT_USAGE, PipelineError

PROTOCOL: Final = "security.protocol"
MECHANISM: Final = "sasl.mechanism"
JAAS: Final = "sasl.jaas.config"

_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_LOGIN_MODULES: Final = {
    "PLAIN": "PlainLoginModule",
    "SCRAM-SHA-256": "ScramLoginModule",
    "SCRAM-SHA-512": "ScramLoginModule",
    "OAUTHBEARER": "OAuthBearerLoginModule",
    "GSSAPI": "Krb5LoginModule",
}
_WITH_PASSWORD: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_OFTEN_MISTYPED: Final = (PROTOCOL, MECHANISM, JAAS, "sasl.kerberos.service.name", "ssl.truststore.location")
_LIKE: Final = 0.85
_LEFT_TO_JAVA: Final = (
    "config.providers",
    "sasl.client.callback.handler.class",
    "sasl.login.callback.handler.class",
    "sasl.login.class",
    "security.providers",
    "ssl.engine.factory.class",
)
"""Classes of the user's: what the other settings mean, and which mechanisms there are, is known to them alone."""


def client_options(file: Path | None) -> dict[str, str]:
    """Keys and values of a Java client's properties file.

    Raises PipelineError (usage): it cannot be read, or a setting is wrong; the message has its name, and no value of it
    that may be secret.
    """
    if file is None:
        return {}
    try:
        options = parse_properties(file.read_text(encoding="latin-1"))  # as Java reads them
        _check(options)
    except OSError as error:
        raise PipelineError(f"Cannot read {file}: {error.strerror}", EXIT_USAGE) from error
    except ValueError as error:
        raise PipelineError(f"{file}: {error}", EXIT_USAGE) from error
    return options


def protocol_of(options: Mapping[str, str]) -> str:
    """The security protocol, as Kafka spells it."""
    return options.get(PROTOCOL, "PLAINTEXT").strip().upper()


def is_left_to_java(options: Mapping[str, str]) -> bool:
    """Whether classes of the user's take part, so that only Java can tell what is right."""
    return any(key in options for key in _LEFT_TO_JAVA)


def login_of(options: Mapping[str, str]) -> tuple[str, str, str] | None:
    """Mechanism, user and password; None: SASL is not used, or in another way."""
    mechanism = options.get(MECHANISM, "GSSAPI").strip()
    if is_left_to_java(options) or not protocol_of(options).startswith("SASL"):
        return None
    if mechanism not in _WITH_PASSWORD or JAAS not in options:
        return None
    entry = parse_jaas(options[JAAS])
    if not _is_of(mechanism, entry) or "tokenauth" in entry.options:
        return None
    return mechanism, entry.options["username"], entry.options["password"]


def _check(options: Mapping[str, str]) -> None:
    """Raises ValueError."""
    for key in options.keys() - {*_OFTEN_MISTYPED}:
        if meant := difflib.get_close_matches(key, _OFTEN_MISTYPED, 1, _LIKE):
            raise ValueError(f"there is no setting {key}; {meant[0]} is meant")
    if is_left_to_java(options):
        return
    if (protocol := protocol_of(options)) not in _PROTOCOLS:
        raise ValueError(f"{PROTOCOL} is {protocol}, not one of {', '.join(_PROTOCOLS)}")
    if not protocol.startswith("SASL"):
        if given := [key for key in (MECHANISM, JAAS) if key in options]:
            raise ValueError(f"{given[0]} is given, but {PROTOCOL} is {protocol}: it is SASL_SSL or SASL_PLAINTEXT")
        return
    mechanism = options.get(MECHANISM, "GSSAPI").strip()
    if mechanism not in _LOGIN_MODULES:
        raise ValueError(f"{MECHANISM} is {mechanism}, not one of {', '.join(sorted(_LOGIN_MODULES))}")
    if JAAS in options:
        _check_login(mechanism, _entry(options[JAAS]))
    elif mechanism in _WITH_PASSWORD:
        raise ValueError(f"{JAAS} is missing: {MECHANISM}={mechanism} takes user and password from it")


def _entry(text: str) -> JaasEntry:
    try:
        return parse_jaas(text)
    except ValueError as error:
        raise ValueError(f"{JAAS}: {error}") from error


def _check_login(mechanism: str, entry: JaasEntry) -> None:
    if not _is_of(mechanism, entry):
        if entry.module.rpartition(".")[2] in _LOGIN_MODULES.values():
            wanted = _LOGIN_MODULES[mechanism]
            raise ValueError(f"{JAAS} has {entry.module}, but {MECHANISM} is {mechanism}, which needs {wanted}")
        return
    for name in ("username", "password") if mechanism in _WITH_PASSWORD else ():
        if name not in entry.options:
            raise ValueError(f"{JAAS} has no {name}")


def _is_of(mechanism: str, entry: JaasEntry) -> bool:
    """Whether its login module is Kafka's own for the mechanism, and not one of the user's."""
    return entry.module.rpartition(".")[2] == _LOGIN_MODULES[mechanism]
