"""What is produced comes back as it was."""

from __future__ import annotations

import time

from integration.clients.application import Sent
from integration.clients.scene import Scene
from integration.clients.situation import situation

_FIRST_MS = round(time.time() * 1000)
"""The timestamp of the first record: the next check of retention deletes records that are old."""
_BATCH_RECORD_COUNT = 500


@situation("produce and read: keys, nulls, headers, timestamps")
def records_round_trip(scene: Scene) -> None:
    application = scene.application()
    topic = scene.topic(application, 2)
    sent = [
        Sent("plain", partition=0, timestamp=_FIRST_MS),
        Sent("with a key", key="k", partition=0, timestamp=_FIRST_MS + 1),
        Sent(None, key="tombstone", partition=0, timestamp=_FIRST_MS + 2),
        Sent("", key="", partition=0, timestamp=_FIRST_MS + 3),
        Sent(
            "naïve ☃ 🎈",
            key="schlüssel",
            partition=0,
            timestamp=_FIRST_MS + 4,
            headers=(("a", "1"), ("a", "2"), ("ü", "")),
        ),
        Sent("elsewhere", partition=1, timestamp=_FIRST_MS + 5, headers=(("h", "v"),)),
    ]
    assert application.produce(topic, sent) == [(0, 0), (0, 1), (0, 2), (0, 3), (0, 4), (1, 0)]
    read = sorted(application.read(topic, {0: "beginning", 1: "beginning"}, len(sent)))
    assert [(each.value, each.key, each.partition, each.timestamp, each.headers) for each in read] == [
        (each.value, each.key, each.partition, each.timestamp, each.headers) for each in sent
    ]


@situation("produce and read: a header without a value")
def records_null_header(scene: Scene) -> None:
    application = scene.application()
    topic = scene.topic(application)
    application.produce(topic, [Sent("v", headers=(("null", None), ("empty", "")))])
    (read,) = application.read(topic, {0: 0}, 1)
    assert read.headers == (("null", None), ("empty", ""))


@situation("produce without a key: all records arrive, over all partitions")
def records_partitioned(scene: Scene) -> None:
    application = scene.application()
    topic = scene.topic(application, 3)
    values = [f"{number}-{'x' * 200}" for number in range(1_000)]
    placed = application.produce(topic, [Sent(value, key=value) for value in values])
    assert {partition for partition, _ in placed} == {0, 1, 2}
    assert len(set(placed)) == len(values)
    read = application.read(topic, dict.fromkeys(range(3), "beginning"), len(values))
    assert {(each.partition, each.offset): each.value for each in read} == dict(zip(placed, values, strict=True))


def _compressed(scene: Scene, compression: str) -> None:
    application = scene.application()
    topic = scene.topic(application)
    # Some that compress well, one that compresses not at all and is larger than a block of any of the codecs.
    values = ["abc" * 200 + str(number) for number in range(_BATCH_RECORD_COUNT)]
    values.append("".join(chr(33 + number * number % 7919 % 90) for number in range(300_000)))
    application.produce(topic, [Sent(value, key=value[-3:]) for value in values], compression=compression)
    read = application.read(topic, {0: "beginning"}, len(values))
    assert [each.value for each in read] == values
    assert [each.key for each in read] == [value[-3:] for value in values]


@situation("compression: gzip")
def compression_gzip(scene: Scene) -> None:
    _compressed(scene, "gzip")


@situation("compression: snappy")
def compression_snappy(scene: Scene) -> None:
    _compressed(scene, "snappy")


@situation("compression: lz4")
def compression_lz4(scene: Scene) -> None:
    _compressed(scene, "lz4")


@situation("compression: zstd")
def compression_zstd(scene: Scene) -> None:
    _compressed(scene, "zstd")


@situation("idempotent producer")
def idempotent_producer(scene: Scene) -> None:
    application = scene.application()
    topic = scene.topic(application, 2)
    sent = [Sent(str(number), key=str(number), partition=number % 2) for number in range(1_000)]
    placed = application.produce(topic, sent, idempotent=True)
    assert placed == [(number % 2, number // 2) for number in range(1_000)]
    read = application.read(topic, {0: 0, 1: 0}, len(sent))
    assert sorted(int(each.value or "") for each in read) == list(range(1_000))


@situation("seek to an offset, the beginning, the end")
def seek_positions(scene: Scene) -> None:
    application = scene.application()
    topic = scene.topic(application, 2)
    application.produce(topic, [Sent(f"{number % 2}:{number // 2}", partition=number % 2) for number in range(20)])
    read = application.read(topic, {0: 7, 1: "beginning"}, 13)
    assert sorted(each.value or "" for each in read) == sorted(
        [f"0:{offset}" for offset in range(7, 10)] + [f"1:{offset}" for offset in range(10)]
    )
    assert application.read(topic, {0: "end", 1: "end"}, 1, timeout_s=2) == []


@situation("offsets: beginning, end, by time")
def offsets_by_time(scene: Scene) -> None:
    application = scene.application()
    topic = scene.topic(application, 2)
    application.produce(topic, [Sent(str(n), partition=0, timestamp=_FIRST_MS + 100 * n) for n in range(10)])
    assert application.offsets(topic, [0, 1], "beginning") == {0: 0, 1: 0}
    assert application.offsets(topic, [0, 1], "end") == {0: 10, 1: 0}
    assert application.offsets(topic, [0, 1], _FIRST_MS + 350) == {0: 4, 1: None}
    assert application.offsets(topic, [0], _FIRST_MS - 1) == {0: 0}
    assert application.offsets(topic, [0], _FIRST_MS + 901) == {0: None}
