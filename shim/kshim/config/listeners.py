"""Where a broker listens and what it speaks there: Kafka's `listeners` and the keys that go with it, read and checked.

Source: SocketServerConfigs.listenerListToEndPoints and AbstractKafkaConfig of Kafka 4.4.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Literal, NamedTuple, cast, get_args

from kshim.config.broker_config import BrokerConfig, ConfigError

ClientAuth = Literal["none", "requested", "required"]

_ENDPOINT: Final = r"(.*)://\[?([0-9a-zA-Z\-%._:]*)\]?:(-?[0-9]+)"
SecurityProtocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
_PROTOCOLS: Final[tuple[SecurityProtocol, ...]] = get_args(SecurityProtocol)
_LIST: Final = "NAME://HOST:PORT, more of them after commas"


class Listener(NamedTuple):
    """One listener. `name` is upper case; host "" means every interface, port 0 any free one.

    `advertised` is the (host, port) that clients dial, port 0 being the one bound; None: where it listens.
    """

    name: str
    security_protocol: SecurityProtocol
    host: str
    port: int
    advertised: tuple[str, int] | None = None

    @property
    def has_tls(self) -> bool:
        """Whether bytes are encrypted."""
        return self.security_protocol in ("SSL", "SASL_SSL")

    @property
    def has_sasl(self) -> bool:
        """Whether clients authenticate with SASL before anything else."""
        return self.security_protocol in ("SASL_PLAINTEXT", "SASL_SSL")


def listeners_of(config: BrokerConfig) -> tuple[Listener, ...]:
    """The listeners of a configuration, in its order, without those of a controller.

    Raises ConfigError: not NAME://HOST:PORT, a name without a protocol, a name or port twice, none left.
    """
    protocols = _protocols(config)
    controllers = {
        name.upper() for name in cast("Sequence[str]", config.listener_value("controller.listener.names") or ())
    }
    text = config.given.get("listeners")
    found = []
    for name, host, port in _endpoints(
        "listeners", cast("Sequence[str]", config.listener_value("listeners") or ()), text
    ):
        if name in controllers:
            continue
        protocol = protocols.get(name)
        if protocol is None:
            raise ConfigError("listeners", text, f"a protocol for {name} in listener.security.protocol.map")
        found.append(Listener(name, protocol, host, port))
    _check_distinct(found, text)
    return with_advertised(found, config)


def plain_listener(host: str, port: int) -> Listener:
    """What `--listen` asks for."""
    return Listener("PLAINTEXT", "PLAINTEXT", host, port)


def with_advertised(listeners: Iterable[Listener], config: BrokerConfig) -> tuple[Listener, ...]:
    """The listeners with the addresses that `advertised.listeners` gives them.

    Raises ConfigError for one of a listener that is not there, or of no single machine.
    """
    by_name = {listener.name: listener for listener in listeners}
    text = config.given.get("advertised.listeners")
    values = cast("Sequence[str]", config.listener_value("advertised.listeners") or ())
    for name, host, port in _endpoints("advertised.listeners", values, text):
        if name not in by_name:
            raise ConfigError("advertised.listeners", text, f"names of listeners ({', '.join(by_name)})")
        if host in ("0.0.0.0", "::"):
            raise ConfigError("advertised.listeners", text, f"an address that clients can connect to; {host} is not")
        if port < 0:
            raise ConfigError("advertised.listeners", text, "ports from 0 to 65535")
        by_name[name] = by_name[name]._replace(advertised=(host, port))
    return tuple(by_name.values())


def client_auth_of(config: BrokerConfig, listener: Listener) -> ClientAuth:
    """Whether clients of a listener show a certificate.

    As in Kafka, ssl.client.auth of a SASL_SSL listener counts only with its prefix, because SASL authenticates the client.
    """
    key = "ssl.client.auth"
    if not listener.has_tls or (
        listener.has_sasl and f"listener.name.{listener.name.lower()}.{key}" not in config.given
    ):
        return "none"
    return cast("ClientAuth", config.listener_value(key, listener.name))


def _endpoints(key: str, values: Sequence[str], text: str | None) -> list[tuple[str, str, int]]:
    import re  # most starts have no listener to read

    found = []
    names = set()
    for value in values:
        match = re.fullmatch(_ENDPOINT, value)
        if match is None or not match[1] or int(match[3]) > 65_535:
            raise ConfigError(key, text, _LIST)
        name = match[1].upper()
        if name in names:
            raise ConfigError(key, text, f"unique names; {name} is repeated")
        names.add(name)
        found.append((name, match[2], int(match[3])))
    return found


def _protocols(config: BrokerConfig) -> dict[str, SecurityProtocol]:
    key = "listener.security.protocol.map"
    text = str(config.listener_value(key))
    protocols: dict[str, SecurityProtocol] = {}
    for pair in text.split(","):
        name, colon, protocol_name = (part.strip().upper() for part in pair.rpartition(":"))
        protocol = next((known for known in _PROTOCOLS if known == protocol_name), None)
        if not colon or not name or protocol is None:
            raise ConfigError(
                key, text, f"NAME:PROTOCOL, several separated by commas; the protocols are {', '.join(_PROTOCOLS)}"
            )
        if name in protocols:
            raise ConfigError(key, text, f"unique names; {name} is repeated")
        protocols[name] = protocol
    return protocols


def _check_distinct(listeners: Sequence[Listener], text: str | None) -> None:
    if not listeners:
        raise ConfigError("listeners", text, "at least one listener that is not for controllers")
    ports: dict[int, Listener] = {}
    for listener in listeners:
        if listener.port < 0:
            raise ConfigError("listeners", text, "ports from 0 to 65535")
        other = ports.setdefault(listener.port, listener)
        # One of each IP version may share a port, as in Kafka (KIP-797).
        if other is not listener and listener.port and (":" in other.host) == (":" in listener.host):
            raise ConfigError("listeners", text, f"unique ports; {listener.port} is repeated")
