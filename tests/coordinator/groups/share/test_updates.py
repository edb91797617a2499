"""Updates of share groups to bytes and back: the bytes are those that a live 4.4 wrote."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kshim.coordinator.groups.share.updates import (
    Current,
    GroupEpoch,
    MemberCurrent,
    MemberMetadata,
    MemberTarget,
    PartitionStates,
    ShareUpdate,
    StatePartitions,
    TargetEpoch,
    TopicState,
    build_share_update,
    parse_share_update,
)
from kshim_protocol.internal.share_group import (
    ShareGroupMemberMetadataValue,
    ShareGroupMetadataValue,
    ShareGroupTargetAssignmentMetadataValue,
)

TOPIC = bytes(range(16))

ids = st.binary(min_size=16, max_size=16)
partitions = st.frozensets(st.tuples(ids, st.integers(0, 2**31 - 1)), max_size=4)
epochs = st.integers(-1, 2**31 - 1)
topic_states = st.dictionaries(
    ids,
    st.builds(TopicState, st.text(max_size=5), st.frozensets(st.integers(0, 99), min_size=1, max_size=4)),
    max_size=3,
)
updates: st.SearchStrategy[ShareUpdate] = st.one_of(
    st.builds(
        MemberMetadata,
        st.text(max_size=5),
        st.none()
        | st.builds(
            ShareGroupMemberMetadataValue,
            rack_id=st.none() | st.text(max_size=5),
            client_id=st.text(max_size=5),
            client_host=st.text(max_size=5),
            subscribed_topic_names=st.lists(st.text(max_size=5), max_size=3).map(tuple),
        ),
    ),
    st.builds(
        GroupEpoch,
        st.none() | st.builds(ShareGroupMetadataValue, epoch=epochs, metadata_hash=st.integers(-(2**63), 2**63 - 1)),
    ),
    st.builds(
        TargetEpoch,
        st.none()
        | st.builds(
            ShareGroupTargetAssignmentMetadataValue,
            assignment_epoch=epochs,
            assignment_timestamp=st.integers(0, 2**40),
        ),
    ),
    st.builds(MemberTarget, st.text(max_size=5), st.none() | partitions),
    st.builds(MemberCurrent, st.text(max_size=5), st.none() | st.builds(Current, epochs, epochs, partitions)),
    st.builds(
        PartitionStates,
        st.none()
        | st.builds(StatePartitions, topic_states, topic_states, st.dictionaries(ids, st.text(max_size=5), max_size=3)),
    ),
)


@given(st.text(max_size=5), updates)
def test_an_update_is_the_same_after_it_was_a_record(group_id: str, update: ShareUpdate) -> None:
    assert parse_share_update(*build_share_update(group_id, update)) == (group_id, update)


@pytest.mark.parametrize(
    ("update", "key", "value"),
    [
        (
            GroupEpoch(ShareGroupMetadataValue(epoch=2, metadata_hash=1)),
            "000b000167",
            "0000" + "00000002" + "0000000000000001" + "00",
        ),
        (MemberCurrent("a", None), "000e0001670001" + "61", None),
        (
            MemberCurrent("a", Current(3, 2, frozenset({(TOPIC, 1), (TOPIC, 0)}))),
            "000e000167000161",
            "0000" + "00000003" + "00000002" + "00" + "02" + TOPIC.hex() + "03" + "00000000" + "00000001" + "0000",
        ),
        (
            PartitionStates(StatePartitions({}, {TOPIC: TopicState("t", frozenset({0}))}, {TOPIC: "t"})),
            "000f000167",
            "0000"
            + "01"
            + "02"
            + TOPIC.hex()
            + "0274"
            + "02"
            + "00000000"
            + "00"
            + "02"
            + TOPIC.hex()
            + "0274"
            + "00"
            + "00",
        ),
    ],
)
def test_the_bytes_are_kafkas(update: ShareUpdate, key: str, value: str | None) -> None:
    built_key, built_value = build_share_update("g", update)
    assert built_key.hex() == key
    assert (None if built_value is None else built_value.hex()) == value


def test_records_of_other_types_are_not_of_a_share_group() -> None:
    assert parse_share_update(bytes.fromhex("0003000167"), None) is None
