"""HOST:PORT, as users write it."""

from __future__ import annotations

import pytest

from kshim.cli.addresses import Address, is_loopback, is_wildcard, parse_address
from kshim.cli.listening import listeners_of_node
from kshim.config.listeners import plain_listener


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("127.0.0.1:9092", "127.0.0.1", 9092),
        ("localhost:0", "localhost", 0),
        ("[::1]:9092", "::1", 9092),
        ("broker-1.example:65535", "broker-1.example", 65535),
        (" 127.0.0.1:1 ", "127.0.0.1", 1),
    ],
)
def test_an_address_is_a_host_and_a_port(text: str, host: str, port: int) -> None:
    assert parse_address(text) == (host, port)


@pytest.mark.parametrize(
    "text",
    [
        *("", "localhost", ":9092", "9092", "localhost:", "localhost:x", "localhost:-1", "localhost:65536"),
        *("localhost:٣", "::1:9092", "[]:1", "[::1]", "a b:1", "PLAINTEXT://localhost:9092", "user@host:1", "a\nb:1"),
    ],
)
def test_what_is_no_address_is_refused_with_the_text_in_the_reason(text: str) -> None:
    with pytest.raises(ValueError, match="is not") as refusal:
        parse_address(text)
    assert repr(text) in str(refusal.value)


def test_an_ipv6_address_is_printed_with_brackets() -> None:
    assert str(Address("::1", 9092)) == "[::1]:9092"
    assert str(Address("127.0.0.1", 9092)) == "127.0.0.1:9092"


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.0.1", "::1", "localhost"])
def test_loopback_is_reached_from_this_machine_only(host: str) -> None:
    assert is_loopback(host)
    assert not is_wildcard(host)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "127.example.org", "broker"])
def test_anything_else_is_not_loopback(host: str) -> None:
    assert not is_loopback(host)


@pytest.mark.parametrize(
    ("ports", "node_count", "second"),
    [
        ([9092], 3, [9093]),
        ([0], 3, [0]),
        ([9092, 9093], 3, [9094, 9095]),
        ([9092, 19092], 3, [9093, 19093]),
        ([9092, 9094], 3, [9095, 9097]),
        ([9092, 9094], 2, [9093, 9095]),
        ([9092, 0], 2, [9093, 0]),
    ],
)
def test_ports_of_further_brokers_count_up_and_never_meet(ports: list[int], node_count: int, second: list[int]) -> None:
    listeners = [plain_listener("127.0.0.1", port)._replace(advertised=("here", port)) for port in ports]
    found = [listeners_of_node(listeners, index, node_count) for index in range(node_count)]
    assert [listener.port for listener in found[0]] == ports
    assert [listener.port for listener in found[1]] == second
    assert [listener.advertised for listener in found[1]] == [("here", port) for port in second]
    fixed = [listener.port for node in found for listener in node if listener.port]
    assert len(set(fixed)) == len(fixed)
