"""Streams groups beside Kafka's own classes: what tasks members are to run, and what becomes of a topology.

`KSHIM_ASSIGNOR_STREAMS_GROUPS` sets how many groups there are (200), each with seven targets, and `KSHIM_ASSIGNOR_SEED`
with which the first is made. There are five times as many topologies.
"""

from __future__ import annotations

import os
import random

import pytest

from integration.assignors.kafka_classes import KafkaClasses
from integration.assignors.streams import assigned_by_kafka, random_group
from integration.assignors.topologies import ours, random_question, theirs
from kshim.coordinator.groups.streams.task_assignor import assign_sticky

pytestmark = [pytest.mark.java, pytest.mark.timeout(3_600)]

GROUPS = int(os.environ.get("KSHIM_ASSIGNOR_STREAMS_GROUPS", "200"))
SEED = int(os.environ.get("KSHIM_ASSIGNOR_SEED", "1"))
CHANGES = 6


def test_members_are_to_run_the_same_tasks(kafka: KafkaClasses) -> None:
    for seed in range(SEED, SEED + GROUPS):
        source = random.Random(seed)
        group = random_group(source)
        for change in range(1 + CHANGES):
            target = assigned_by_kafka(kafka, group)
            ours = assign_sticky(group.in_order(), group.subtopologies, standby_replicas=group.standby_replicas)
            assert ours == target, (seed, change)
            group.change(source, target)


def test_topologies_have_the_same_tasks_topics_and_faults(kafka: KafkaClasses) -> None:
    answers = set()
    for seed in range(SEED, SEED + 5 * GROUPS):
        question = random_question(random.Random(seed))
        answer = theirs(kafka, question)
        assert ours(question) == answer, (seed, question)
        answers.add(answer.get("status") or answer.get("error"))
    assert answers >= {None, 1, 2, 3}
