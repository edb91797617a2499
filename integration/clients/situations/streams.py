"""Stream processing: the word count, with a store, a repartitioned topic and a changelog, in one process and in two."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from typing import Any

from integration.clients.application import Application, Sent
from integration.clients.scene import Scene
from integration.clients.situation import Setting, situation
from integration.support.broker import Deadline
from kshim_protocol.messages.api_versions import ApiVersionsRequest

_PARTITIONS = 4
_SESSION_TIMEOUT_MS = 6_000
_WORDS = ("group", "member", "offset", "epoch", "leader", "record", "batch", "topic", "log", "broker", "key")
_START_TIMEOUT_S = 60.0
_COUNT_TIMEOUT_S = 90.0
_LOOK_AGAIN_S = 0.2


class _Counting:
    """A word count under way: what was produced so far, and what has come out."""

    def __init__(self, scene: Scene, guarantee: str) -> None:
        if guarantee == "exactly_once_v2":
            assert _transaction_version(scene) == 2
        self.application = scene.application()
        self.source = scene.topic(self.application, _PARTITIONS, word="lines")
        self.target = scene.topic(self.application, _PARTITIONS, word="counts")
        self.expected: Counter[str] = Counter()
        self._fields: dict[str, Any] = {
            "application_id": scene.name("word-count"),
            "source": self.source,
            "target": self.target,
            "guarantee": guarantee,
            "session_timeout_ms": _SESSION_TIMEOUT_MS,
        }

    def start(self, application: Application, instance: str) -> None:
        """Return when it runs: its topics are made and it owns partitions, or knows that others do."""
        application.driver.call("word_count_start", instance=instance, **self._fields)
        deadline = Deadline(_START_TIMEOUT_S)
        while (log := application.driver.call("word_count_log", instance=instance))["state"] != "RUNNING":
            deadline.check(f"{instance} runs; it is {log}")
            time.sleep(_LOOK_AGAIN_S)

    def produce(self, lines: int) -> None:
        """So many lines of words more, over all partitions."""
        first = self.expected.total()
        texts = [" ".join(_WORDS[(first + line + k) % len(_WORDS)] for k in range(3)) for line in range(lines)]
        self.application.produce(self.source, [Sent(text, partition=n % _PARTITIONS) for n, text in enumerate(texts)])
        self.expected.update(word for text in texts for word in text.split())

    def counts(self) -> dict[str, list[int]]:
        """The counts that were written for each word, in order, as a reader of committed records sees them."""
        ends = self.application.offsets(self.target, range(_PARTITIONS), "end", isolation="read_committed")
        counts: dict[str, list[int]] = defaultdict(list)
        written = {partition for partition, end in ends.items() if end}
        missing = set(written)
        starts: dict[int, int | str] = dict.fromkeys(written, "beginning")
        while missing:  # markers take offsets too, so that how many records there are is not known
            read = self.application.read(self.target, starts, 1, timeout_s=2.0, isolation="read_committed")
            for each in sorted(read, key=lambda each: (each.partition, each.offset)):
                assert each.key is not None
                assert each.value is not None
                counts[each.key].append(int(each.value))
                starts[each.partition] = each.offset + 1
            missing = {each.partition for each in read}
        return counts

    def wait_for_all(self) -> dict[str, list[int]]:
        """Until the last count of each word is what was produced; answers all counts."""
        deadline = Deadline(_COUNT_TIMEOUT_S)
        while True:
            counts = self.counts()
            last = {word: written[-1] for word, written in counts.items()}
            if last == self.expected:
                return counts
            over = {word: count for word, count in last.items() if count > self.expected[word]}
            assert not over, f"counted twice: {over}, of {dict(self.expected)}"
            deadline.check(f"all words are counted: {last}, of {dict(self.expected)}")
            time.sleep(_LOOK_AGAIN_S)


@situation("streams: word count, in one process and then in two")
def word_count(scene: Scene) -> None:
    counting = _Counting(scene, "at_least_once")
    counting.start(counting.application, "first")
    counting.produce(200)
    counting.wait_for_all()
    other = scene.application()
    counting.start(other, "second")
    counting.produce(200)
    counting.wait_for_all()
    stopped = counting.application.driver.call("word_count_stop", instance="first")
    assert stopped["error"] == ""
    counting.produce(200)
    counting.wait_for_all()
    assert other.driver.call("word_count_stop", instance="second")["error"] == ""


@situation("streams: word count exactly once, one of two processes killed")
def word_count_exactly_once(scene: Scene) -> None:
    counting = _Counting(scene, "exactly_once_v2")
    doomed = scene.application()
    counting.start(counting.application, "first")
    counting.start(doomed, "second")
    counting.produce(200)
    counting.wait_for_all()
    counting.produce(400)
    scene.kill(doomed)
    counting.produce(200)
    _require_rising(counting.wait_for_all())
    assert counting.application.driver.call("word_count_stop", instance="first")["error"] == ""


@situation("streams: word count exactly once, the broker killed twice", setting=Setting.ALONE)
def word_count_broker_killed(scene: Scene) -> None:
    counting = _Counting(scene, "exactly_once_v2")
    counting.start(counting.application, "first")
    for _ in range(2):
        counting.produce(400)
        scene.broker.kill()
        scene.broker.start()
    counting.produce(200)
    _require_rising(counting.wait_for_all())
    assert counting.application.driver.call("word_count_stop", instance="first")["error"] == ""


def _transaction_version(scene: Scene) -> int:
    """The level of the feature: with 2 clients speak as KIP-890 has it."""
    connection = scene.connection()
    told = connection.ask(ApiVersionsRequest(client_software_name="scene", client_software_version="1"), 4)
    connection.close()
    levels: dict[str, int] = {each.name: each.max_version_level for each in told.finalized_features}
    return levels["transaction.version"]


def _require_rising(counts: dict[str, list[int]]) -> None:
    """No count was written twice, and none after a higher one."""
    for word, written in counts.items():
        assert written == sorted(set(written)), f"{word} was counted {written}"
