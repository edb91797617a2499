"""Over 100,000 damaged golden frames against a live server: nobody else notices, nothing is left behind."""

from __future__ import annotations

import os
import random
import select
import socket
import struct
import time
from typing import Any, TypeVar

import pytest

from integration.fuzz.live import LiveServer
from integration.fuzz.mutations import golden_requests, mutated_stream
from kshim.server.server import LoopName
from kshim_protocol.errors import ErrorCode
from kshim_protocol.frame import build_request_frame
from kshim_protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kshim_protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from kshim_protocol.schema import Request, Struct, codec

S = TypeVar("S", bound=Struct)
FRAMES = int(os.environ.get("KSHIM_FUZZ_FRAMES", "100000"))
SEED = int(os.environ.get("KSHIM_FUZZ_SEED", "20261121"))
CONNECTIONS = 8
CHECK_EVERY = 250
ANSWER_S = 0.002


class Witness:
    """A well-behaved member of its own group, on one connection that must never break."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.sock = socket.create_connection(address, timeout=10)
        self.correlation_id = 0
        protocol = JoinGroupRequestProtocol(name="range", metadata=b"\0\0\0\0\0\0\0\0\0\0")
        joined = self.ask(
            JoinGroupRequest(
                group_id="witness", session_timeout_ms=1_800_000, rebalance_timeout_ms=1_800_000, member_id="",
                protocol_type="consumer", protocols=(protocol,),
            ),
            3, JoinGroupResponse,
        )  # fmt: skip
        assert joined.error_code == ErrorCode.NONE
        self.member_id, self.generation_id = joined.member_id, joined.generation_id

    def ask(self, request: Request[Any], version: int, response_class: type[S]) -> S:
        self.correlation_id += 1
        api_key = request.info.api_key
        assert api_key is not None
        body = codec(type(request), version).build(request)
        self.sock.sendall(build_request_frame(api_key, version, self.correlation_id, "witness", body, flexible=False))
        (size,) = struct.unpack(">i", self._exactly(4))
        frame = self._exactly(size)
        assert struct.unpack_from(">i", frame) == (self.correlation_id,)
        response, end = codec(response_class, version).parse(frame, 4)
        assert end == size
        return response

    def check(self) -> None:
        beat = HeartbeatRequest(group_id="witness", generation_id=self.generation_id, member_id=self.member_id)
        assert self.ask(beat, 3, HeartbeatResponse).error_code == ErrorCode.NONE

    def _exactly(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            chunk = self.sock.recv(count - len(data))
            assert chunk, "the server closed the witness's connection"
            data += chunk
        return data


class Attacker:
    """One connection that is opened again whenever it ended, by either side."""

    def __init__(self, address: tuple[str, int], rng: random.Random) -> None:
        self.address = address
        self.rng = rng
        self.sock: socket.socket | None = None

    def send(self, data: bytes) -> None:
        if self.sock is None:
            self.sock = socket.create_connection(self.address, timeout=10)
            self.sock.setblocking(False)
        try:
            if self.rng.random() < 0.02:
                self.sock.send(data[: self.rng.randrange(len(data))])
                self.close()
                return
            self.sock.send(data)
            if not select.select([self.sock], [], [], ANSWER_S)[0]:
                # Parked, or half a frame: now and then leave it so, and let the next bytes pile up behind it.
                if self.rng.random() < 0.5:
                    self.close()
            elif not self.sock.recv(1 << 20):
                self.close()
        except OSError:
            self.close()

    def close(self) -> None:
        if self.sock is not None:
            if self.rng.random() < 0.3:
                self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.sock.close()
            self.sock = None


@pytest.mark.parametrize("loop", ["auto", "tasks"])
def test_damaged_frames_never_disturb_another_client_nor_leave_anything_behind(loop: LoopName) -> None:
    rng = random.Random(SEED)
    requests = golden_requests()
    frames = FRAMES if loop == "auto" else FRAMES // 10
    with LiveServer(loop=loop) as server:
        witness = Witness(server.address)
        tasks_before = server.tasks()
        attackers = [Attacker(server.address, rng) for _ in range(CONNECTIONS)]
        for count in range(frames):
            rng.choice(attackers).send(mutated_stream(rng, requests))
            if count % CHECK_EVERY == 0:
                witness.check()
        for attacker in attackers:
            attacker.close()
        deadline = time.monotonic() + 10
        while (server.connections() > 1 or server.tasks() > tasks_before) and time.monotonic() < deadline:
            witness.check()
        assert server.connections() == 1
        assert server.tasks() <= tasks_before
        witness.check()
        witness.sock.close()
        assert server.routed > frames / 2, "most damaged frames must get past the framing to be worth sending"
        assert server.refused > frames / 100
    assert server.defects == [], f"seed {SEED}"
