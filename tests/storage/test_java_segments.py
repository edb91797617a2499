"""Segment files read by Java's own classes."""

from __future__ import annotations

from pathlib import Path

import pytest

from integration.support.jvm import Jvm
from kshim.storage.file_log import FileLog
from kshim_protocol.records.compression import Compression
from tests.storage.builders import a_batch

pytestmark = pytest.mark.java


def test_java_reads_our_segments(jvm: Jvm, tmp_path: Path) -> None:
    log = FileLog(str(tmp_path / "topic-0"), segment_bytes=500)
    for codec in Compression:
        log.append(a_batch("a", "b", "c", compression=codec))
        log.append(a_batch("d"))
    log.close()
    classes = jvm.classes
    found = []
    for path in sorted((tmp_path / "topic-0").glob("*.log")):
        records = classes.org.apache.kafka.common.record.internal.FileRecords.open(classes.java.io.File(str(path)))
        iterator = records.batches().iterator()
        while iterator.hasNext():
            batch = iterator.next()
            batch.ensureValid()
            found.append((int(path.stem) <= batch.baseOffset(), batch.baseOffset(), batch.lastOffset()))
        records.close()
    assert found == [(True, 4 * i + at, 4 * i + end) for i in range(5) for at, end in ((0, 2), (3, 3))]


def test_kafka_s_indexes_find_in_our_files_what_is_there(jvm: Jvm, tmp_path: Path) -> None:
    log = FileLog(str(tmp_path / "topic-0"), segment_bytes=60_000)
    for i in range(1_500):
        log.append(a_batch(*"abc"[: 1 + i % 3], timestamp_ms=1_000 + 7 * i, pad=i % 50))
    log.close()
    indexes = jvm.classes.org.apache.kafka.storage.internals.log
    for path in sorted((tmp_path / "topic-0").glob("*.log")):
        base_offset = int(path.stem)
        segment = next(one for one in log.segments() if one.base_offset == base_offset)
        offsets = indexes.OffsetIndex(jvm.classes.java.io.File(str(path.with_suffix(".index"))), base_offset)
        times = indexes.TimeIndex(jvm.classes.java.io.File(str(path.with_suffix(".timeindex"))), base_offset, -1, False)
        try:
            offsets.sanityCheck()
            times.sanityCheck()
            assert times.lastEntry().timestamp() == segment.max_timestamp_ms
            assert offsets.entries() == len(segment.index) > 0
            for offset in range(base_offset, segment.end_offset, 97):
                found = offsets.lookup(offset)
                assert (found.position(), found.offset() <= offset) == (segment.index.before_offset(offset)[0], True)
        finally:
            offsets.close()
            times.close()
    log.close()
