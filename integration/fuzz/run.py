"""Damaged frames of every API against a live server, on both loops, with TLS, SASL and access rules, and with three brokers.

    python -m integration.fuzz.run --frames 100000 --seed 1

prints a line for each setting: what was sent, what came of it, memory, and how long the witness waited at most.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import psutil

from integration.fuzz.clients import Attacker, Witness
from integration.fuzz.live import LiveServer
from integration.fuzz.mutations import Sample, drawn_requests, golden_requests, mutated_stream
from integration.security.secured import jaas
from integration.support.certificates import Authority
from kshim.server.server import LoopName

CONNECTIONS = 8
CHECK_EVERY = 250
DRAW_EVERY = 5_000
DRAWN_EACH = 2
PATIENCE_S = 60
MIB = 1 << 20
SETTINGS = ("epoll", "tasks", "secured", "three brokers")
CONFIG = {"connections.max.idle.ms": "20000"}
"""A client that left with requests behind a parked one is waited for no longer."""
TOPICS = {"t": 4, "u": 1, "three": 3, "witness": 1}
WITNESS, ADMIN, NOBODY = ("witness", "w"), ("admin", "a"), ("mallory", "m")


class Summary(NamedTuple):
    """What a run found. Memory is that of the process, which holds attackers and server."""

    setting: str
    frames: int
    routed: int
    refused: int
    rss_before_bytes: int
    rss_after_bytes: int
    witness_slowest_ms: float
    took_s: float
    defects: list[str]

    def __str__(self) -> str:
        return (
            f"{self.setting}: {self.frames} frames in {self.took_s:.0f} s, {self.routed} of them routed, {self.refused} "
            f"connections ended by the server, {self.rss_before_bytes / MIB:.0f} -> {self.rss_after_bytes / MIB:.0f} MiB, "
            f"slowest heartbeat of the witness {self.witness_slowest_ms:.0f} ms, {len(self.defects)} defects"
        )


def fuzz(setting: str, frames: int, seed: int) -> Summary:
    """Send that many, and check that the witness lives and that nothing is left behind. Raises AssertionError."""
    rng = random.Random(f"{setting} {seed}")
    with _server(setting) as (server, attackers):
        for attacker in attackers:
            attacker.rng = rng
        login = WITNESS if setting == "secured" else None
        nodes = {1: server.addresses["LOGIN"]} if login else server.nodes
        witness = Witness(nodes, login)
        tasks_before = server.tasks()
        rss_before_bytes, began_s = _rss_bytes(), time.monotonic()
        requests: list[Sample] = []
        for count in range(frames):
            if count % DRAW_EVERY == 0:
                requests = golden_requests() + drawn_requests(rng, DRAWN_EACH)
            rng.choice(attackers).send(mutated_stream(rng, requests))
            if count % CHECK_EVERY == 0:
                witness.check()
        for attacker in attackers:
            attacker.close()
        _wait_for_quiet(server, witness, tasks_before)
        witness.check()
        witness.close()
        routed, refused, rss_after_bytes = server.routed, server.refused, _rss_bytes()
    took_s = time.monotonic() - began_s
    return Summary(
        setting, frames, routed, refused, rss_before_bytes, rss_after_bytes, witness.slowest_ms, took_s, server.defects
    )


def _wait_for_quiet(server: LiveServer, witness: Witness, tasks_before: int) -> None:
    """Until the connections and tasks of the attackers are gone. Raises AssertionError."""
    deadline = time.monotonic() + PATIENCE_S
    while server.connections() > witness.connection_count or server.tasks() > tasks_before + witness.connection_count:
        assert time.monotonic() < deadline, f"{server.connections()} connections and {server.tasks()} tasks are left"
        witness.check()


@contextmanager
def _server(setting: str) -> Iterator[tuple[LiveServer, list[Attacker]]]:
    if setting == "secured":
        with tempfile.TemporaryDirectory() as folder, _secured(Path(folder)) as found:
            yield found
        return
    loop: LoopName = "tasks" if setting == "tasks" else "auto"
    with LiveServer(
        loop=loop, config=CONFIG, topics=TOPICS, node_count=3 if setting == "three brokers" else 1
    ) as server:
        addresses = list(server.nodes.values())
        yield server, [Attacker(addresses[i % len(addresses)], random.Random(0)) for i in range(CONNECTIONS)]


@contextmanager
def _secured(folder: Path) -> Iterator[tuple[LiveServer, list[Attacker]]]:
    """Strangers, users without rights and administrators, on plain and TLS listeners, before and after their login."""
    authority = Authority()
    config = {
        **CONFIG,
        "listeners": "PLAIN://127.0.0.1:0,LOGIN://127.0.0.1:0,TLS://127.0.0.1:0,TLSLOGIN://127.0.0.1:0",
        "listener.security.protocol.map": "PLAIN:PLAINTEXT,LOGIN:SASL_PLAINTEXT,TLS:SSL,TLSLOGIN:SASL_SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(authority.server().write(folder / "server.pem")),
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:witness;User:admin",
        "connection.failed.authentication.delay.ms": "0",
    }
    for name in ("login", "tlslogin"):
        config[f"listener.name.{name}.plain.sasl.jaas.config"] = jaas(dict([WITNESS, ADMIN, NOBODY]))
    context = authority.client_context()
    rng = random.Random(0)
    with LiveServer(topics=TOPICS, config=config) as server:
        plain, login, tls, tls_login = (server.addresses[name] for name in ("PLAIN", "LOGIN", "TLS", "TLSLOGIN"))
        yield (
            server,
            [
                Attacker(plain, rng),
                Attacker(login, rng),
                Attacker(login, rng, login=NOBODY),
                Attacker(login, rng, login=ADMIN),
                Attacker(login, rng, login=ADMIN),
                Attacker(tls, rng),
                Attacker(tls, rng, context=context),
                Attacker(tls_login, rng, context=context, login=ADMIN),
            ],
        )


def _rss_bytes() -> int:
    return int(psutil.Process().memory_info().rss)


def main() -> int:
    """The command. 1 when there was a defect."""
    parser = argparse.ArgumentParser(prog="python -m integration.fuzz.run", description=__doc__)
    parser.add_argument("--frames", type=int, default=100_000, help="frames for each setting")
    parser.add_argument("--seed", type=int, default=20261121)
    parser.add_argument("--setting", choices=SETTINGS, action="append", help="only this one; may be repeated")
    arguments = parser.parse_args()
    defects = 0
    for setting in arguments.setting or SETTINGS:
        summary = fuzz(setting, arguments.frames, arguments.seed)
        print(summary, flush=True)
        for defect in dict.fromkeys(summary.defects):
            print(defect, file=sys.stderr)
        defects += len(summary.defects)
    return 1 if defects else 0


if __name__ == "__main__":
    sys.exit(main())
