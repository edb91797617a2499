"""Writes `tests/golden/streams_groups.json`: what a live Kafka 4.4 answered in each scene, and what it wrote.

python -m integration.streams.golden [SCENE ...]
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from integration.offsets_topic.commands import batches
from integration.streams.play import Play, encoded
from integration.streams.scenes import SCENES
from integration.support.kafka import RealKafka
from kshim_protocol.records.record import iter_records

GOLDEN = Path(__file__).resolve().parents[2] / "tests" / "golden" / "streams_groups.json"


def records_of(group_id: str, data: Path) -> list[list[str | None]]:
    """Key and value of all records of a group, in the order of its log."""
    written = len(group_id).to_bytes(2) + group_id.encode()
    return [
        [record.key.hex(), None if record.value is None else record.value.hex()]
        for log in batches(data).values()
        for batch in log
        for record in iter_records(batch)
        if record.key is not None and record.key[2:].startswith(written)
    ]


def main(names: Sequence[str]) -> None:
    """Play scenes, all unless some are named; what is known of others stays."""
    found: dict[str, Any] = json.loads(GOLDEN.read_text()) if names and GOLDEN.exists() else {}
    found["source"] = "Apache Kafka 4.4.0, integration/streams/golden.py"
    with tempfile.TemporaryDirectory() as folder:
        kafka = RealKafka(Path(folder))
        kafka.start()
        try:
            for scene in SCENES:
                if names and scene.__name__ not in names:
                    continue
                play = Play(kafka.bootstrap, f"golden-{scene.__name__}")
                scene(play)
                play.close()
                found[scene.__name__] = {
                    "group": play.group_id,
                    "steps": [encoded(asked) for asked in play.asked],
                    "records": records_of(play.group_id, kafka.data),
                }
                print(scene.__name__, len(play.asked))
        finally:
            kafka.kill()
    GOLDEN.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
