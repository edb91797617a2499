"""Segment files read by Java's own classes."""

from __future__ import annotations

from pathlib import Path

import pytest

from integration.support.jvm import Jvm
from kshim.storage.file import FileLog
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
