"""From options and configuration to listeners, limits and warnings."""

from __future__ import annotations

import io
from collections.abc import Callable

import pytest

from kshim.cli.addresses import Address
from kshim.cli.exit_codes import EXIT_USAGE, CommandError
from kshim.cli.listening import (
    advertised_address,
    caution_about,
    follow_connection_limits,
    limits_of,
    listeners_for,
    listening_for,
)
from kshim.cli.log import Log
from kshim.cli.options import ServeOptions, parse_command
from kshim.config.broker_config import BrokerConfig
from kshim.config.listeners import Listener

PLAIN = Listener("PLAINTEXT", "PLAINTEXT", "127.0.0.1", 9092)


class Started:
    """What `kshim serve` makes of its arguments before it opens anything."""

    def __init__(self, *arguments: str) -> None:
        options = parse_command(["serve", *arguments], {})
        assert isinstance(options, ServeOptions)
        self.options = options
        self.config = BrokerConfig(options.config)
        self._stream = io.StringIO()
        self.log = Log(self._stream, "text", verbosity=0)

    @property
    def said(self) -> str:
        return self._stream.getvalue()

    def listeners(self) -> tuple[Listener, ...]:
        return listeners_for(self.options, self.config, self.log)


def test_nothing_said_is_loopback_in_plain_text() -> None:
    assert Started().listeners() == (PLAIN,)


def test_listeners_of_the_configuration_are_taken_where_no_option_says_otherwise() -> None:
    started = Started("--config=listeners=SSL://127.0.0.1:9093,PLAINTEXT://127.0.0.1:9092")
    assert started.listeners() == (Listener("SSL", "SSL", "127.0.0.1", 9093), PLAIN)
    assert started.said == ""


def test_an_option_goes_before_plain_listeners_of_the_configuration_and_says_so() -> None:
    started = Started("--listen=127.0.0.1:1", "--config=listeners=PLAINTEXT://127.0.0.1:9092")
    assert started.listeners() == (PLAIN._replace(port=1),)
    assert "listeners has no effect: --listen takes precedence" in started.said


def test_the_advertised_address_may_be_an_option_or_a_key() -> None:
    dialled = ("broker.example", 1234)
    assert Started("--advertised=broker.example:1234").listeners() == (PLAIN._replace(advertised=dialled),)
    key = "--config=advertised.listeners=PLAINTEXT://broker.example:1234"
    assert Started(key).listeners() == (PLAIN._replace(advertised=dialled),)
    started = Started("--advertised=other.example:1", key)
    assert started.listeners() == (PLAIN._replace(advertised=("other.example", 1)),)
    assert "advertised.listeners has no effect: --advertised takes precedence" in started.said


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--listen=127.0.0.1:1", "--config=listeners=SSL://127.0.0.1:2"], "is a PLAINTEXT listener"),
        (
            ["--advertised=a:1", "--config=listeners=PLAINTEXT://127.0.0.1:2"],
            "use advertised.listeners together with listeners",
        ),
        (["--config=listeners=PLAINTEXT://0.0.0.0:2"], "clients cannot connect to 0.0.0.0"),
        (["--config=listeners=PLAINTEXT://[::]:2"], "clients cannot connect to ::"),
        (["--config=listeners=nowhere"], "bad configuration value: listeners=nowhere"),
        (["--config=listeners=SSL://127.0.0.1:2"], "ssl.keystore.location: expected a PEM file"),
        (["--brokers=3", "--listen=127.0.0.1:65534"], "the last would be 65536, above 65535"),
        (["--config=max.connections.per.ip.overrides=a"], "HOST:COUNT"),
        (["--config=max.connections.per.ip.overrides=host.invalid:1"], "hosts that can be resolved"),
        (
            ["--config=listener.name.plaintext.max.connections=many"],
            "listener.name.plaintext.max.connections=many",
        ),
    ],
)
def test_what_cannot_be_is_a_usage_mistake(arguments: list[str], problem: str) -> None:
    started = Started(*arguments)
    with pytest.raises(CommandError) as refused:
        listening_for(started.options, started.config, started.log)
    assert problem in str(refused.value)
    assert refused.value.exit_code == EXIT_USAGE


def test_a_wildcard_with_an_advertised_address_can_be_dialled() -> None:
    started = Started(
        "--config=listeners=PLAINTEXT://0.0.0.0:9092", "--config=advertised.listeners=PLAINTEXT://broker.example:0"
    )
    (listener,) = started.listeners()
    assert advertised_address(listener, ("0.0.0.0", 9092)) == Address("broker.example", 9092)


def test_without_a_host_the_machines_name_is_advertised_as_in_kafka() -> None:
    (listener,) = Started("--config=listeners=PLAINTEXT://:0").listeners()
    address = advertised_address(listener, ("0.0.0.0", 4711))
    assert address.port == 4711
    assert address.host not in ("", "0.0.0.0")


@pytest.mark.parametrize(
    ("protocol", "host", "client_auth", "warning"),
    [
        ("PLAINTEXT", "127.0.0.1", "none", ""),
        ("PLAINTEXT", "10.0.0.1", "none", "WITHOUT AUTHENTICATION"),
        ("SSL", "10.0.0.1", "none", "WITHOUT AUTHENTICATION"),
        ("SSL", "10.0.0.1", "requested", "WITHOUT AUTHENTICATION"),
        ("SSL", "10.0.0.1", "required", ""),
        ("SASL_PLAINTEXT", "10.0.0.1", "none", "WITHOUT ENCRYPTION"),
        ("SASL_PLAINTEXT", "::1", "none", ""),
        ("SASL_SSL", "10.0.0.1", "none", ""),
    ],
)
def test_what_others_can_reach_without_saying_who_they_are_is_warned_about_loudly(
    protocol: str, host: str, client_auth: str, warning: str
) -> None:
    started = Started(f"--config=listeners={protocol}://{host}:9092", f"--config=ssl.client.auth={client_auth}")
    (listener,) = started.listeners()
    caution_about(listener, Address(host, 9092), started.config, started.log)
    assert warning in started.said
    assert bool(warning) == bool(started.said)


def test_limits_are_those_of_the_configuration() -> None:
    started = Started(
        "--config=max.connections=5",
        "--config=listener.name.plaintext.max.connections=4",
        "--config=max.connections.per.ip=3",
        "--config=max.connections.per.ip.overrides=127.0.0.1:2, [::1]:1",
        "--config=socket.request.max.bytes=1000",
        "--config=queued.max.request.bytes=2000",
        "--config=kshim.authentication.max.ms=1",
        "--config=kshim.slow.reader.ms=2",
        "--config=kshim.slow.sender.ms=3",
        "--config=kshim.unsent.max.bytes=4",
    )
    limits = limits_of(started.config, started.listeners())
    assert (limits.max_connections, limits.listener_max_connections) == (5, {"PLAINTEXT": 4})
    assert limits.max_connections_per_ip == 3
    assert limits.max_connections_per_ip_overrides == {"/127.0.0.1": 2, "/0:0:0:0:0:0:0:1": 1}
    assert (limits.request_max_bytes, limits.queued_max_request_bytes) == (1_000, 2_000)
    assert (limits.authentication_max_ms, limits.slow_reader_ms, limits.slow_sender_ms) == (1, 2, 3)
    assert limits.unsent_total_max_bytes == 4


def test_numbers_of_connections_follow_the_configuration() -> None:
    started = Started("--config=max.connections=10")
    config, listeners = started.config, started.listeners()
    limits = limits_of(config, listeners)
    on_change: list[Callable[[], None]] = []
    config.overlay({"max.connections": "20"}, {})  # what an earlier run has stored
    follow_connection_limits(on_change, limits, config, listeners, started.log)
    assert limits.max_connections == 20
    config.overlay({"max.connections.per.ip": "3", "listener.name.plaintext.max.connections": "4"}, {})
    on_change[0]()
    assert (limits.max_connections, limits.max_connections_per_ip) == (10, 3)
    assert limits.listener_max_connections == {"PLAINTEXT": 4}


def test_numbers_of_connections_stay_when_an_address_cannot_be_found() -> None:
    started = Started("--config=max.connections=10")
    config, listeners = started.config, started.listeners()
    limits = limits_of(config, listeners)
    config.overlay({"max.connections": "20", "max.connections.per.ip.overrides": "nobody.invalid:1"}, {})
    follow_connection_limits([], limits, config, listeners, started.log)
    assert limits.max_connections == 10
    assert "remain unchanged" in started.said
