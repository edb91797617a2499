"""What TLS costs the server: CPU of a handshake, of a small request and its answer, and of a large answer.

    python -m bench.tls [--rounds 7]

Server and client speak through memory, in this process; only the server's side is timed. Certificates are made here,
with ECDSA P-256 and with RSA 2048. Printed: median [lowest-highest] CPU microseconds of the rounds.
"""

from __future__ import annotations

import argparse
import contextlib
import ssl
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ec, rsa

from integration.support.certificates import Authority, Identity
from kshim.server.tls import TlsTransportLayer

HANDSHAKES = 50
REQUESTS = 5_000
REQUEST = bytes(60)
LARGE = bytes(1 << 20)


class Pair:
    """Both ends of one connection. `spent_s` is the server's CPU time so far."""

    def __init__(self, server: ssl.SSLContext, client: ssl.SSLContext) -> None:
        self.spent_s = 0.0
        self.transport_layer = TlsTransportLayer(server)
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._client = client.wrap_bio(self._in, self._out, server_hostname="localhost")

    def timed(self, act: Callable[[], bytes]) -> bytes:
        began_s = time.thread_time()
        result = act()
        self.spent_s += time.thread_time() - began_s
        return result

    def shake_hands(self) -> None:
        while not self.transport_layer.is_open:
            with contextlib.suppress(ssl.SSLWantReadError):
                self._client.do_handshake()
            self._to_server()
            self._in.write(self.timed(self.transport_layer.pending))

    def ask(self, answer: bytes) -> None:
        self._client.write(REQUEST)
        self._to_server()
        self._in.write(self.timed(lambda: self.transport_layer.send(answer)))
        left = len(answer)
        while left:
            left -= len(self._client.read(1 << 16))

    def _to_server(self) -> None:
        data = self._out.read()
        self.timed(lambda: self.transport_layer.receive(data))


def contexts(identity: Identity, authority: Authority) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.TemporaryDirectory() as folder:
        server.load_cert_chain(identity.write(Path(folder) / "server.pem"))
    return server, authority.client_context()


def handshake_us(pair: tuple[ssl.SSLContext, ssl.SSLContext]) -> float:
    spent_s = 0.0
    for _ in range(HANDSHAKES):
        one = Pair(*pair)
        one.shake_hands()
        spent_s += one.spent_s
    return spent_s / HANDSHAKES * 1e6


def request_us(pair: tuple[ssl.SSLContext, ssl.SSLContext], answer: bytes, count: int) -> float:
    one = Pair(*pair)
    one.shake_hands()
    one.spent_s = 0.0
    for _ in range(count):
        one.ask(answer)
    return one.spent_s / count * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    authority = Authority()
    by_ec = contexts(authority.signs("s", hosts=["localhost"], key=ec.generate_private_key(ec.SECP256R1())), authority)
    by_rsa = contexts(authority.signs("s", hosts=["localhost"], key=rsa.generate_private_key(65_537, 2_048)), authority)
    cases: dict[str, Callable[[], float]] = {
        "handshake, ECDSA P-256": lambda: handshake_us(by_ec),
        "handshake, RSA 2048": lambda: handshake_us(by_rsa),
        "small request and answer": lambda: request_us(by_ec, REQUEST, REQUESTS),
        "answer of 1 MiB": lambda: request_us(by_ec, LARGE, 50),
    }
    results: dict[str, list[float]] = {name: [] for name in cases}
    for _ in range(rounds):
        for name, case in cases.items():
            results[name].append(case())
    for name, values in results.items():
        print(f"| {name} | {statistics.median(values):.0f} [{min(values):.0f}-{max(values):.0f}] |")


if __name__ == "__main__":
    main()
