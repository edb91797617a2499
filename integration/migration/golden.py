"""Writes `tests/golden/migration.json`: the records of groups that migrate, from a running Kafka 4.4 and its files.

python -m integration.migration.golden HOST:PORT DATA_DIRECTORY
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, NamedTuple, cast

from integration.migration.members import Classic, New, World, mixed
from integration.offsets_topic.commands import batches
from integration.support.broker import Broker
from kshim_protocol.records.record import iter_records

GOLDEN = Path(__file__).resolve().parents[2] / "tests" / "golden" / "migration.json"


class _Running(NamedTuple):
    bootstrap: str


def there_and_back(world: World) -> str:
    """A group is upgraded, downgraded when the new member leaves, and rebalances. The id of its classic member."""
    classic, new = mixed(world)
    new.leave()
    classic.join()
    classic.send_sync(classic.assigned({"t": [0, 1, 2]}))
    return classic.member_id


def replaced(world: World) -> str:
    """A classic member takes the place of the last member of the new protocol. Its id."""
    New(world, "s", instance_id="i").join()
    classic = Classic(world, instance_id="i")
    classic.join()
    return classic.member_id


SCENES = (there_and_back, replaced)


def main(bootstrap: str, data: str) -> None:
    """Play each scene and write what Kafka wrote."""
    found: dict[str, Any] = {}
    for scene in SCENES:
        world = World(cast("Broker", _Running(bootstrap)))
        member_id = scene(world)
        written = len(world.group_id).to_bytes(2) + world.group_id.encode()
        records = [
            [record.key.hex(), None if record.value is None else record.value.hex()]
            for log in batches(Path(data)).values()
            for batch in log
            for record in iter_records(batch)
            if record.key is not None and record.key[2:].startswith(written)
        ]
        found[scene.__name__] = {
            "group": world.group_id,
            "topic": [world.topics["t"], world.ids["t"].hex()],
            "member": member_id,
            "records": records,
        }
        world.close()
    source = "Apache Kafka 4.4.0, integration/migration/golden.py"
    GOLDEN.write_text(json.dumps({"source": source, **found}, indent=1) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
