"""Random requests of every API in every version, derived from the rows: plausible enough to get past the first check."""

from __future__ import annotations

import random
import struct
from typing import Any

from kshim_protocol.records.batch import build_batch
from kshim_protocol.records.compression import Compression, compress
from kshim_protocol.records.crc import crc32c
from kshim_protocol.records.record import Record
from kshim_protocol.schema import Row, Struct, row_is_in
from kshim_protocol.shape import default_of

TOPICS = ("t", "u", "three", "later", "__transaction_state", "a.b", "a_b", "", "..", "é" * 3, "x" * 250)
GROUPS = ("g", "h", "classic", "", "g" * 200, "g\0h", "\u202eg")
USERS = ("alice", "mallory", "nobody", "a,b=c", "")
CONFIGS = (
    "cleanup.policy", "retention.ms", "segment.bytes", "max.message.bytes", "min.insync.replicas", "compression.type",
    "message.timestamp.type", "no.such.key", "",
)  # fmt: skip
WORDS = {
    "topic": TOPICS,
    "group": GROUPS,
    "transactional": ("tx-1", "tx-2", ""),
    "member": ("", "m-1", "m-2", "no-such-member"),
    "instance": ("static-1", "static-2"),
    "mechanism": ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", ""),
    "principal": ("User:alice", "User:mallory", "User:*", "mallory", ":"),
    "user": USERS,
    "host": ("*", "127.0.0.1", ""),
    "protocol_type": ("consumer", "connect", ""),
    "config": CONFIGS,
    "value": ("compact", "delete", "1", "-1", "9223372036854775807", "1e400", ""),
    "pattern": (".*", "(a+)+$", "[", ""),
}
NAMES = TOPICS + GROUPS + CONFIGS + ("range", "roundrobin", "cooperative-sticky", *USERS)
NUMBERS: dict[str, tuple[int, ...]] = {
    "partition": (0, 0, 0, 1, 2, 3, -1, 7, 2**31 - 1),
    "num_partitions": (-1, 1, 2, 3, 0, -2, 10_001, 2**31 - 1),
    "count": (1, 2, 4, 5, 0, -1, 10_001, 2**31 - 1),
    "producer_id": (-1, 0, 1, 2, 3, 1_000, 2**63 - 1),
    "producer_epoch": (-1, 0, 0, 1, 2, 32_767),
    "base_sequence": (-1, 0, 1, 2**31 - 1),
    "acks": (-1, -1, 1, 0, 2),
    "max_wait_ms": (0, 0, 1, 5, -1),
    "session_timeout_ms": (6_000, 10_000, 1_800_000, 0, -1, 2**31 - 1),
    "rebalance_timeout_ms": (6_000, 60_000, -1, 2**31 - 1),
    "replica_id": (-1, -1, -1, 0, 1, -2),
    "iterations": (4_096, 8_192, 0, -1, 16_385, 2**31 - 1),
    "resource_type": (0, 1, 2, 3, 4, 5, 6, 7, 127, -1),
}
INTEGER_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
ODD_TEXTS = ("\0", "'\";--", "\n\r\t", "\ufffd", "a" * 130, "ünï", "%s%n", "${jndi:x}", "../../etc")
CODECS = tuple(Compression)
CRC_AT, CRC_OF = 17, 21


class RandomMessages:
    """Draws from `random`. Names come from small pools, so that one request finds what another has made.

    No name of the witness is among them: whatever these requests do, they may not do to others.
    """

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def message(self, cls: type[Struct], version: int) -> Any:
        """An object of a declared class that can travel in `version`."""
        return cls(
            **{
                row.name: self._row(row, version, cls.info.name) if row_is_in(row, version) else default_of(row)
                for row in cls.info.rows
            }
        )

    def _row(self, row: Row, version: int, owner: str) -> Any:
        rng = self._rng
        if row.nullable[0] <= version <= row.nullable[1] and rng.random() < 0.15:
            return None
        if row.tag is not None and rng.random() < 0.5:
            return default_of(row)
        if row.type == "array":
            if isinstance(row.element, str):
                return self._several(lambda: self._primitive(str(row.element), row.name, owner))
            return self._several(lambda: self.message(row.element, version))
        if row.type == "struct":
            return self.message(row.element, version)
        return self._primitive(row.type, row.name, owner)

    def _several(self, one: Any) -> tuple[Any, ...]:
        rng = self._rng
        found = [one() for _ in range(rng.choice((0, 1, 1, 1, 2, 3)))]
        if found and rng.random() < 0.05:
            found += [rng.choice(found)] * rng.randint(1, 30)
        return tuple(found)

    def _primitive(self, type_: str, name: str, owner: str) -> Any:
        rng = self._rng
        match type_:
            case "int8" | "int16" | "int32" | "int64":
                return self._integer(INTEGER_BITS[type_], name)
            case "uint16":
                return rng.randrange(1 << 16)
            case "boolean":
                return rng.random() < 0.5
            case "float64":
                return rng.choice((0.0, 1.5, -1.0, float("inf"), 1e308))
            case "uuid":
                return rng.choice((bytes(16), rng.randbytes(16)))
            case "string":
                return self._text(name, owner)
            case "records":
                return self.records()
            case "bytes":
                return self.blob()
            case _:
                raise AssertionError(f"nothing to draw for {type_}")

    def _integer(self, bits: int, name: str) -> int:
        rng = self._rng
        chance = rng.random()
        if chance < 0.75:
            for word, choices in NUMBERS.items():
                if word in name:
                    chosen = rng.choice(choices)
                    return chosen if -(1 << bits - 1) <= chosen < 1 << bits - 1 else -1
            return rng.randint(-1, 6)
        if chance < 0.9:
            return rng.choice((-(1 << bits - 1), (1 << bits - 1) - 1, 0, -1, 1))
        return rng.randrange(-(1 << bits - 1), 1 << bits - 1)

    def _text(self, name: str, owner: str) -> str:
        rng = self._rng
        if rng.random() < 0.05:
            return rng.choice(ODD_TEXTS)
        if name == "name":
            name = owner.lower()
        for word, choices in WORDS.items():
            if word in name:
                return rng.choice(choices[:3]) if rng.random() < 0.7 else rng.choice(choices)
        return rng.choice(NAMES)

    def records(self) -> bytes:
        """Batches: good ones, damaged ones whose checksum is right, message sets of formats 0 and 1 inside one another."""
        rng = self._rng
        chance = rng.random()
        if chance < 0.1:
            return legacy_message_set(rng, rng.randint(1, 6))
        batch = build_batch(
            [Record(rng.choice((None, b"k")), rng.randbytes(rng.randint(0, 60)), (), 1_700_000_000_000 + i)
             for i in range(rng.randint(1, 4))],
            compression=rng.choice(CODECS),
            producer_id=rng.choice((-1, -1, 0, 1, 2)),
            producer_epoch=rng.choice((-1, 0, 0, 1)),
            base_sequence=rng.choice((-1, 0, 0, 1, 2)),
        )  # fmt: skip
        if chance < 0.5:
            return batch
        if chance < 0.55:
            return batch * rng.randint(2, 5)
        damaged = bytearray(batch)
        for _ in range(rng.randint(1, 3)):
            at = rng.randrange(CRC_OF, len(damaged))
            damaged[at] = rng.choice((0, 1, 127, 128, 255, damaged[at] ^ 1 << rng.randrange(8)))
        damaged[CRC_AT:CRC_OF] = struct.pack(">I", crc32c(bytes(damaged[CRC_OF:])))
        return bytes(damaged)

    def blob(self) -> bytes:
        """What travels as bytes: subscriptions and assignments with lies inside, SASL tokens, noise."""
        rng = self._rng
        match rng.randrange(7):
            case 0:
                return b""
            case 1:
                return b"\0\1\0\0\0\1\0\1t\0\0\0\0\0\0\0\0"
            case 2:  # a subscription of two thousand million topics
                return b"\0\3\x7f\xff\xff\xff\0\1t"
            case 3:
                return b"\0\1" + struct.pack(">i", 5_000) + b"\0\1t" * 5_000 + b"\xff\xff\xff\xff"
            case 4:
                return b"\0alice\0wrong"
            case 5:
                return b"n,,n=" + rng.choice((b"alice", b"=2C" * 500, b"")) + b",r=" + b"n" * rng.choice((0, 24, 9_000))
            case _:
                return rng.randbytes(rng.randint(1, 100))


def legacy_message_set(rng: random.Random, depth: int) -> bytes:
    """Formats 0 and 1, which Kafka 4 no longer takes: a message whose value is a compressed set of such, and so on."""
    value = b"v" * rng.randint(0, 40)
    codec = Compression.NONE
    for _ in range(depth):
        magic = rng.randrange(2)
        body = struct.pack(">bb", magic, codec) + (struct.pack(">q", 1) if magic else b"")
        body += struct.pack(">ii", -1, len(value)) + value
        message = struct.pack(">qii", 0, 4 + len(body), rng.randrange(-(2**31), 2**31)) + body
        codec = rng.choice((Compression.GZIP, Compression.SNAPPY, Compression.LZ4))
        value = compress(codec, message)
    return message
