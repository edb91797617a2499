"""How TLS is set up, by Kafka's `ssl.*` keys, from PEM.

Only imported when some listener speaks it.
"""

from __future__ import annotations

import os
import re
import ssl
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, cast

from kshim.config.broker_config import BrokerConfig, ConfigError
from kshim.config.listeners import Listener, client_auth_of
from kshim.server.tls import TlsTransportLayer, reason_of

_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_CLIENT_AUTH: Final = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
_PEM_BLOCK: Final = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----(.+?)-----END \1-----", re.DOTALL)


def tls_transport_layers(
    listeners: tuple[Listener, ...], config: BrokerConfig
) -> dict[str, Callable[[], TlsTransportLayer]]:
    """What makes the TLS of each listener that speaks it, by name. Reads the files. Raises ConfigError."""
    return {listener.name: _maker(tls_context(config, listener)) for listener in listeners if listener.has_tls}


def _maker(context: ssl.SSLContext) -> Callable[[], TlsTransportLayer]:
    return lambda: TlsTransportLayer(context)


def tls_context(config: BrokerConfig, listener: Listener) -> ssl.SSLContext:
    """The TLS of a listener as its `ssl.*` keys say.

    Kafka: DefaultSslEngineFactory. As there, ssl.client.auth of a SASL_SSL listener counts only under its own prefix.
    Raises ConfigError: not PEM, no key or certificate, a file or password that does not work, no truststore to hold
    clients' certificates against (Kafka would take Java's own).
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # as in Java, whatever is in the truststore is trusted
    context.minimum_version, context.maximum_version = _versions(config, listener)
    _load_identity(context, config, listener)
    client_auth = client_auth_of(config, listener)
    if client_auth != "none":
        trusted = _pem(config, listener, "ssl.truststore", "certificates")
        if not trusted:
            raise ConfigError(
                "ssl.client.auth", client_auth, "a truststore with it: ssl.truststore.location or .certificates"
            )
        try:
            context.load_verify_locations(cadata=_blocks(trusted, "CERTIFICATE"))
        except ssl.SSLError as error:
            raise ConfigError("ssl.truststore", None, f"certificates that can be read ({reason_of(error)})") from None
    context.verify_mode = _CLIENT_AUTH[client_auth]
    rules = config.listener_value("ssl.principal.mapping.rules", listener.name)
    if rules != "DEFAULT":
        raise ConfigError("ssl.principal.mapping.rules", str(rules), "DEFAULT, other rules are not known here")
    return context


def _versions(config: BrokerConfig, listener: Listener) -> tuple[ssl.TLSVersion, ssl.TLSVersion]:
    key = "ssl.enabled.protocols"
    names = cast("tuple[str, ...]", config.listener_value(key, listener.name))
    if not names or not set(names) <= _VERSIONS.keys():
        raise ConfigError(key, ",".join(names), "TLSv1.2, TLSv1.3 or both")
    versions = [_VERSIONS[name] for name in names]
    return min(versions), max(versions)


def _load_identity(context: ssl.SSLContext, config: BrokerConfig, listener: Listener) -> None:
    """The server's own key and certificates."""
    text = _pem(config, listener, "ssl.keystore", "certificate.chain", "key")
    if not text:
        expected = (
            f"a PEM file with the private key and certificate of the listener {listener.name}, "
            "or ssl.keystore.key and ssl.keystore.certificate.chain"
        )
        raise ConfigError("ssl.keystore.location", None, expected)
    password = cast("str | None", config.listener_value("ssl.key.password", listener.name))
    with _as_file(_blocks(text, "")) as path:
        try:
            context.load_cert_chain(path, password=password or _no_password)
        except (ssl.SSLError, _NoPassword) as error:
            reason = "ssl.key.password is missing" if isinstance(error, _NoPassword) else reason_of(error)
            location = cast("str | None", config.listener_value("ssl.keystore.location", listener.name))
            key = "ssl.keystore.location" if location else "ssl.keystore.certificate.chain"
            expected = f"a private key and its certificate for the listener {listener.name} ({reason})"
            raise ConfigError(key, location, expected) from None


def _pem(config: BrokerConfig, listener: Listener, store: str, *inline: str) -> str:
    """The PEM text of a store: that of its file, or what stands in the configuration itself; "" when there is none."""
    location = cast("str | None", config.listener_value(f"{store}.location", listener.name))
    texts = [config.listener_value(f"{store}.{name}", listener.name) for name in inline]
    if not location and not any(texts):
        return ""
    kind = config.listener_value(f"{store}.type", listener.name)
    if kind != "PEM":
        raise ConfigError(f"{store}.type", str(kind), "PEM; `openssl pkcs12 -nodes` makes it of a PKCS12 store")
    if not location:
        return "\n".join(cast("str", text) for text in texts if text)
    if any(texts):
        raise ConfigError(f"{store}.location", location, f"either this or {store}.{inline[0]}")
    try:
        with open(location, encoding="ascii", errors="replace") as file:
            return file.read()
    except OSError as error:
        raise ConfigError(f"{store}.location", location, f"a file that can be read ({error.strerror})") from None


def _blocks(text: str, kind: str) -> str:
    """The PEM blocks in `text`, all or of one kind, in lines: in a properties file all of it may stand in one line."""
    found = []
    for match in _PEM_BLOCK.finditer(text.replace("\\n", "\n")):
        label, body = match.groups()
        if not kind or label == kind:
            found.append(f"-----BEGIN {label}-----\n{_lines(body)}\n-----END {label}-----\n")
    return "".join(found)


def _lines(body: str) -> str:
    if ":" in body:  # the headers of an old encrypted key, which stand in lines of their own
        return body.strip()
    packed = "".join(body.split())
    return "\n".join(packed[at : at + 64] for at in range(0, len(packed), 64))


class _NoPassword(Exception):
    pass


def _no_password() -> str:
    raise _NoPassword  # otherwise OpenSSL would ask on the terminal


@contextmanager
def _as_file(text: str) -> Iterator[str]:
    """The path of a file that holds `text`, which only this process can read: OpenSSL takes keys from files only."""
    if hasattr(os, "memfd_create"):
        with os.fdopen(os.memfd_create("tls", os.MFD_CLOEXEC), "w") as file:
            file.write(text)
            file.flush()
            yield f"/proc/self/fd/{file.fileno()}"
        return
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "tls.pem")
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(text)
        yield path
