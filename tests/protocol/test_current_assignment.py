"""The value of type 8 that is built straight from partitions is what the tables build."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kshim_protocol.frame import BuildError
from kshim_protocol.internal.consumer_group import ConsumerGroupCurrentMemberAssignmentValue, TopicPartitions
from kshim_protocol.internal.current_assignment import build_current_assignment
from kshim_protocol.internal.record_types import build_versioned_value

INT32 = st.integers(-(1 << 31), (1 << 31) - 1)
TOPIC_IDS = st.sampled_from([bytes([number]) * 16 for number in range(4)])
EPOCHS = st.dictionaries(st.tuples(TOPIC_IDS, INT32), INT32, max_size=150)


def by_topic(epochs: dict[tuple[bytes, int], int]) -> tuple[TopicPartitions, ...]:
    found: dict[bytes, dict[int, int]] = {}
    for (topic_id, index), epoch in sorted(epochs.items()):
        found.setdefault(topic_id, {})[index] = epoch
    return tuple(
        TopicPartitions(topic_id=topic_id, partitions=tuple(partitions), assignment_epochs=tuple(partitions.values()))
        for topic_id, partitions in found.items()
    )


@given(INT32, INT32, st.sampled_from([0, 1, 2, 127]), EPOCHS, EPOCHS)
def test_it_is_built_as_from_the_tables(
    epoch: int,
    previous_epoch: int,
    state: int,
    assigned: dict[tuple[bytes, int], int],
    pending: dict[tuple[bytes, int], int],
) -> None:
    value = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=epoch,
        previous_member_epoch=previous_epoch,
        state=state,
        assigned_partitions=by_topic(assigned),
        partitions_pending_revocation=by_topic(pending),
    )
    assert build_current_assignment(epoch, previous_epoch, state, assigned, pending) == build_versioned_value(value)


def test_more_partitions_than_one_byte_counts_are_built_as_from_the_tables() -> None:
    assigned = {(bytes(16), index): 7 for index in range(5_000)}
    value = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=7,
        previous_member_epoch=6,
        state=0,
        assigned_partitions=by_topic(assigned),
        partitions_pending_revocation=(),
    )
    assert build_current_assignment(7, 6, 0, assigned, {}) == build_versioned_value(value)


def test_a_number_that_does_not_fit_is_refused() -> None:
    with pytest.raises(BuildError):
        build_current_assignment(1 << 31, 0, 0, {}, {})
    with pytest.raises(BuildError):
        build_current_assignment(1, 0, 0, {(bytes(16), 1 << 31): 1}, {})
