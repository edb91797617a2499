"""Requests of every API, and what broken or hostile clients could make of them."""

from __future__ import annotations

import json
import random
import struct
from pathlib import Path
from typing import NamedTuple

from integration.fuzz.layout import Place, laid_out
from integration.fuzz.messages import RandomMessages
from kshim_protocol.apis import API_TABLE, Api
from kshim_protocol.frame import build_request_frame

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
COUNTS = (-1, 0, -2, 1, 2, 100, 65_535, 10_000_000, 2**31 - 2, 2**31 - 1, -(2**31))
BAD_TEXTS = (b"\xff\xfe", b"\xed\xa0\x80", b"\xc0\x80", b"\xf0\x9f\x92", b"\0" * 50, b"a" * 32_767, b"\xe2\x82" * 100)


class Sample(NamedTuple):
    """A request frame without its size, and the places in it. One from elsewhere has no known places."""

    frame: bytes
    places: tuple[Place, ...] = ()


def golden_requests() -> list[Sample]:
    """Real request frames of every API in the golden file."""
    samples = json.loads(GOLDEN.read_text())["samples"]
    return [Sample(bytes.fromhex(sample["hex"])) for sample in samples if sample["direction"] == "request"]


def drawn_requests(rng: random.Random, each: int) -> list[Sample]:
    """`each` requests for every version of every API that is served: whoever adds an API has it fuzzed too."""
    draw = RandomMessages(rng)
    return [
        _sample(api, version, draw, rng)
        for api in API_TABLE.values()
        for version in range(api.min_version, api.max_version + 1)
        for _ in range(each)
    ]


def _sample(api: Api, version: int, draw: RandomMessages, rng: random.Random) -> Sample:
    body, places = laid_out(draw.message(api.request_class(), version), version)
    client_id = rng.choice(("fuzz", None, ""))
    number = rng.randrange(2**31)
    frame = build_request_frame(api.key, version, number, client_id, body, flexible=api.is_flexible(version))[4:]
    at = len(frame) - len(body)
    return Sample(frame, tuple(place._replace(start=place.start + at, stop=place.stop + at) for place in places))


def mutated_stream(rng: random.Random, requests: list[Sample]) -> bytes:
    """One frame with its size, as it is or damaged in one of many ways; the size is now and then a lie."""
    sample = rng.choice(requests)
    frame = bytearray(sample.frame)
    if sample.places and rng.random() < 0.4:
        _lie(rng, frame, rng.choice(sample.places))
    else:
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


def _lie(rng: random.Random, frame: bytearray, place: Place) -> None:
    """Say something else at one place; all the rest is well-formed."""
    match place.kind:
        case "count" | "length":
            left = len(frame) - place.stop
            new = _size(rng.choice((*COUNTS, left, left + 1, left // 2)), place.width)
            if rng.random() < 0.1 and not place.width:
                new = rng.choice((b"\x80" * 6 + b"\0", b"\xff" * 5, b"\x81\x80\x80\x80\x00"))
        case "text":
            text = rng.choice(BAD_TEXTS)
            new = _size(len(text), place.width) + text
        case "number":
            width = place.stop - place.start
            new = rng.choice((b"\xff" * width, b"\x7f" + b"\xff" * (width - 1), b"\x80" + bytes(width - 1)))
        case "tags":
            new = _tags(rng)
    frame[place.start : place.stop] = new


def _size(number: int, width: int) -> bytes:
    if width:
        bits = 8 * width
        return (max(-(1 << bits - 1), min(number, (1 << bits - 1) - 1))).to_bytes(width, "big", signed=True)
    return _varint((number + 1) % (1 << 32))


def _varint(number: int) -> bytes:
    data = b""
    while number > 0x7F:
        data += bytes((number & 0x7F | 0x80,))
        number >>= 7
    return data + bytes((number,))


def _tags(rng: random.Random) -> bytes:
    match rng.randrange(5):
        case 0:  # more tags than there are bytes
            return _varint(rng.choice((2, 1_000, 2**31, 2**32 - 1)))
        case 1:  # many unknown ones
            return _varint(5_000) + b"".join(_varint(1_000 + tag) + b"\0" for tag in range(5_000))
        case 2:  # one again and again, and not in order
            return _varint(4) + b"\x63\x01x\x63\x01y\x05\x00\x00\x00"
        case 3:  # known ones of another size
            return b"\x01" + _varint(rng.randrange(4)) + _varint(rng.choice((0, 1, 9))) + bytes(rng.randrange(10))
        case _:
            return b"\x01\x00" + _varint(rng.choice((2**31 - 1, 2**32 - 1, 100_000)))


def _damage(rng: random.Random, frame: bytearray, requests: list[Sample]) -> None:
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
            other = rng.choice(requests).frame
            frame[at:] = other[rng.randrange(len(other)) :]
        case 6:
            frame[2:4] = struct.pack(">h", rng.randint(-1, 20))
        case 7:
            frame[0:2] = struct.pack(">h", rng.choice((-1, 999, *range(80))))
        case _:
            stop = min(len(frame), at + rng.randint(1, 8))
            del frame[at:stop]
