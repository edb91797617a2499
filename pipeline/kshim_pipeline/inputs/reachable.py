"""Whether a cluster answers, asked before Spark starts: Java's clients take half a minute to say that it does not."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Mapping
from typing import Final

from kshim.tools.client import BrokerGone, Client
from kshim.tools.client_security import Sasl, Security
from kshim_pipeline.errors import EXIT_UNAVAILABLE, EXIT_USAGE, PipelineError
from kshim_pipeline.inputs.client_options import MECHANISM, PROTOCOL, is_left_to_java, login_of, protocol_of
from kshim_protocol.frame import ProtocolError
from kshim_protocol.messages.metadata import MetadataRequest

_TIMEOUT_S: Final = 3.0
_TIMEOUT_OF_ONE_S: Final = 1.0
"""At least, however many addresses there are: a broker may be far away."""
_METADATA_VERSION: Final = 4
"""Since Kafka 0.11."""


def require_reachable(bootstrap_servers: str, options: Mapping[str, str]) -> None:
    """Return if one of the addresses answers as a broker, and lets us in.

    Raises PipelineError: none does, or (usage) an address is malformed. That takes three seconds if they are silent, or
    a second for each of more than three. With TLS only the connection is tried: certificates, and what is said then,
    are left to Java. Where classes of the user's take part, the address must accept a connection, and no more.
    """
    end_s = time.monotonic() + _TIMEOUT_S
    addresses = [_address(text.strip()) for text in bootstrap_servers.split(",") if text.strip()]
    refused = []
    for number, (host, port) in enumerate(addresses):
        left_s = max((end_s - time.monotonic()) / (len(addresses) - number), _TIMEOUT_OF_ONE_S)
        try:
            return _try(host, port, options, left_s)
        except (OSError, UnicodeError, BrokerGone, ProtocolError) as error:
            reason = _reason(error, options).removeprefix(f"cannot connect to {host}:{port}: ")
            refused.append(f"{host}:{port}: {reason}")
    raise PipelineError(f"No broker answers at {bootstrap_servers} ({'; '.join(refused)})", EXIT_UNAVAILABLE)


def _address(text: str) -> tuple[str, int]:
    """Host and port; Java's clients ignore a protocol in front of them."""
    host, _, port = text.rpartition("://")[2].rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
        raise PipelineError(f"--bootstrap-server: {text!r} is not HOST:PORT", EXIT_USAGE)
    return host.strip("[]"), int(port)


def _try(host: str, port: int, options: Mapping[str, str], timeout_s: float) -> None:
    protocol = protocol_of(options)
    if protocol.endswith("SSL") and not is_left_to_java(options):
        with socket.create_connection((host, port), timeout=timeout_s) as connection:
            _try_tls(connection, host)
        return
    login = login_of(options)
    if is_left_to_java(options) or (protocol.startswith("SASL") and login is None):
        with socket.create_connection((host, port), timeout=timeout_s):
            return
    security = Security(sasl=None if login is None else Sasl(*login))
    client = Client(host, port, client_id="kshim-pipeline", timeout_s=timeout_s, security=security)
    try:
        client.ask(MetadataRequest(topics=()), _METADATA_VERSION)
    finally:
        client.close()


def _try_tls(connection: socket.socket, host: str) -> None:
    """Raises OSError: what answers does not speak TLS."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # nothing is said on this connection
    try:
        context.wrap_socket(connection, server_hostname=host).close()
    except ssl.SSLError as error:
        if "ALERT" not in (error.reason or ""):  # an alert is TLS: it may want a certificate of the client
            raise


def _reason(error: Exception, options: Mapping[str, str]) -> str:
    protocol = protocol_of(options)
    if isinstance(error, TimeoutError):
        return "no answer"
    if isinstance(error, ssl.SSLError | ConnectionResetError) and protocol.endswith("SSL"):
        return f"no answer in TLS, which {PROTOCOL}={protocol} asks for"
    if isinstance(error, BrokerGone) and "mechanism" in str(error):
        return f"{error}: set {MECHANISM}"
    if isinstance(error, BrokerGone) and "closed" in str(error):
        return f"it closed the connection, perhaps because its {PROTOCOL} is not {protocol}"
    return str(error.strerror or error) if isinstance(error, OSError) else str(error)
