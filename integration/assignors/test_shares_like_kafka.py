"""Share groups beside Kafka's own assignor: which partitions members are to read.

`KSHIM_ASSIGNOR_SHARE_GROUPS` sets how many groups there are (300), each with seven targets, and `KSHIM_ASSIGNOR_SEED` with
which the first is made.
"""

from __future__ import annotations

import os
import random

import pytest

from integration.assignors.kafka_classes import KafkaClasses
from integration.assignors.shares import ShareGroup, assigned_by_kafka
from kshim.coordinator.groups.share.simple_assignor import assign_simply

pytestmark = [pytest.mark.java, pytest.mark.timeout(3_600)]

GROUPS = int(os.environ.get("KSHIM_ASSIGNOR_SHARE_GROUPS", "300"))
SEED = int(os.environ.get("KSHIM_ASSIGNOR_SEED", "1"))
CHANGES = 6


def test_members_are_to_read_the_same_partitions(kafka: KafkaClasses) -> None:
    for seed in range(SEED, SEED + GROUPS):
        group = ShareGroup(random.Random(seed))
        for change in range(1 + CHANGES):
            target = assigned_by_kafka(kafka, group)
            assert assign_simply(group.members, group.assignable) == target, (seed, change)
            group.change(target)
