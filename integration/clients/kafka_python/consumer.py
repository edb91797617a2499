"""A consumer as applications have it, for `kshim conform-client`: automatic commits, whatever the iterator raises ends it."""

from __future__ import annotations

import os

import kafka


def main() -> None:
    """Consume until ended."""
    consumer = kafka.KafkaConsumer(
        os.environ["KSHIM_TOPIC"],
        bootstrap_servers=os.environ["KSHIM_BOOTSTRAP_SERVERS"],
        group_id=os.environ["KSHIM_GROUP"],
        group_instance_id=os.environ["KSHIM_INSTANCE"] or None,
        auto_offset_reset="earliest",
        auto_commit_interval_ms=500,
    )
    for _ in consumer:
        pass


if __name__ == "__main__":
    main()
