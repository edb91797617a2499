"""What `kshim pipeline watch` keeps of a fleet and spends on it, without Spark: a day of groups of a Kafka, which writes no events.

    python -m bench.detector [--groups 1000] [--hours 24] [--seed 7]

Each group has three to six members and six partitions. About every half hour one of them leaves or comes; partitions are
committed each minute. Records go to `kshim_pipeline.detector.memory` as Spark's micro-batches bring them, a minute at a time, and what
is kept is packed and unpacked each time, as Spark does. Printed: incidents told and their share of what was done, the memory of all groups
together and of the largest by the hour, and CPU microseconds a record.
"""

from __future__ import annotations

import argparse
import random
import time
from typing import Final

from kshim_pipeline.detector.memory import Memory, Row
from kshim_protocol.codec import codec
from kshim_protocol.internal.consumer import ConsumerProtocolAssignment, ConsumerProtocolSubscription, TopicPartition
from kshim_protocol.internal.group_metadata import GroupMetadataValue, MemberMetadata
from kshim_protocol.internal.records import build_group_metadata_key, build_offset_commit_key, build_offset_commit_value

MINUTE_MS: Final = 60_000
SESSION_MS: Final = 45_000
PARTITIONS: Final = 6
_START_MS: Final = 1_795_000_000_000
_SUBSCRIPTION: Final = b"\0\0" + codec(ConsumerProtocolSubscription, 0).build(
    ConsumerProtocolSubscription(topics=("orders",))
)


class Group:
    """A group that changes now and then."""

    def __init__(self, name: str, seed: int) -> None:
        self.name = name
        self._rng = random.Random(f"{seed}-{name}")
        self._members = [f"{name}-{number}" for number in range(self._rng.randint(3, 5))]
        self._came = len(self._members)
        self._generation = self._offset = 0
        self._next_ms = 0
        self.change_count = 0
        self.record_count = 0

    def minute(self, begin_ms: int) -> list[Row]:
        """The records of one minute."""
        rows: list[Row] = []
        if begin_ms >= self._next_ms:
            if begin_ms:
                self._change()
            rows.append(self._snapshot(begin_ms + self._rng.randrange(20_000)))
            self._next_ms = begin_ms + round(self._rng.expovariate(1 / 30)) * MINUTE_MS + MINUTE_MS
        at_ms = _START_MS + begin_ms + 30_000
        for partition in range(PARTITIONS):
            value = build_offset_commit_value(
                offset=self._offset, leader_epoch=-1, metadata="", commit_timestamp_ms=at_ms
            )
            rows.append(self._row(at_ms, build_offset_commit_key(self.name, "orders", partition), value))
        self.record_count += len(rows)
        return rows

    def _change(self) -> None:
        self.change_count += 1
        if len(self._members) > 3 and self._rng.random() < 0.5:
            self._members.pop(self._rng.randrange(len(self._members)))
        else:
            self._members.append(f"{self.name}-{self._came}")
            self._came += 1

    def _snapshot(self, at_ms: int) -> Row:
        self._generation += 1
        count = len(self._members)
        members = tuple(
            MemberMetadata(
                member_id=f"{client}-4c2d5f0e-3f9b-4f57-9a77-0c8fb6d1a111", client_id=client, client_host="/10.0.0.1",
                rebalance_timeout=300_000, session_timeout=SESSION_MS, subscription=_SUBSCRIPTION,
                assignment=_assignment(range(place, PARTITIONS, count)),
            )
            for place, client in enumerate(self._members)
        )  # fmt: skip
        value = GroupMetadataValue(
            protocol_type="consumer", generation=self._generation, protocol="range", leader=members[0].member_id,
            current_state_timestamp=_START_MS + at_ms - 20, members=members,
        )  # fmt: skip
        built = b"\0\3" + codec(GroupMetadataValue, 3).build(value)
        return self._row(_START_MS + at_ms, build_group_metadata_key(self.name), built)

    def _row(self, ts_ms: int, key: bytes, value: bytes) -> Row:
        self._offset += 1
        return Row(ts_ms, self._offset, key, value)


def _assignment(partitions: range) -> bytes:
    value = ConsumerProtocolAssignment(
        assigned_partitions=(TopicPartition(topic="orders", partitions=tuple(partitions)),)
    )
    return b"\0\0" + codec(ConsumerProtocolAssignment, 0).build(value)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.detector", description=__doc__)
    parser.add_argument("--groups", type=int, default=1_000)
    parser.add_argument("--hours", type=int, default=24)
    parser.add_argument("--seed", type=int, default=7)
    options = parser.parse_args()
    groups = [Group(f"group-{number:05d}", options.seed) for number in range(options.groups)]
    packed: list[bytes | None] = [None] * len(groups)
    told_count, spent_s = 0, 0.0
    identities: set[str] = set()
    for minute in range(options.hours * 60):
        for place, group in enumerate(groups):
            rows = group.minute(minute * MINUTE_MS)
            began_s = time.process_time()
            memory = Memory(group.name, packed[place])
            memory.add(rows, [])
            alerts = memory.told(_START_MS + (minute + 1) * MINUTE_MS, _START_MS + MINUTE_MS)
            packed[place] = memory.packed
            spent_s += time.process_time() - began_s
            told_count += len(alerts)
            identities.update(alert.identity for alert in alerts)
        if minute % 60 == 59:
            sizes = [len(each or b"") for each in packed]
            print(
                f"hour {minute // 60 + 1}: {sum(sizes) / 1e6:.1f} MB, the largest group {max(sizes) / 1e3:.0f} kB",
                flush=True,
            )
    changes, records = sum(group.change_count for group in groups), sum(group.record_count for group in groups)
    print(f"{told_count} incidents told, {told_count - len(identities)} of them twice, of {changes} changes")
    print(f"{records} records, {spent_s / records * 1e6:.1f} us of CPU each, {spent_s:.0f} s in all")


if __name__ == "__main__":
    main()
