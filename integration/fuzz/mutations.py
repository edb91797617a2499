"""Mutated golden frames: bytes a broken or hostile client could send."""

from __future__ import annotations

import json
import random
import struct
from pathlib import Path

__all__ = ["golden_requests", "mutated_stream"]

GOLDEN = Path(__file__).parents[2] / "tests" / "golden" / "wire.json"
EXTREMES = (
    b"\xff\xff\xff\xff",
    b"\x7f\xff\xff\xff",
    b"\x80\x00\x00\x00",
    b"\x00\x00\x00\x00",
    b"\xff\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\xff\xff\xff\xff\x01",
    b"\x00\x01",
    b"\x7f\xff",
    b"\xff\xff",
)


def golden_requests() -> list[bytes]:
    """Real request frames (without their size) of every API in the golden file."""
    samples = json.loads(GOLDEN.read_text())["samples"]
    return [bytes.fromhex(sample["hex"]) for sample in samples if sample["direction"] == "request"]


def mutated_stream(rng: random.Random, requests: list[bytes]) -> bytes:
    """One frame with its size, damaged in one of many ways; the size is now and then a lie."""
    frame = bytearray(rng.choice(requests))
    for _ in range(rng.choice((0, 1, 1, 1, 2, 3))):
        _damage(rng, frame, requests)
    kind = rng.random()
    if kind < 0.9:
        size = len(frame)
    elif kind < 0.93:
        size = rng.choice((-1, 0, -(2**31), 2**31 - 1, 104857601, 104857600))
    elif kind < 0.97:
        size = max(0, len(frame) - rng.randint(1, 8))
    else:
        size = len(frame) + rng.randint(1, 64)
    return struct.pack(">i", size) + bytes(frame)


def _damage(rng: random.Random, frame: bytearray, requests: list[bytes]) -> None:
    at = rng.randrange(len(frame) + 1)
    match rng.randrange(9):
        case 0:
            for _ in range(rng.randint(1, 4)):
                if frame:
                    frame[rng.randrange(len(frame))] ^= 1 << rng.randrange(8)
        case 1:
            del frame[at:]
        case 2:
            frame[at:at] = rng.randbytes(rng.randint(1, 16))
        case 3:
            extreme = rng.choice(EXTREMES)
            frame[at : at + len(extreme)] = extreme
        case 4:
            frame += rng.randbytes(rng.randint(1, 32))
        case 5:
            other = rng.choice(requests)
            frame[at:] = other[rng.randrange(len(other)) :]
        case 6:
            frame[2:4] = struct.pack(">h", rng.randint(-1, 20))
        case 7:
            frame[0:2] = struct.pack(">h", rng.choice((-1, 999, *range(80))))
        case _:
            stop = min(len(frame), at + rng.randint(1, 8))
            del frame[at:stop]
