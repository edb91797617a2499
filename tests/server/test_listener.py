"""Binding, and addresses as Java prints them."""

from __future__ import annotations

import socket

import pytest

from kshim.server.listener import CannotBind, bind, java_client_host


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        (("127.0.0.1", 50_000), "/127.0.0.1"),
        (("::1", 50_000, 0, 0), "/0:0:0:0:0:0:0:1"),
        (("2001:db8::8a2e:370:7334", 1, 0, 0), "/2001:db8:0:0:0:8a2e:370:7334"),
        (("::ffff:10.1.2.3", 50_000, 0, 0), "/10.1.2.3"),
        (("fe80::1%eth0", 50_000, 0, 2), "/fe80:0:0:0:0:0:0:1%2"),
    ],
)
def test_a_client_host_is_written_as_java_writes_it(address: tuple[object, ...], expected: str) -> None:
    assert java_client_host(address) == expected


@pytest.mark.trio
async def test_any_free_port_may_be_asked_for() -> None:
    with await bind("127.0.0.1", 0, backlog_size=8) as sock:
        assert sock.getsockname()[1] > 0
        assert sock.getblocking() is False


@pytest.mark.trio
async def test_a_name_with_both_kinds_of_address_is_bound_to_the_ipv4_one() -> None:
    with await bind("localhost", 0, backlog_size=8) as sock:
        assert sock.getsockname()[0] == "127.0.0.1"


@pytest.mark.trio
async def test_an_ipv6_literal_is_bound() -> None:
    if not _has_ipv6():
        pytest.skip("no IPv6 here")
    with await bind("::1", 0, backlog_size=8) as sock:
        assert sock.getsockname()[0] == "::1"


@pytest.mark.trio
async def test_no_host_means_every_address() -> None:
    with await bind("", 0, backlog_size=8) as sock:
        assert sock.getsockname()[0] in ("0.0.0.0", "::")


@pytest.mark.trio
async def test_a_taken_port_names_the_address_and_the_reason() -> None:
    with await bind("127.0.0.1", 0, backlog_size=8) as sock:
        port = sock.getsockname()[1]
        with pytest.raises(CannotBind, match=rf"^cannot bind 127\.0\.0\.1:{port}: Address already in use$"):
            await bind("127.0.0.1", port, backlog_size=8)


@pytest.mark.trio
@pytest.mark.parametrize(
    ("host", "port", "address"),
    [
        ("no.such.host.invalid", 9092, "no.such.host.invalid:9092"),
        ("192.0.2.1", 9092, "192.0.2.1:9092"),  # a documentation address, nobody's own
        ("127.0.0.1", 70_000, "127.0.0.1:70000"),
        ("127.0.0.1", -1, "127.0.0.1:-1"),
        ("2001:db8::1", 9092, "[2001:db8::1]:9092"),
        ("a" * 70, 9092, "a" * 70 + ":9092"),
    ],
)
async def test_what_cannot_be_bound_is_one_kind_of_error(host: str, port: int, address: str) -> None:
    with pytest.raises(CannotBind) as caught:
        await bind(host, port, backlog_size=8)
    assert caught.value.address == address
    assert caught.value.reason


def _has_ipv6() -> bool:
    if not socket.has_ipv6:
        return False
    try:
        with socket.socket(socket.AF_INET6) as sock:
            sock.bind(("::1", 0))
    except OSError:
        return False
    return True
