"""Where a broker keeps its topics: both stores, with the methods that the broker's `Storage` names."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kshim.storage.directory import DataDirectory
from kshim.storage.directory_lock import DirectoryLocked
from kshim.storage.storage import Storage
from kshim.storage.stores import DirectoryStorage, MemoryStorage
from kshim.storage.topic_spec import TopicSpec
from tests.storage.builders import a_batch

ORDERS = TopicSpec("orders", bytes(range(16)), 2, {"segment.bytes": "14"})
MINIMUM = 1 << 20


def open_directory(path: Path) -> DirectoryStorage:
    return DirectoryStorage(DataDirectory.open(str(path), cluster_id="c", node_id=1), segment_bytes=MINIMUM)


@pytest.fixture(params=["memory", "directory"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Storage]:
    makers: dict[str, Callable[[], Storage]] = {
        "memory": MemoryStorage,
        "directory": lambda: open_directory(tmp_path / "data"),
    }
    made = makers[request.param]()
    yield made
    made.close()


def test_a_new_store_has_no_topics(storage: Storage) -> None:
    assert list(storage.load_topics()) == []


def test_a_log_of_a_new_topic_takes_batches(storage: Storage) -> None:
    storage.save_topics([ORDERS])
    log = storage.open_log("orders", 0)
    assert log.append(a_batch("x")) == 0
    assert log.end_offset > 0
    log.close()


def test_a_deleted_topic_comes_back_empty(storage: Storage) -> None:
    storage.save_topics([ORDERS])
    log = storage.open_log("orders", 1)
    log.append(a_batch("x"))
    log.close()
    storage.save_topics([])
    storage.delete_topics(["orders"])
    storage.save_topics([ORDERS])
    assert storage.open_log("orders", 1).end_offset == 0


def test_a_directory_remembers_topics_and_records(tmp_path: Path) -> None:
    first = open_directory(tmp_path)
    first.save_topics([ORDERS])
    log = first.open_log("orders", 0)
    log.append(a_batch("x"))
    end_offset = log.end_offset
    log.close()
    first.close()
    second = open_directory(tmp_path)
    assert list(second.load_topics()) == [ORDERS]
    assert second.open_log("orders", 0).end_offset == end_offset
    second.close()


def test_what_the_broker_changes_later_does_not_change_what_was_saved(tmp_path: Path) -> None:
    storage = open_directory(tmp_path)
    configs = {"cleanup.policy": "compact"}
    storage.save_topics([TopicSpec("a", bytes(16), 1, configs)])
    configs["cleanup.policy"] = "delete"
    assert [spec.configs for spec in storage.load_topics()] == [{"cleanup.policy": "compact"}]
    storage.close()


def test_a_topic_s_own_segment_size_wins_over_the_store_s(tmp_path: Path) -> None:
    storage = open_directory(tmp_path)
    storage.save_topics([ORDERS, TopicSpec("plain", bytes(16), 1, {})])
    assert storage.open_log("orders", 0).segment_bytes == 14
    assert storage.open_log("plain", 0).segment_bytes == MINIMUM
    storage.close()


def test_one_store_at_a_time_has_a_directory(tmp_path: Path) -> None:
    first = open_directory(tmp_path)
    with pytest.raises(DirectoryLocked):
        open_directory(tmp_path)
    first.close()
    open_directory(tmp_path).close()
