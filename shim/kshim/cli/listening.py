"""From options and configuration to listeners: their addresses, what they advertise, and warnings about them."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from itertools import count
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from kshim.cli.addresses import Address, is_loopback, is_wildcard
from kshim.cli.exit_codes import EXIT_USAGE, CommandError
from kshim.cli.log import Log
from kshim.cli.options import ServeOptions
from kshim.config.broker_config import BrokerConfig, ConfigError
from kshim.config.listeners import Listener, client_auth_of, listeners_of, plain_listener, with_advertised
from kshim.server.limits import ServerLimits
from kshim.server.listener import java_client_host

if TYPE_CHECKING:
    from kshim.server.transport_layer import TransportLayer


DEFAULT_ADDRESS = Address("127.0.0.1", 9092)
MAX_PORT: Final = 65_535


class Listening(NamedTuple):
    """Where and how to listen; `transport_layers` makes the TLS of the listeners that speak it, by name."""

    listeners: tuple[Listener, ...]
    transport_layers: dict[str, Callable[[], TransportLayer]]
    limits: ServerLimits


def listening_for(options: ServeOptions, config: BrokerConfig, log: Log) -> Listening:
    """What options and configuration ask for; reads the files of TLS. Raises CommandError (usage)."""
    listeners = listeners_for(options, config, log)
    return Listening(listeners, _transport_layers(listeners, config), limits_of(config, listeners))


def listeners_for(options: ServeOptions, config: BrokerConfig, log: Log) -> tuple[Listener, ...]:
    """`--listen`, or else `listeners`, or else loopback in plain text. Raises CommandError (usage)."""
    try:
        listeners = _listeners(options, config, log)
    except ConfigError as error:
        raise CommandError(f"bad configuration value: {error}", EXIT_USAGE) from None
    for listener in listeners:
        host = listener.host if listener.advertised is None else listener.advertised[0]
        if host and is_wildcard(host):
            raise CommandError(
                f"clients cannot connect to {host}: set advertised.listeners (or --advertised HOST:PORT) for the listener "
                f"{listener.name}",
                EXIT_USAGE,
            )
    node_count = options.broker_count
    last_port = max(listener.port for listener in listeners_of_node(listeners, node_count - 1, node_count))
    if last_port > MAX_PORT:
        raise CommandError(
            f"{node_count} brokers need consecutive ports, and the last would be {last_port}, above {MAX_PORT}",
            EXIT_USAGE,
        )
    return listeners


def _listeners(options: ServeOptions, config: BrokerConfig, log: Log) -> tuple[Listener, ...]:
    has_own = bool(config.given.get("listeners", "").strip())
    if has_own and options.listen is None:
        if options.advertised is not None:
            raise CommandError(
                "--advertised (or KSHIM_ADVERTISED) requires --listen; use advertised.listeners together with listeners",
                EXIT_USAGE,
            )
        return listeners_of(config)
    if has_own and any(listener.security_protocol != "PLAINTEXT" for listener in listeners_of(config)):
        raise CommandError(
            "--listen (or KSHIM_LISTEN) is a PLAINTEXT listener and conflicts with listeners; use only one of them",
            EXIT_USAGE,
        )
    listener = plain_listener(*(options.listen or DEFAULT_ADDRESS))
    if options.advertised is not None:
        listener = listener._replace(advertised=(options.advertised.host, options.advertised.port))
    elif options.listen is None:
        (listener,) = with_advertised([listener], config)
    for key, option in (("listeners", "--listen"), ("advertised.listeners", "--advertised")):
        if key in config.given and (options.listen is not None or (option == "--advertised" and options.advertised)):
            log.caution("configuration", f"{key} has no effect: {option} takes precedence")
    return (listener,)


def _transport_layers(listeners: tuple[Listener, ...], config: BrokerConfig) -> dict[str, Callable[[], TransportLayer]]:
    """What makes the TLS of the listeners that speak it, by name. Raises CommandError (usage)."""
    if not any(listener.has_tls for listener in listeners):
        return {}
    from kshim.server.tls_context import tls_transport_layers

    try:
        return {**tls_transport_layers(listeners, config)}
    except ConfigError as error:
        raise CommandError(f"bad configuration value: {error}", EXIT_USAGE) from None


def listeners_of_node(listeners: Sequence[Listener], index: int, node_count: int) -> tuple[Listener, ...]:
    """The listeners of the node that comes `index` places after the first of `node_count`: the same, at later ports.

    Ports count up by one, or by as many as it takes that no two meet. Port 0 stays 0.
    """
    places = index * _step([listener.port for listener in listeners if listener.port], node_count)
    return tuple(
        listener._replace(
            port=_later(listener.port, places),
            advertised=listener.advertised and (listener.advertised[0], _later(listener.advertised[1], places)),
        )
        for listener in listeners
    )


def _step(ports: Sequence[int], node_count: int) -> int:
    distances = {abs(one - other) for one in ports for other in ports if one != other}
    return next(step for step in count(1) if not any(far % step == 0 and far // step < node_count for far in distances))


def _later(port: int, places: int) -> int:
    return port + places if port else 0


def advertised_address(listener: Listener, bound: tuple[str, int]) -> Address:
    """The address that clients of a listener connect to. Without a host, as in Kafka, it has the machine's full name."""
    host, port = (listener.host, bound[1]) if listener.advertised is None else listener.advertised
    return Address(host or socket.getfqdn(), port or bound[1])


def caution_about(listener: Listener, bound: Address, config: BrokerConfig, log: Log) -> None:
    """Warn about what a listener that other machines can reach permits."""
    if is_loopback(bound.host):
        return
    if listener.security_protocol == "SASL_PLAINTEXT":
        log.caution(
            "not_encrypted", f"LISTENING ON {bound} WITHOUT ENCRYPTION: passwords and records can be read in transit"
        )
    elif not listener.has_sasl and client_auth_of(config, listener) != "required":
        log.caution(
            "not_loopback",
            f"LISTENING ON {bound} WITHOUT AUTHENTICATION: every client that can reach it may read, write and delete everything",
        )


def limits_of(config: BrokerConfig, listeners: Sequence[Listener]) -> ServerLimits:
    """The limits that a configuration asks for. Raises CommandError (usage)."""
    limits = ServerLimits(
        request_max_bytes=config.socket_request_max_bytes,
        max_connections=config.max_connections,
        max_connections_per_ip=config.max_connections_per_ip,
        authentication_max_ms=config.kshim_authentication_max_ms,
        slow_reader_ms=config.kshim_slow_reader_ms,
        slow_sender_ms=config.kshim_slow_sender_ms,
        unsent_total_max_bytes=config.kshim_unsent_max_bytes,
        connections_max_idle_ms=config.connections_max_idle_ms,
        listen_backlog_size=config.socket_listen_backlog_size,
    )
    if config.queued_max_request_bytes > 0:
        limits.queued_max_request_bytes = config.queued_max_request_bytes
    if "sasl.server.max.receive.size" in config.given:
        limits.unauthenticated_max_bytes = cast("int", config.listener_value("sasl.server.max.receive.size"))
    try:
        if config.max_connections_per_ip_overrides:
            limits.max_connections_per_ip_overrides = _overrides(config.max_connections_per_ip_overrides)
        counts = {listener.name: config.own_connections_of(listener.name) for listener in listeners}
        limits.listener_max_connections = {name: count for name, count in counts.items() if count is not None}
    except ConfigError as error:
        raise CommandError(f"bad configuration value: {error}", EXIT_USAGE) from None
    return limits


def follow_connection_limits(
    on_change: list[Callable[[], None]],
    limits: ServerLimits,
    config: BrokerConfig,
    listeners: Sequence[Listener],
    log: Log,
) -> None:
    """Let the numbers of connections follow the configuration: what was altered by an earlier run, and will be."""

    def follow() -> None:
        try:
            limits.take_connections_of(limits_of(config, listeners))
        except CommandError as error:  # a host that has no address by now
            log.caution("configuration", f"The limits of connections remain unchanged: {error}")

    follow()
    on_change.append(follow)


def _overrides(text: str) -> dict[str, int]:
    """`max.connections.per.ip.overrides` by the text form of addresses. Names are looked up once, as in Kafka."""
    key = "max.connections.per.ip.overrides"
    found = {}
    for pair in text.split(","):
        host, _, count = pair.strip().rpartition(":")
        if not host or not (count.isascii() and count.isdigit()):
            raise ConfigError(key, text, "HOST:COUNT, several separated by commas")
        try:
            addresses = socket.getaddrinfo(host.strip("[]"), None, type=socket.SOCK_STREAM)
        except OSError:
            raise ConfigError(key, text, f"hosts that can be resolved; {host} cannot") from None
        for *_, address in addresses:
            found[java_client_host(address)] = int(count)
    return found
