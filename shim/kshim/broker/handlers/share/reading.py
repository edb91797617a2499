"""What is read of a partition for a share group: whole batches, and which of them were aborted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from kshim.partitions.partition import Partition
from kshim.share_partitions.acquisition import Acquired
from kshim_protocol.records.batch import BatchHeader, parse_batch_header
from kshim_protocol.records.control import ControlType, parse_control_record
from kshim_protocol.records.record import iter_records


class Run(NamedTuple):
    """Batches in a row. `offsets` has the first and last offset of each, `places` where each begins in `data`.

    `aborted`: the offsets of those of aborted transactions.
    """

    data: bytes
    offsets: Sequence[tuple[int, int]]
    places: Sequence[int]
    aborted: Sequence[tuple[int, int]] = ()

    def batches_between(self, first: int, last: int) -> bytes:
        """The batches with records from `first` to `last`."""
        wanted = [place for place, (low, high) in enumerate(self.offsets) if low <= last and high >= first]
        if not wanted:
            return b""
        end = self.places[wanted[-1] + 1] if wanted[-1] + 1 < len(self.places) else len(self.data)
        return self.data[self.places[wanted[0]] : end]

    def without_aborted(self, ranges: Sequence[Acquired]) -> list[Acquired]:
        """Ranges without the records of aborted transactions."""
        found = []
        for one in ranges:
            at = one.first_offset
            for first, last in self.aborted:
                if last < at or first > one.last_offset:
                    continue
                if at < first:
                    found.append(one._replace(first_offset=at, last_offset=first - 1))
                at = last + 1
            if at <= one.last_offset:
                found.append(one._replace(first_offset=at))
        return found


NOTHING: Final = Run(b"", (), ())


def end_of(partition: Partition, *, reads_committed: bool) -> int:
    """Where what a group may read ends."""
    return partition.last_stable_offset if reads_committed else partition.high_watermark


def read_batches(
    partition: Partition, offset: int, max_bytes: int, *, at_least_one_batch: bool, reads_committed: bool
) -> Run:
    """From the batch with `offset` on. Raises OffsetOutOfRange, LogError, KafkaError."""
    end_offset = end_of(partition, reads_committed=reads_committed)
    if offset >= end_offset:
        return NOTHING
    data = partition.read(offset, end_offset, max_bytes, at_least_one_batch=at_least_one_batch)
    headers, places = [], []
    at = 0
    while at < len(data):
        header = parse_batch_header(data, at)
        if at + header.size_bytes > len(data) or header.base_offset >= end_offset:
            break
        headers.append(header)
        places.append(at)
        at += header.size_bytes
    if not headers:
        return NOTHING
    data = data[:at]
    offsets = [(header.base_offset, header.last_offset) for header in headers]
    aborted = _aborted(partition, offset, data, headers, places) if reads_committed else []
    return Run(data, offsets, places, aborted)


def _aborted(
    partition: Partition, offset: int, data: bytes, headers: Sequence[BatchHeader], places: Sequence[int]
) -> list[tuple[int, int]]:
    """First and last offset of each batch of an aborted transaction."""
    producers = partition.producers
    if producers is None or not producers.transactions.has_aborted:
        return []
    starts = sorted(
        (one.first_offset, one.producer_id)
        for one in producers.transactions.aborted_between(offset, headers[-1].last_offset + 1)
    )
    open_producers: set[int] = set()
    found = []
    for header, place in zip(headers, places, strict=True):
        while starts and starts[0][0] <= header.last_offset:
            open_producers.add(starts.pop(0)[1])
        if header.is_control:
            (record,) = iter_records(data[place : place + header.size_bytes])
            marker = parse_control_record(record)
            if marker is not None and marker.control_type is ControlType.ABORT:
                open_producers.discard(header.producer_id)
        elif header.is_transactional and header.producer_id in open_producers:
            found.append((header.base_offset, header.last_offset))
    return found
