"""From exec to the first ApiVersions answer: kshim beside a bare trio server that answers fixed bytes.

    python -m bench.start_up [--rounds 20]

The servers take turns, round after round, with warm bytecode, which is written to a scratch directory first. Each is started as a process, its first line on stdout
read, a connection opened, ApiVersions v4 asked (as kafka-python asks it) and answered. Printed: wall and CPU time of the
server process up to that answer, median and minimum of all rounds, and the ratio to the bare server; below it, what
single imports cost on top of trio.
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.brokers import spent_cpu_s
from kshim_protocol.codec import codec
from kshim_protocol.messages.api_versions import ApiVersionsRequest

BARE = """
import sys, trio
ANSWER = {answer!r}
async def main():
    async def serve(stream):
        async for _ in stream:
            await stream.send_all(ANSWER)
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    print("127.0.0.1:%d" % listeners[0].socket.getsockname()[1], flush=True)
    await trio.serve_listeners(serve, listeners)
trio.run(main)
"""

IMPORTS = ("construct", "argparse", "json", "dataclasses", "kshim.cli.serve", "kshim.coordinator.groups.coordinator")


def api_versions_request() -> bytes:
    """A whole frame: ApiVersions v4, header v2."""
    body = codec(ApiVersionsRequest, 4).build(
        ApiVersionsRequest(client_software_name="kshim-bench", client_software_version="1")
    )
    frame = struct.pack(">hhih", 18, 4, 1, 5) + b"bench" + b"\0" + body
    return struct.pack(">i", len(frame)) + frame


def with_bytecode(scratch: str) -> dict[str, str]:
    """The environment, with bytecode written and read below `scratch` whatever is set outside."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**environment, "PYTHONPYCACHEPREFIX": f"{scratch}/bytecode"}


def start_and_ask(command: list[str], environment: dict[str, str], request: bytes) -> tuple[float, float, bytes]:
    """Start a server, ask once, end it. Returns wall ms, CPU ms and the answer."""
    began_s = time.perf_counter()
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        assert process.stdout is not None
        host, _, port = process.stdout.readline().decode().strip().rpartition(":")
        with socket.create_connection((host, int(port))) as connection, connection.makefile("rb") as reader:
            connection.sendall(request)
            size = reader.read(4)
            answer = size + reader.read(int.from_bytes(size, "big"))
            wall_ms = (time.perf_counter() - began_s) * 1e3
            cpu_ms = spent_cpu_s(process.pid) * 1e3
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert process.stdout is not None
        process.stdout.close()
    return wall_ms, cpu_ms, answer


def import_ms(module: str, environment: dict[str, str]) -> float:
    """CPU ms that importing `module` takes where trio is imported already; the least of five processes."""
    code = f"import time, trio; t = time.process_time(); import {module}; print(time.process_time() - t)"
    command = [sys.executable, "-c", code]
    return min(float(subprocess.check_output(command, env=environment)) for _ in range(6)) * 1e3


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    rounds: int = parser.parse_args().rounds
    kshim = str(Path(sys.executable).with_name("kshim"))
    request = api_versions_request()
    with tempfile.TemporaryDirectory() as scratch:
        environment = with_bytecode(scratch)
        in_memory = [kshim, "serve", "--listen=127.0.0.1:0"]
        _, _, answer = start_and_ask(in_memory, environment, request)
        bare = Path(scratch) / "bare.py"
        bare.write_text(BARE.format(answer=answer))
        commands = {
            "bare trio": [sys.executable, str(bare)],
            "kshim": in_memory,
            "kshim --data-dir": [*in_memory, f"--data-dir={scratch}/data"],
        }
        measured: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
        for round_number in range(rounds + 1):
            for name, command in commands.items():
                wall_ms, cpu_ms, _ = start_and_ask(command, environment, request)
                if round_number:  # the first warms bytecode and file cache
                    measured[name].append((wall_ms, cpu_ms))
        imports = {module: import_ms(module, environment) for module in IMPORTS}
    print(f"{'ms':<18}{'wall':>8}{'min':>8}{'CPU':>8}{'min':>8}   ratio to bare trio (wall, min, CPU, min)")
    floor: list[float] = []
    for name, rows in measured.items():
        walls, cpus = zip(*rows, strict=True)
        row = [statistics.median(walls), min(walls), statistics.median(cpus), min(cpus)]
        floor = floor or row
        ratios = "  ".join(f"{value / least:.2f}" for value, least in zip(row, floor, strict=True))
        print(f"{name:<18}" + "".join(f"{value:8.1f}" for value in row) + f"   {ratios}")
    print("\nimport after trio, CPU ms")
    for module, ms in imports.items():
        print(f"{module:<30}{ms:8.1f}")


if __name__ == "__main__":
    main()
