"""`--command-config FILE`: the properties file of Kafka's own tools, as far as it says how to connect."""

from __future__ import annotations

import os
import ssl
import tempfile
from collections.abc import Mapping
from urllib.parse import unquote, urlsplit

from kshim.cli.exit_codes import EXIT_USAGE, CommandError
from kshim.config.properties import parse_properties
from kshim.tools.client_security import MECHANISMS, OAUTHBEARER, Sasl, Security

_OPTION = "--command-config"
_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_TOKEN_URL = "sasl.oauthbearer.token.endpoint.url"


def read_command_config(path: str | None) -> Security:
    """What a file says; without one, plain text. Raises CommandError."""
    if path is None:
        return Security()
    try:
        # Kafka reads this format through Java, where it is Latin-1.
        with open(path, encoding="latin-1", newline="") as file:
            return security_of(parse_properties(file.read()))
    except OSError as error:
        raise CommandError(f"{_OPTION}: cannot read {path}: {error.strerror}", EXIT_USAGE) from None
    except ValueError as error:
        raise CommandError(f"{_OPTION}: {path}: {error}", EXIT_USAGE) from None


def security_of(properties: Mapping[str, str]) -> Security:
    """What properties say; those about other things are ignored. Raises ValueError."""
    protocol = properties.get("security.protocol", "PLAINTEXT").strip().upper()
    if protocol not in _PROTOCOLS:
        raise ValueError(f"security.protocol is {protocol}, not one of {', '.join(_PROTOCOLS)}")
    return Security(
        tls=_tls(properties) if protocol.endswith("SSL") else None,
        sasl=_sasl(properties) if protocol.startswith("SASL") else None,
    )


def _tls(properties: Mapping[str, str]) -> ssl.SSLContext:
    context = ssl.create_default_context()
    if not properties.get("ssl.endpoint.identification.algorithm", "https").strip():
        context.check_hostname = False
    trusted = _pem(properties, "ssl.truststore", "certificates")
    try:
        if trusted is not None:
            context = _with_trust(context, trusted)
        own = _pem(properties, "ssl.keystore", "certificate.chain")
        if own is not None:
            _load_own(context, f"{properties.get('ssl.keystore.key', '')}\n{own}", properties.get("ssl.key.password"))
    except ssl.SSLError as error:
        raise ValueError(f"its certificates or keys cannot be used: {error}") from None
    return context


def _with_trust(context: ssl.SSLContext, pem: str) -> ssl.SSLContext:
    """Trust these alone, as Java does: not the system's besides."""
    alone = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    alone.check_hostname = context.check_hostname
    alone.load_verify_locations(cadata=pem)
    return alone


def _load_own(context: ssl.SSLContext, pem: str, password: str | None) -> None:
    """Python takes a key from files only: this one is its owner's alone, and gone at once."""
    descriptor, name = tempfile.mkstemp(suffix=".pem")
    try:
        with open(descriptor, "w", encoding="latin-1") as file:
            file.write(pem)
        context.load_cert_chain(name, password=password or "")
    finally:
        os.unlink(name)


def _pem(properties: Mapping[str, str], store: str, inline: str) -> str | None:
    location, text = properties.get(f"{store}.location"), properties.get(f"{store}.{inline}")
    if location is None:
        return text
    kind = properties.get(f"{store}.type", "JKS").upper()
    if kind != "PEM":
        raise ValueError(
            f"{store}.type is {kind}: only PEM is supported; `keytool -importkeystore` and `openssl pkcs12` convert it"
        )
    try:
        with open(location, encoding="latin-1") as file:
            return file.read()
    except OSError as error:
        raise ValueError(f"{store}.location: cannot read {location}: {error.strerror}") from None


def _sasl(properties: Mapping[str, str]) -> Sasl:
    from kshim.security.authentication.jaas import parse_jaas

    mechanism = properties.get("sasl.mechanism", "GSSAPI").strip()
    if mechanism not in MECHANISMS:
        raise ValueError(f"sasl.mechanism is {mechanism}, not one of {', '.join(MECHANISMS)}")
    if mechanism == OAUTHBEARER:
        url = urlsplit(properties.get(_TOKEN_URL, ""))
        if url.scheme != "file" or not url.path:
            raise ValueError(
                f"OAUTHBEARER needs {_TOKEN_URL}=file:///PATH: a file with the token; others are not supported"
            )
        return Sasl(mechanism, token_file=unquote(url.path))
    text = properties.get("sasl.jaas.config")
    if text is None:
        raise ValueError(f"{mechanism} needs sasl.jaas.config with username and password")
    options = parse_jaas(text).options
    if "username" not in options or "password" not in options:
        raise ValueError("sasl.jaas.config has no username or no password")
    return Sasl(mechanism, options["username"], options["password"])
