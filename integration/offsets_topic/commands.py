"""`kshim dump-offsets` and `kshim import` as a user runs them, and what they gave."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from kshim.tools.logs.folder import FolderLogs
from kshim_protocol.records.scan import Batch

TOPIC = "__consumer_offsets"
_KSHIM = str(Path(sys.executable).with_name("kshim"))
_TIMEOUT_S = 120


def kshim(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command to its end; it must end with 0."""
    done = subprocess.run([_KSHIM, *arguments], capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    assert done.returncode == 0, f"{arguments} ended with {done.returncode}: {done.stderr}"
    return done


def dumped(*where: str, prefix: str) -> list[dict[str, Any]]:
    """The documents of all groups whose names begin with `prefix`."""
    documents = [json.loads(line) for line in kshim("dump-offsets", *where, "--output=json").stdout.splitlines()]
    return [document for document in documents if document.get("key", {}).get("group", "").startswith(prefix)]


def batches(directory: Path, topic: str = TOPIC) -> dict[int, list[bytes]]:
    """All batches below a directory, by partition; there must be no damage."""
    logs = FolderLogs([str(directory)])
    found = {partition: list(logs.read(topic, partition)) for partition in logs.partitions(topic)}
    return {
        partition: [batch.data for batch in pieces if isinstance(batch, Batch)]
        for partition, pieces in found.items()
        if all(isinstance(batch, Batch) for batch in pieces)
    }
