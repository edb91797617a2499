"""Kafka's keys for listeners, read as Kafka reads them."""

from __future__ import annotations

import pytest
from py4j.protocol import Py4JJavaError

from integration.support.jvm import Jvm
from kshim.config.broker_config import BrokerConfig, ConfigError
from kshim.config.listeners import Listener, client_auth_of, listeners_of

PLAIN = Listener("PLAINTEXT", "PLAINTEXT", "127.0.0.1", 9092)


def found(listeners: str, **keys: str) -> tuple[Listener, ...]:
    given = {"listeners": listeners, **{name.replace("_", "."): value for name, value in keys.items()}}
    return listeners_of(BrokerConfig(given))


def test_each_listener_has_a_name_an_address_and_the_protocol_of_its_name() -> None:
    inner, outer = found("PLAINTEXT://127.0.0.1:9092, ssl://[::1]:9093")
    assert inner == PLAIN
    assert outer == Listener("SSL", "SSL", "::1", 9093)


def test_names_of_ones_own_take_their_protocol_from_the_map() -> None:
    inner, outer = found(
        "INNER://:9092,Outer://0.0.0.0:9093",
        listener_security_protocol_map="inner:PLAINTEXT, OUTER:sasl_ssl",
        advertised_listeners="OUTER://broker.example:443",
    )
    assert inner == Listener("INNER", "PLAINTEXT", "", 9092)
    assert outer == Listener("OUTER", "SASL_SSL", "0.0.0.0", 9093, ("broker.example", 443))
    assert [(listener.has_tls, listener.has_sasl) for listener in (inner, outer)] == [(False, False), (True, True)]


def test_those_of_a_controller_are_left_out() -> None:
    listeners = found("PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093", controller_listener_names="CONTROLLER")
    assert listeners == (PLAIN,)


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({"listeners": "127.0.0.1:9092"}, "NAME://HOST:PORT"),
        ({"listeners": "PLAINTEXT://127.0.0.1"}, "NAME://HOST:PORT"),
        ({"listeners": "PLAINTEXT://127.0.0.1:65536"}, "NAME://HOST:PORT"),
        ({"listeners": "PLAINTEXT://under_score:-1"}, "ports from 0"),
        ({"listeners": "INNER://127.0.0.1:9092"}, r"a protocol for INNER in listener\.security\.protocol\.map"),
        ({"listeners": "SSL://:1,ssl://:2"}, "unique names; SSL is repeated"),
        ({"listeners": "SSL://:1,PLAINTEXT://127.0.0.1:1"}, "unique ports; 1 is repeated"),
        ({"listeners": "SSL://:1", "controller.listener.names": "SSL"}, "at least one listener"),
        ({"advertised.listeners": "SSL://broker:1"}, r"names of listeners \(PLAINTEXT\)"),
        ({"advertised.listeners": "PLAINTEXT://0.0.0.0:1"}, "an address that clients can connect to"),
        ({"listener.security.protocol.map": "INNER"}, "NAME:PROTOCOL"),
        ({"listener.security.protocol.map": "INNER:TLS"}, "the protocols are PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"),
        ({"listener.security.protocol.map": "INNER:SSL,inner:SSL"}, "unique names"),
    ],
)
def test_what_cannot_be_is_refused_with_what_is_expected(keys: dict[str, str], expected: str) -> None:
    with pytest.raises(ConfigError, match=expected):
        listeners_of(BrokerConfig({"listeners": "PLAINTEXT://127.0.0.1:9092", **keys}))


def test_one_of_each_ip_version_may_share_a_port() -> None:
    assert len(found("PLAINTEXT://127.0.0.1:9092,SSL://[::1]:9092")) == 2
    assert len(found("PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0")) == 2


def test_clients_show_certificates_only_where_there_is_tls() -> None:
    config = BrokerConfig({"ssl.client.auth": "required"})
    assert client_auth_of(config, PLAIN) == "none"
    assert client_auth_of(config, Listener("SSL", "SSL", "", 1)) == "required"


def test_a_value_of_a_listener_goes_before_the_common_one_and_is_checked_under_its_own_name() -> None:
    config = BrokerConfig({"listener.name.inner.ssl.client.auth": "none", "ssl.client.auth": "required"})
    assert config.listener_value("ssl.client.auth", "INNER") == "none"
    assert config.listener_value("ssl.client.auth", "OUTER") == "required"
    with pytest.raises(ConfigError, match=r"^listener\.name\.inner\.ssl\.client\.auth=maybe: expected one of"):
        BrokerConfig({"listener.name.inner.ssl.client.auth": "maybe"})


def test_a_listener_may_have_its_own_number_of_connections() -> None:
    config = BrokerConfig({"listener.name.inner.max.connections": "3"})
    assert (config.own_connections_of("INNER"), config.own_connections_of("OUTER")) == (3, None)
    assert config.warnings == []
    with pytest.raises(ConfigError, match=r"^listener\.name\.inner\.max\.connections=-1: expected an integer"):
        BrokerConfig({"listener.name.inner.max.connections": "-1"}).own_connections_of("INNER")


def test_keys_with_an_effect_are_not_warned_about() -> None:
    keys = {
        "listeners": "SSL://:9092",
        "advertised.listeners": "SSL://broker:9092",
        "ssl.keystore.type": "PEM",
        "listener.name.ssl.ssl.key.password": "secret",
    }
    assert BrokerConfig(keys).warnings == []


@pytest.mark.java
@pytest.mark.parametrize(
    "text",
    [
        "PLAINTEXT://127.0.0.1:9092",
        "plaintext://:0",
        "SSL://[::1]:9093",
        "SASL_SSL://a-host.example:1,PLAINTEXT://0.0.0.0:2",
        "SSL://[fe80::1%eth0]:9093",
        "PLAINTEXT:/127.0.0.1:9092",
        "PLAINTEXT://a host:9092",
        "PLAINTEXT://a/b:9092",
        "OTHER://127.0.0.1:9092",
        "PLAINTEXT://127.0.0.1",
        "PLAINTEXT://127.0.0.1:x",
    ],
)
def test_kafka_reads_the_same(jvm: Jvm, text: str) -> None:
    try:
        ours = [(each.name, each.security_protocol, each.host, each.port) for each in found(text)]
    except ConfigError:
        ours = None
    assert ours == kafkas(jvm, text)


def kafkas(jvm: Jvm, text: str) -> list[tuple[str, str, str, int]] | None:
    """Name, protocol, host and port of each listener; None when Kafka refuses."""
    configs = jvm.classes.org.apache.kafka.network.SocketServerConfigs
    texts = jvm.classes.java.util.ArrayList()
    for part in text.split(","):
        texts.append(part)
    try:
        endpoints = configs.listenerListToEndPoints(texts, configs.DEFAULT_NAME_TO_SECURITY_PROTO)
    except Py4JJavaError:
        return None
    return [
        (each.listener(), each.securityProtocol().name(), each.host() or "", each.port()) for each in list(endpoints)
    ]
