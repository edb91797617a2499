"""Transactions: seen wholly or not at all, fenced, timed out; and the copy that neither loses nor doubles."""

from __future__ import annotations

from collections import Counter
from typing import Any

from integration.clients.application import Application, Sent
from integration.clients.driver import DriverError
from integration.clients.members import partitions_of
from integration.clients.scene import Scene
from integration.clients.situation import EITHER, situation
from integration.clients.situations.admin import eventually, refused
from integration.support.client import TopicPartition

_COMMITTED, _UNCOMMITTED = "read_committed", "read_uncommitted"
_NOTHING_MORE_S = 1.5
_SHORT_TIMEOUT_MS = 5_000
FENCED = {"PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH"}
"""Which of the two it is depends on the request that found out, and on its version."""


def values(application: Application, topic: str, count: int, isolation: str, *, partitions: int = 2) -> list[str]:
    """What a reader of this isolation sees, sorted: `count` values and, after a while, no more."""
    starts = dict.fromkeys(range(partitions), "beginning")
    read = application.read(topic, starts, count, isolation=isolation) if count else []
    assert len(read) == count, f"{len(read)} records, not {count}: {[each.value for each in read][:20]}"
    behind = dict.fromkeys(starts, 0) | {
        each.partition: each.offset + 1 for each in sorted(read, key=lambda each: each.offset)
    }
    more = application.read(topic, behind, 1, timeout_s=_NOTHING_MORE_S, isolation=isolation)
    assert more == [], f"more than {count} records: {[each.value for each in more][:20]}"
    return sorted(str(each.value) for each in read)


def some(word: str, count: int = 4) -> list[Sent]:
    """Records over two partitions."""
    return [Sent(f"{word}-{number}", key=word, partition=number % 2) for number in range(count)]


@situation("transactions: commit and abort, as readers of both isolations see them")
def transaction_commit_and_abort(scene: Scene) -> None:
    application = scene.application()
    topic = scene.topic(application, 2)
    producer = scene.transactional(application, "id")
    producer.begin()
    producer.send(topic, some("kept"))
    assert values(application, topic, 4, _UNCOMMITTED) == [f"kept-{number}" for number in range(4)]
    assert values(application, topic, 0, _COMMITTED) == []
    producer.commit()
    kept = values(application, topic, 4, _COMMITTED)
    assert kept == [f"kept-{number}" for number in range(4)]
    producer.begin()
    producer.send(topic, some("dropped"))
    producer.abort()
    producer.begin()
    producer.send(topic, some("later", 2))
    producer.commit()
    assert values(application, topic, 6, _COMMITTED) == [*kept, "later-0", "later-1"]
    assert len(values(application, topic, 10, _UNCOMMITTED)) == 10
    producer.close()


@situation("transactions: an open one delays readers of committed records")
def transaction_last_stable_offset(scene: Scene) -> None:
    application = scene.application()
    topic = scene.topic(application, 2)
    producer = scene.transactional(application, "id")
    producer.begin()
    producer.send(topic, some("open", 2))
    application.produce(topic, some("behind"))
    assert values(application, topic, 0, _COMMITTED) == []
    assert len(values(application, topic, 6, _UNCOMMITTED)) == 6
    producer.abort()
    assert values(application, topic, 4, _COMMITTED) == [f"behind-{number}" for number in range(4)]


@situation("transactions: offsets of a group are committed with them")
def transaction_offsets(scene: Scene) -> None:
    application = scene.application()
    topic, group_id = scene.topic(application, 2), scene.name("group")
    first, second = partitions_of(topic, 2)
    producer = scene.transactional(application, "id")
    producer.begin()
    producer.send(topic, some("a"))
    producer.offsets(group_id, {first: 2, second: 1})
    producer.commit()
    eventually("committed", lambda: application.group_offsets(group_id) == {first: 2, second: 1})
    producer.begin()
    producer.send(topic, some("b"))
    producer.offsets(group_id, {first: 4})
    producer.abort()
    eventually("no more pending", lambda: application.group_offsets(group_id) == {first: 2, second: 1})
    producer.begin()
    producer.offsets(group_id, {second: 2})
    producer.commit()
    eventually("committed again", lambda: application.group_offsets(group_id) == {first: 2, second: 2})


@situation("transactions: a second producer of the same id fences the first")
def transaction_fencing(scene: Scene) -> None:
    zombie_application, application = scene.application(), scene.application()
    topic = scene.topic(application, 2)
    zombie = scene.transactional(zombie_application, "id")
    zombie.begin()
    zombie.send(topic, some("zombie"))
    successor = scene.transactional(application, "id")
    assert values(application, topic, 0, _COMMITTED) == [], "the open transaction was aborted"

    def go_on() -> None:
        zombie.send(topic, some("too late", 1))
        zombie.commit()

    refused(go_on, *FENCED)
    successor.begin()
    successor.send(topic, some("successor"))
    successor.commit()
    assert values(application, topic, 4, _COMMITTED) == [f"successor-{number}" for number in range(4)]


@situation("transactions: an abandoned one is aborted after its timeout")
def transaction_timeout(scene: Scene) -> None:
    application = scene.application()
    topic = scene.topic(application, 2)
    leaver = scene.transactional(application, "id", timeout_ms=_SHORT_TIMEOUT_MS)
    leaver.begin()
    leaver.send(topic, some("left", 2))
    application.produce(topic, some("behind"))
    ends = application.read(topic, {0: 0, 1: 0}, 4, isolation=_COMMITTED, timeout_s=40)
    assert sorted(str(each.value) for each in ends) == [f"behind-{number}" for number in range(4)]
    try:
        leaver.commit()
    except DriverError:
        pass  # how a client names this differs: fenced, invalid epoch, invalid state
    else:
        raise AssertionError("the transaction that had been aborted was committed")


@situation("exactly-once copy: with aborts, resumed by another process", protocols=EITHER)
def exactly_once_copy(scene: Scene) -> None:
    application, second = scene.application(), scene.application()
    source, target = scene.topic(application, 2, word="source"), scene.topic(application, 2, word="target")
    producer = scene.transactional(application, "writer")
    committed: list[str] = []
    for number in range(10):
        producer.begin()
        word = f"{number:02}"
        producer.send(source, some(word, 100))
        if number % 3 == 2:
            producer.abort()
        else:
            producer.commit()
            committed += [f"{word}-{each}" for each in range(100)]
    producer.close()
    fields: dict[str, Any] = {
        "source": source,
        "target": target,
        "group": scene.name("group"),
        "timeout_s": 60.0,
        "abort_every": 3,
    }
    first_copied = application.copy(transactional_id=scene.name("copier"), count=250, **fields)
    left = len(committed) - first_copied["copied"]
    second_copied = second.copy(transactional_id=scene.name("copier"), count=left, **fields)
    assert first_copied["copied"] + second_copied["copied"] == len(committed), f"{first_copied}, {second_copied}"
    assert first_copied["aborted"] > 0
    read = values(application, target, len(committed), _COMMITTED)
    assert Counter(read) == Counter(f"{value}!" for value in committed)
    offsets = application.group_offsets(scene.name("group"))
    ends = application.offsets(source, range(2), "end")
    # Behind the last record, or behind the marker that ends the last transaction: clients differ.
    for partition, end in ends.items():
        assert end is not None
        assert offsets[TopicPartition(source, partition)] in (end - 1, end)
