"""`python -m integration.real_incidents --broker kshim --folder F`: incidents of real clients; the truth is in F/truth.jsonl.

`kshim why --follow` watches meanwhile, and what it has read and sampled is in F/sampled.zip.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from integration.real_incidents.hosts import Host, address_of, free_ports_of
from integration.real_incidents.play import BETWEEN_S, Played, Player, relaying
from integration.real_incidents.score import SAMPLED
from integration.real_incidents.services import SESSION_MS, GroupProtocol
from integration.support.broker import Broker
from integration.support.kafka import RealKafka, free_ports
from integration.support.kshim import KshimProcess

HOST_COUNT = 6
MACHINE, NETWORK_COUNT = "127.0.0.1", 2
"""Of a play on one machine: its address, and the parts of its network of which one can be cut off."""
CONFIG = {
    "offsets.topic.num.partitions": "4",
    "log.cleaner.enable": "false",
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.session.timeout.ms": str(SESSION_MS),
    "group.consumer.min.session.timeout.ms": str(SESSION_MS),
    "group.consumer.heartbeat.interval.ms": "3000",
    "group.consumer.min.heartbeat.interval.ms": "3000",
}


def broker_named(name: str, hosts: list[Host], folder: Path) -> Broker:
    """A stopped broker with a listener for each host. Raises Unavailable."""
    if name == "kafka":
        return RealKafka(folder, CONFIG, listeners={host.name: (host.listener, host.bootstrap) for host in hosts})
    plain = f"127.0.0.1:{free_ports(1)[0]}"
    listeners = [("PLAINTEXT", plain, plain), *((host.name, host.listener, host.bootstrap) for host in hosts)]
    config = {
        **CONFIG,
        "advertised.listeners": ",".join(f"{name}://{advertised}" for name, _, advertised in listeners),
        "listener.security.protocol.map": ",".join(f"{name}:PLAINTEXT" for name, _, _ in listeners),
    }
    return KshimProcess(
        folder,
        config=config,
        durable=True,
        options=("--events-topic",),
        listeners=",".join(f"{name}://{address}" for name, address, _ in listeners),
    )


def _hosts(is_one_machine: bool) -> list[Host]:
    ports = enumerate(free_ports(NETWORK_COUNT if is_one_machine else HOST_COUNT), 1)
    addresses = ((number, port, MACHINE if is_one_machine else address_of(number)) for number, port in ports)
    return [Host(number, port, free_ports_of(address, 1)[0], address) for number, port, address in addresses]


@contextmanager
def _watching(broker: Broker, folder: Path) -> Iterator[None]:
    """`kshim why --follow` watches all groups within the block."""
    command = [sys.executable, "-m", "kshim", "why", "--all", "--follow", "--bootstrap-server", broker.bootstrap]
    with (folder / "watch.log").open("wb") as log:
        watcher = subprocess.Popen([*command, "--record", str(folder / SAMPLED)], stdout=log, stderr=log)
        try:
            yield
        finally:
            watcher.send_signal(signal.SIGTERM)  # of a script's jobs in the background, SIGINT is ignored
            watcher.wait()


def main() -> int:
    """Play, telling on stderr what was done."""
    parser = argparse.ArgumentParser(prog="python -m integration.real_incidents", description=__doc__)
    parser.add_argument("--broker", choices=("kshim", "kafka"), required=True)
    parser.add_argument("--folder", type=Path, required=True, help="for the broker's data, all logs and the truth")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--services", type=int, default=8)
    parser.add_argument("--incidents", type=int, default=100, help="besides the starts and what befalls the fleet")
    parser.add_argument(
        "--between", type=float, default=BETWEEN_S, help="mean seconds between two incidents of a service"
    )
    parser.add_argument(
        "--one-machine", action="store_true", help=f"all on {MACHINE}, many with default ids and timeouts"
    )
    parser.add_argument(
        "--protocol", choices=[each.value for each in GroupProtocol], default=GroupProtocol.CLASSIC.value
    )
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    protocol = GroupProtocol(options.protocol)
    played = asyncio.run(
        play(
            options.broker,
            options.folder,
            options.seed,
            options.services,
            options.incidents,
            protocol,
            between_s=options.between,
            is_one_machine=options.one_machine,
        )
    )
    print(
        f"{played.incident_count} incidents in {played.seconds:.0f} s; after {played.unsettled_count} a group was not "
        "stable for very long",
        file=sys.stderr,
    )
    return 0


async def play(
    broker_name: str,
    folder: Path,
    seed: int,
    service_count: int,
    incident_count: int,
    protocol: GroupProtocol,
    *,
    between_s: float = BETWEEN_S,
    is_one_machine: bool = False,
) -> Played:
    """Start a broker, play on it, and stop it. The folder must be there."""
    broker = broker_named(broker_name, hosts := _hosts(is_one_machine), folder)
    await asyncio.to_thread(broker.start)
    try:
        with _watching(broker, folder):
            async with relaying(hosts):
                player = Player(
                    broker,
                    hosts,
                    folder,
                    seed=seed,
                    service_count=service_count,
                    incident_count=incident_count,
                    protocol=protocol,
                    between_s=between_s,
                    tell=lambda line: print(line, file=sys.stderr),
                )
                return await player.play()
    finally:
        await asyncio.to_thread(broker.stop)


if __name__ == "__main__":
    raise SystemExit(main())
