"""The value of a record of type 8 (ConsumerGroupCurrentMemberAssignment), built straight from what a member owns.

It is written whenever a member of a group of the new protocol takes a step, so it does not go through the tables.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

from kshim_protocol.compiler_source import uvarint
from kshim_protocol.frame import BuildError

_START = struct.Struct(">hiib")  # version, epoch, previous epoch, state
_NONE = b"\1"
_ONE_TAG = b"\1\0"  # one tagged field: that of the epochs, which has the number 0


def build_current_assignment(
    member_epoch: int,
    previous_member_epoch: int,
    state: int,
    assigned: Mapping[tuple[bytes, int], int],
    pending_revocation: Mapping[tuple[bytes, int], int],
) -> bytes:
    """The newest version, with its number in front. Partitions (id of a topic of 16 bytes, index) come with their epochs.

    Topics and partitions are written in order. Raises BuildError when a number does not fit.
    """
    try:
        start = _START.pack(0, member_epoch, previous_member_epoch, state)
        return b"".join((start, _topics(assigned), _topics(pending_revocation), b"\0"))
    except struct.error as error:
        raise BuildError(f"ConsumerGroupCurrentMemberAssignmentValue: {error}") from None


def _topics(epochs: Mapping[tuple[bytes, int], int]) -> bytes:
    if not epochs:
        return _NONE
    by_topic: dict[bytes, list[int]] = {}
    for topic_id, index in sorted(epochs):
        by_topic.setdefault(topic_id, []).append(index)
    parts = [uvarint(len(by_topic) + 1)]
    for topic_id, indexes in by_topic.items():
        count = uvarint(len(indexes) + 1)
        numbers = f">{len(indexes)}i"
        of_partitions = count + struct.pack(numbers, *[epochs[topic_id, index] for index in indexes])
        parts += (topic_id, count, struct.pack(numbers, *indexes), _ONE_TAG, uvarint(len(of_partitions)), of_partitions)
    return b"".join(parts)
