"""TLS listeners, from Kafka's keys to answered requests, with the certificates of an authority made here."""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import trio
import trio.testing

from integration.support.certificates import Authority
from kshim.broker.connection import ANONYMOUS, ConnectionClosing
from kshim.config.broker_config import BrokerConfig, ConfigError
from kshim.config.listeners import Listener
from kshim.server.limits import ServerLimits
from kshim.server.server import LoopName
from kshim.server.tls import HANDSHAKE_MAX_BYTES, TlsTransportLayer
from kshim.server.tls_context import tls_context
from tests.server.harness import ObeyingRouter, Running, framed, serving

AUTHORITY = Authority()
SSL = Listener("SSL", "SSL", "127.0.0.1", 0)
SASL_SSL = Listener("OUTER", "SASL_SSL", "127.0.0.1", 0)


@pytest.fixture
def keys(tmp_path: Path) -> dict[str, str]:
    """The configuration of a server whose clients may show a certificate of the authority."""
    truststore = tmp_path / "authority.pem"
    truststore.write_text(AUTHORITY.certificate_pem)
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(AUTHORITY.server().write(tmp_path / "server.pem")),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(truststore),
        "ssl.client.auth": "requested",
    }


def transport_layers(keys: dict[str, str], listener: Listener = SSL) -> Callable[[], TlsTransportLayer]:
    context = tls_context(BrokerConfig(keys), listener)
    return lambda: TlsTransportLayer(context)


@contextlib.asynccontextmanager
async def tls_client(running: Running, context: ssl.SSLContext | None = None) -> AsyncIterator[trio.SSLStream]:  # type: ignore[type-arg]
    async with await trio.open_tcp_stream("127.0.0.1", running.server.port) as tcp:
        context = context or AUTHORITY.client_context()
        yield trio.SSLStream(tcp, context, server_hostname="localhost")


async def ask(stream: trio.SSLStream, body: bytes) -> bytes:  # type: ignore[type-arg]
    await stream.send_all(framed(body))
    received = b""
    while len(received) < 4 or len(received) < 4 + int.from_bytes(received[:4]):
        more = await stream.receive_some()
        assert more, "the server closed"
        received += more
    return received[4:]


async def principal_of(loop: LoopName, keys: dict[str, str], context: ssl.SSLContext, listener: Listener = SSL) -> str:
    async with (
        serving(
            router := ObeyingRouter(),
            loop=loop,
            make_transport_layer=transport_layers(keys, listener),
            listeners=(listener,),
        ) as running,
        tls_client(running, context) as stream,
    ):
        await stream.send_all(framed(b"park"))
        await router.until(lambda: b"park" in router.parked)
        return router.parked[b"park"].principal


@pytest.mark.trio
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_requests_are_answered_in_both_versions(
    loop: LoopName, keys: dict[str, str], version: ssl.TLSVersion
) -> None:
    context = AUTHORITY.client_context()
    context.minimum_version = context.maximum_version = version
    async with (
        serving(ObeyingRouter(), loop=loop, make_transport_layer=transport_layers(keys)) as running,
        tls_client(running, context) as stream,
    ):
        assert await ask(stream, b"echo") == b"echo"
        assert await ask(stream, b"echo" + bytes(1 << 20)) == b"echo" + bytes(1 << 20)
        assert await ask(stream, b"pieces 512000") == bytes(range(256)) * 2000


@pytest.mark.parametrize("text", ["TLSv1", "TLSv1.2,SSLv3"])
def test_old_versions_cannot_be_asked_for(keys: dict[str, str], text: str) -> None:
    with pytest.raises(ConfigError, match=r"TLSv1\.2, TLSv1\.3 or both"):
        tls_context(BrokerConfig({**keys, "ssl.enabled.protocols": text}), SSL)


@pytest.mark.trio
async def test_only_the_enabled_version_is_spoken(loop: LoopName, keys: dict[str, str]) -> None:
    context = AUTHORITY.client_context()
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    keys["ssl.enabled.protocols"] = "TLSv1.3"
    async with serving(ObeyingRouter(), loop=loop, make_transport_layer=transport_layers(keys)) as running:
        async with tls_client(running, context) as stream:
            with pytest.raises(trio.BrokenResourceError):
                await stream.do_handshake()
        assert running.log.closings == [("/127.0.0.1", "TLS: unsupported protocol")]


@pytest.mark.trio
async def test_the_subject_of_a_clients_certificate_is_its_principal(
    loop: LoopName, keys: dict[str, str], tmp_path: Path
) -> None:
    shown = AUTHORITY.client_context(AUTHORITY.signs("alice, the first"), tmp_path)
    assert await principal_of(loop, keys, shown) == r"User:CN=alice\, the first"
    assert await principal_of(loop, keys, AUTHORITY.client_context()) == ANONYMOUS


@pytest.mark.trio
async def test_on_a_sasl_listener_a_certificate_says_nothing_of_the_principal(
    loop: LoopName, keys: dict[str, str], tmp_path: Path
) -> None:
    shown = AUTHORITY.client_context(AUTHORITY.signs("alice"), tmp_path)
    keys["listener.name.outer.ssl.client.auth"] = "required"
    assert await principal_of(loop, keys, shown, SASL_SSL) == ANONYMOUS


def test_a_sasl_listener_asks_for_certificates_only_under_its_own_prefix(keys: dict[str, str]) -> None:
    keys["ssl.client.auth"] = "required"
    assert tls_context(BrokerConfig(keys), SSL).verify_mode == ssl.CERT_REQUIRED
    assert tls_context(BrokerConfig(keys), SASL_SSL).verify_mode == ssl.CERT_NONE
    keys["listener.name.outer.ssl.client.auth"] = "requested"
    assert tls_context(BrokerConfig(keys), SASL_SSL).verify_mode == ssl.CERT_OPTIONAL


@pytest.mark.trio
@pytest.mark.parametrize("who", ["nobody", "a stranger"])
async def test_where_a_certificate_is_required_others_are_not_served(
    loop: LoopName, keys: dict[str, str], tmp_path: Path, who: str
) -> None:
    keys["ssl.client.auth"] = "required"
    context = AUTHORITY.client_context()
    if who == "a stranger":
        context.load_cert_chain(Authority("another").signs("alice").write(tmp_path / "stranger.pem"))
    async with serving(router := ObeyingRouter(), loop=loop, make_transport_layer=transport_layers(keys)) as running:
        async with tls_client(running, context) as stream:
            with pytest.raises(trio.BrokenResourceError):  # in TLS 1.3 the client hears of it only after its handshake
                await ask(stream, b"echo")
        ((_, reason),) = running.log.closings
    expected = "peer did not return a certificate" if who == "nobody" else "certificate verify failed: "
    assert reason.startswith(f"TLS: {expected}")
    assert router.frames == []


@pytest.mark.trio
async def test_the_server_says_that_it_ends(loop: LoopName, keys: dict[str, str]) -> None:
    async with (
        serving(ObeyingRouter(), loop=loop, make_transport_layer=transport_layers(keys)) as running,
        tls_client(running) as stream,
    ):
        await ask(stream, b"echo")
        running.server.stop()
        assert await stream.receive_some() == b""  # close_notify; a bare end of the stream would raise


@pytest.mark.trio
async def test_a_client_that_says_that_it_ends_is_not_waited_for(loop: LoopName, keys: dict[str, str]) -> None:
    async with (
        serving(router := ObeyingRouter(), loop=loop, make_transport_layer=transport_layers(keys)) as running,
        await trio.open_tcp_stream("127.0.0.1", running.server.port) as tcp,
    ):
        stream = trio.SSLStream(tcp, AUTHORITY.client_context(), server_hostname="localhost", https_compatible=True)
        await ask(stream, b"echo")
        await stream.unwrap()  # the connection below stays open
        await router.until(lambda: len(router.closed_connections) == 1)


@pytest.mark.trio
async def test_a_half_handshake_is_cut_off_after_its_time(loop: LoopName, keys: dict[str, str]) -> None:
    limits = ServerLimits(authentication_max_ms=5_000)
    async with serving(
        router := ObeyingRouter(), loop=loop, make_transport_layer=transport_layers(keys), limits=limits
    ) as running:
        async with tls_client(running) as good, running.client() as bad:
            await ask(good, b"echo")
            bad.send(b"\x16\x03\x01\x02\x00\x01")
            await trio.testing.wait_all_tasks_blocked()
            running.clock.advance(4_999)
            await trio.testing.wait_all_tasks_blocked()
            assert running.log.closings == []
            running.clock.advance(1)
            assert await bad.receive_end() == b""
            assert running.log.closings == [("/127.0.0.1", "the TLS handshake took more than 5000 ms")]
            running.clock.advance(60_000)
            assert await ask(good, b"echo") == b"echo"
        await router.until(lambda: len(router.closed_connections) == 2)


@pytest.mark.trio
async def test_a_sasl_client_that_never_authenticates_is_cut_off_too(loop: LoopName, keys: dict[str, str]) -> None:
    limits = ServerLimits(authentication_max_ms=5_000)
    async with serving(
        ObeyingRouter(),
        loop=loop,
        make_transport_layer=transport_layers(keys, SASL_SSL),
        limits=limits,
        listeners=(SASL_SSL,),
    ) as running:
        async with tls_client(running) as stream:
            await ask(stream, b"echo")
            running.clock.advance(5_000)
            assert await stream.receive_some() == b""
        assert running.log.closings == [("/127.0.0.1", "authentication took more than 5000 ms")]


def test_a_handshake_without_end_is_cut_off_by_its_bytes(keys: dict[str, str]) -> None:
    transport_layer = transport_layers(keys)()
    # The largest ClientHello that OpenSSL takes, four bytes a record: more than twice as many bytes on the wire.
    stream = b"\x16\x03\x01\x00\x04\x01\x01\xff\x00" + b"\x16\x03\x01\x00\x04\0\0\0\0" * 32_000
    assert len(stream) > HANDSHAKE_MAX_BYTES
    assert transport_layer.receive(stream[:HANDSHAKE_MAX_BYTES]) == b""
    with pytest.raises(ConnectionClosing, match="the handshake has more than 262144 bytes"):
        transport_layer.receive(stream[HANDSHAKE_MAX_BYTES:])


@pytest.mark.trio
async def test_plain_text_on_a_tls_listener_is_named_in_the_log(loop: LoopName, keys: dict[str, str]) -> None:
    async with serving(router := ObeyingRouter(), loop=loop, make_transport_layer=transport_layers(keys)) as running:
        async with running.client() as client:
            client.send(framed(b"\0\x12\0\3\0\0\0\1\0\1a\0\0"))
            assert await client.receive_end() == b""
        async with running.client() as client:
            client.send(b"GET / HTTP/1.1\r\n\r\n")
            await client.receive_end()
        reasons = [reason for _, reason in running.log.closings]
        assert all(reason.endswith("this listener speaks TLS only") for reason in reasons)
        assert len(reasons) == 2
        assert router.frames == []


@pytest.mark.trio
async def test_tls_on_a_plain_listener_is_named_in_the_log(loop: LoopName) -> None:
    async with serving(router := ObeyingRouter(), loop=loop) as running:
        async with tls_client(running) as stream:
            with pytest.raises(trio.BrokenResourceError):
                await stream.do_handshake()
        ((_, reason),) = running.log.closings
        assert reason.endswith("which is the start of a TLS handshake; this listener does not use TLS")
        assert router.frames == []


@pytest.mark.trio
async def test_many_connections_speak_at_once(loop: LoopName, keys: dict[str, str]) -> None:
    async with serving(router := ObeyingRouter(), loop=loop, make_transport_layer=transport_layers(keys)) as running:
        async with trio.open_nursery() as nursery:

            async def one(number: int) -> None:
                async with tls_client(running) as stream:
                    for turn in range(5):
                        body = b"echo %d %d " % (number, turn) + bytes(number * 3_000)
                        assert await ask(stream, body) == body

            for number in range(30):
                nursery.start_soon(one, number)
        assert len(router.frames) == 150


class TestKeys:
    """What the keys may hold."""

    def test_pem_may_stand_in_the_configuration_itself_and_in_one_line(self) -> None:
        server = AUTHORITY.server()
        keys = {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.key": server.key_pem("secret").replace("\n", " "),
            "ssl.keystore.certificate.chain": (server.certificate_pem + AUTHORITY.certificate_pem).replace("\n", ""),
            "ssl.key.password": "secret",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.certificates": AUTHORITY.certificate_pem.replace("\n", " "),
            "ssl.client.auth": "required",
        }
        assert tls_context(BrokerConfig(keys), SSL).cert_store_stats()["x509"] == 1

    def test_a_listeners_own_key_goes_before_the_common_one(self, keys: dict[str, str], tmp_path: Path) -> None:
        keys["listener.name.ssl.ssl.keystore.location"] = keys["ssl.keystore.location"]
        keys["ssl.keystore.location"] = str(tmp_path / "not there")
        tls_context(BrokerConfig(keys), SSL)
        with pytest.raises(ConfigError, match="No such file"):
            tls_context(BrokerConfig(keys), SASL_SSL)

    @pytest.mark.parametrize("password", [None, "wrong"])
    def test_an_encrypted_key_needs_its_password(
        self, keys: dict[str, str], tmp_path: Path, password: str | None
    ) -> None:
        keys["ssl.keystore.location"] = str(AUTHORITY.server().write(tmp_path / "locked.pem", "secret"))
        tls_context(BrokerConfig({**keys, "ssl.key.password": "secret"}), SSL)
        if password is not None:
            keys["ssl.key.password"] = password
        with pytest.raises(ConfigError, match="a private key and its certificate") as refused:
            tls_context(BrokerConfig(keys), SSL)
        assert "wrong" not in str(refused.value)

    @pytest.mark.parametrize(
        ("key", "value", "expected"),
        [
            ("ssl.keystore.type", "JKS", "PEM"),
            ("ssl.keystore.location", "", "ssl.keystore.location: expected"),
            ("ssl.truststore.location", "", "a truststore with it"),
            ("ssl.truststore.type", "PKCS12", "PEM"),
            ("ssl.keystore.key", "-----BEGIN", "either this or"),
            ("ssl.principal.mapping.rules", "RULE:^CN=(.*)$/$1/", "DEFAULT"),
        ],
    )
    def test_what_cannot_work_is_refused_at_the_start(
        self, keys: dict[str, str], key: str, value: str, expected: str
    ) -> None:
        with pytest.raises(ConfigError, match=expected):
            tls_context(BrokerConfig({**keys, key: value}), SSL)

    def test_a_key_of_another_certificate_is_refused(self, keys: dict[str, str], tmp_path: Path) -> None:
        path = tmp_path / "mixed.pem"
        path.write_text(AUTHORITY.server().key_pem() + AUTHORITY.server().certificate_pem)
        keys["ssl.keystore.location"] = str(path)
        with pytest.raises(ConfigError, match="key values mismatch"):
            tls_context(BrokerConfig(keys), SSL)

    def test_no_secret_is_ever_in_a_message(self) -> None:
        for name in ("ssl.key.password", "ssl.keystore.key", "listener.name.x.plain.sasl.jaas.config"):
            assert "hush" not in str(ConfigError(name, "hush", "something else"))
