"""ENOSPC and EIO, on writes and on syncs, under real clients: nothing acknowledged is lost, nobody else is disturbed."""

from __future__ import annotations

import errno
import time
from pathlib import Path
from typing import Any, get_args

import pytest

from integration.durability.bad_disk import TOPIC, Committer, Producer, running_broker
from kshim.coordinator.step import OFFSETS_TOPIC
from kshim.partitions.durability import FsyncPolicy
from kshim.tools.client import Client
from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from kshim_protocol.partitioner import partition_for
from kshim_protocol.records.batch import iter_batches
from kshim_protocol.records.record import iter_records
from tests.broker.data_plane import fetch_of
from tests.broker.unsafe_disk import UnsafeDisk

SICK_GROUP, WELL_GROUP = "broken", "fine"
SICK_PARTITION, WELL_PARTITION = 0, 1
FOLDERS = (f"{OFFSETS_TOPIC}-{partition_for(SICK_GROUP, 10)}", f"{TOPIC}-{SICK_PARTITION}")
UNTIL_IT_LOADS = {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE}


class Load:
    """Two groups and two partitions under load; a half of each is on the disk that fails."""

    def __init__(self, port: int) -> None:
        self.sick: tuple[Any, Any] = (Committer(port, SICK_GROUP), Producer(port, SICK_PARTITION))
        self.well: tuple[Any, Any] = (Committer(port, WELL_GROUP), Producer(port, WELL_PARTITION))
        for load in (*self.sick, *self.well):
            load.start()

    def go_on(self) -> None:
        """Until every one has been answered some more times."""
        for load in (*self.sick, *self.well):
            count = load.answered
            _wait(lambda load=load, count=count: load.answered > count + 3)

    def until_refused(self) -> None:
        """Until the sick half is refused something."""
        for load in self.sick:
            count = load.refused
            _wait(lambda load=load, count=count: load.refused > count)

    def until_served(self) -> None:
        """Until the sick half is well again."""
        for load in self.sick:
            count = load.answered - load.refused
            _wait(lambda load=load, count=count: load.answered - load.refused > count + 3)

    def stop(self) -> None:
        for load in (*self.sick, *self.well):
            load.stop()


def _wait(is_so: Any) -> None:
    deadline = time.monotonic() + 20
    while not is_so():
        assert time.monotonic() < deadline, "never happened"
        time.sleep(0.002)


def require_everything(port: int, load: Load) -> None:
    client = Client("127.0.0.1", port, client_id="check")
    for committer in (load.sick[0], load.well[0]):
        wanted = OffsetFetchRequestTopics(name=TOPIC, partition_indexes=(0,))
        request = OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group_id=committer.group_id, topics=(wanted,)),))
        group = client.ask(request, 8).groups[0]
        while group.error_code in UNTIL_IT_LOADS:
            time.sleep(0.01)
            group = client.ask(request, 8).groups[0]
        assert group.error_code == ErrorCode.NONE
        assert group.topics[0].partitions[0].committed_offset >= committer.acknowledged
    for producer in (load.sick[1], load.well[1]):
        found: dict[int, bytes | None] = {}
        while producer.acknowledged and max(found, default=-1) < max(producer.acknowledged):
            request_ = fetch_of((TOPIC, producer.index, max(found, default=-1) + 1))
            (answer,) = client.ask(request_, 12).responses[0].partitions
            assert answer.error_code == ErrorCode.NONE
            new = {r.offset: r.value for batch in iter_batches(answer.records) for r in iter_records(batch)}
            assert new, f"{producer.index} ends at {len(found)}"
            found.update(new)
        assert found.items() >= producer.acknowledged.items()
    client.close()


def fail(disk: UnsafeDisk, how: str) -> None:
    if how == "fsync":
        disk.unsafe.update(FOLDERS)
    else:
        disk.unwritable.update(dict.fromkeys(FOLDERS, errno.ENOSPC if how == "full" else errno.EIO))


def mend(disk: UnsafeDisk) -> None:
    disk.unsafe.clear()
    disk.unwritable.clear()


@pytest.mark.parametrize("how", ["full", "write", "fsync"])
@pytest.mark.parametrize("fsync", get_args(FsyncPolicy))
def test_a_disk_that_fails_takes_nothing_that_was_acknowledged(tmp_path: Path, fsync: FsyncPolicy, how: str) -> None:
    disk = UnsafeDisk(tmp_path)
    defects: list[BaseException] = []
    with running_broker(tmp_path, fsync, disk, defects) as port:
        load = Load(port)
        for _ in range(2):
            load.go_on()
            fail(disk, how)
            if not (how == "fsync" and fsync == "never"):  # nothing is synced, so nothing fails
                load.until_refused()
            load.go_on()
            mend(disk)
            load.until_served()
        load.stop()
        require_everything(port, load)
    assert load.well[0].errors == load.well[1].errors == {ErrorCode.NONE}
    assert load.sick[1].errors <= {ErrorCode.NONE, ErrorCode.KAFKA_STORAGE_ERROR}
    assert bool(defects) == (len(load.sick[1].errors) > 1)
    with running_broker(tmp_path, fsync, UnsafeDisk(tmp_path), defects) as port:
        require_everything(port, load)
