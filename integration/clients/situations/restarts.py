"""The broker is killed and started again on the same port with the same data, under load."""

from __future__ import annotations

import contextlib
from collections import Counter

from integration.clients.application import Sent
from integration.clients.driver import DriverError
from integration.clients.members import Group, partitions_of
from integration.clients.scene import Scene
from integration.clients.situation import EITHER, Setting, situation

_PARTITIONS = 4
_RATE = 100
_KILLS = 2
_MORE = 3 * _RATE
_TIMEOUT_S = 120.0


@situation(
    "broker killed twice under load: no acknowledged record is lost or duplicated",
    setting=Setting.ALONE,
    protocols=EITHER,
)
def restart_under_load(scene: Scene) -> None:
    writer, reader = scene.application(), scene.application()
    topic = scene.topic(writer, _PARTITIONS)
    group = Group(scene.name("group"))
    for _ in range(2):
        group.start(reader, topic)
    group.settle(partitions_of(topic, _PARTITIONS))
    writer.start_load("load", topic, _RATE, idempotent=True)
    for _ in range(_KILLS):
        _wait_for_more(group)
        for member in group.members:
            with contextlib.suppress(DriverError):  # a rebalance may be going on
                reader.driver.call("member_commit", member=member.name)
        scene.broker.kill()
        scene.broker.start()
    _wait_for_more(group)
    acknowledged, failed = writer.stop_load("load")
    assert failed == set(), f"{len(failed)} sends failed, {sorted(failed)[:10]}"
    assert acknowledged == set(range(len(acknowledged)))
    group.wait_for_values(map(str, acknowledged), timeout_s=_TIMEOUT_S)
    read = reader.read(topic, dict.fromkeys(range(_PARTITIONS), "beginning"), len(acknowledged))
    counted = Counter(int(each.value or "") for each in read)
    assert counted == Counter(acknowledged), f"doubled: {[number for number, count in counted.items() if count > 1]}"
    for partition in range(_PARTITIONS):
        order = [int(each.value or "") for each in read if each.partition == partition]
        assert order == sorted(order), "out of order within a partition"
    group.settle(partitions_of(topic, _PARTITIONS))
    # An owner may still be at records that another one had before it: with these it is at the end.
    last = [Sent(f"last-{partition}", partition=partition) for partition in range(_PARTITIONS)]
    writer.produce(topic, last)
    group.wait_for_values([f"last-{partition}" for partition in range(_PARTITIONS)])
    for member in group.members:  # all before the first leaves, which sends the other back to what is committed
        reader.driver.call("member_commit", member=member.name)
    for member in list(group.members):
        group.stop(member)
    ends = reader.offsets(topic, range(_PARTITIONS), "end")
    committed = {partition.partition: offset for partition, offset in reader.group_offsets(group.group_id).items()}
    assert committed == ends


def _wait_for_more(group: Group) -> None:
    aim = len({record.value for record in group.records()}) + _MORE
    group.wait(
        "more records after the restart",
        lambda: len({record.value for record in group.records()}) >= aim,
        timeout_s=_TIMEOUT_S,
    )
