"""An OffsetFetch that repeats the last one on its connection takes a short way: the same answers as by its handler."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kshim.broker.request import OFFSET_FETCH
from kshim_protocol.group_requests import Committed, GroupMember, OffsetsOf, offset_fetch
from tests.broker.harness import a_node
from tests.broker.pair import Pair, frame_of

VERSIONS = range(1, 11)
TOPICS = {"orders": 3, "bills": 1}
NO_TOPIC = bytes(15) + b"\1"
ALL_OF = OffsetsOf("g", {"orders": (0, 1, 2)}.items())


def fetch_frame(
    pair: Pair, version: int, groups: list[OffsetsOf], *, require_stable: bool = False, client_id: str | None = "tester"
) -> bytes:
    topics = pair.nodes[0].cluster.topics
    request = offset_fetch(
        version, groups, topic_id=lambda name: topics.topic_id(name) or NO_TOPIC, require_stable=require_stable
    )
    return frame_of(request, version, client_id)


def commit(pair: Pair, group_id: str, topic: str, *positions: Committed) -> None:
    pair.send(frame_of(GroupMember(group_id).commit(7, [(topic, positions)]), 7))


def a_pair() -> Pair:
    pair = Pair(TOPICS)
    commit(pair, "g", "orders", Committed(0, 5), Committed(1, 6, "some"))
    return pair


@st.composite
def groups_to_fetch(draw: st.DrawFn) -> list[OffsetsOf]:
    topics = st.dictionaries(
        st.sampled_from(["orders", "bills", "none", ""]), st.sampled_from([(0,), (0, 1, 2), (2, 0), (0, 0), (-1,), ()])
    )
    asked = st.builds(
        OffsetsOf,
        st.sampled_from(["g", "g", "g", "other", ""]),
        st.one_of(st.none(), topics.map(dict.items)),
        st.sampled_from([None, None, "member"]),
        st.sampled_from([-1, -1, 3]),
    )
    return draw(st.lists(asked, min_size=1, max_size=3))


@given(st.data())
def test_any_requests_are_answered_as_by_the_handler(data: st.DataObject) -> None:
    pair = a_pair()
    for _ in range(data.draw(st.integers(1, 6))):
        frame = fetch_frame(
            pair,
            data.draw(st.sampled_from(VERSIONS)),
            data.draw(groups_to_fetch()),
            require_stable=data.draw(st.booleans()),
            client_id=data.draw(st.sampled_from(["tester", "", None])),
        )
        if data.draw(st.integers(0, 7)) == 0:
            frame = frame[:8] + data.draw(st.binary(max_size=60))
        for _ in range(data.draw(st.integers(1, 3))):
            pair.send(frame)
            match data.draw(st.sampled_from(["", "commit", "topics", "time"])):
                case "commit":
                    offset = data.draw(st.integers(0, 1 << 40))
                    topic = data.draw(st.sampled_from(list(TOPICS)))
                    commit(pair, data.draw(st.sampled_from(["g", "other"])), topic, Committed(0, offset))
                case "topics":
                    for node in pair.nodes:
                        if (bills := node.cluster.topics.named("bills")) is not None:
                            node.cluster.delete_topic(bills, node.now)
                        else:
                            node.topic("bills")
                case "time":
                    pair.pass_ms(10 * 24 * 3_600_000)
                case _:
                    pass


@pytest.mark.parametrize("version", VERSIONS)
def test_what_is_answered_changes_with_what_is_committed_although_the_bytes_are_the_same(version: int) -> None:
    pair = a_pair()
    frame = fetch_frame(pair, version, [ALL_OF])
    answers = []
    for offset in range(3):
        commit(pair, "g", "orders", Committed(0, offset))
        answers += pair.send(frame)
        assert pair.takes_short_way(frame)
    assert len(set(answers)) == 3


@pytest.mark.parametrize("version", VERSIONS)
def test_a_group_that_nobody_uses_is_left_to_the_handler(version: int) -> None:
    pair = a_pair()
    frame = fetch_frame(pair, version, [OffsetsOf("other", ALL_OF.partitions)])
    pair.send(frame)
    assert not pair.takes_short_way(frame)


def test_a_shard_that_is_not_there_any_more_is_not_asked() -> None:
    pair = a_pair()
    frame = fetch_frame(pair, 9, [ALL_OF])
    pair.send(frame)
    pair.unload("g")
    assert not pair.takes_short_way(frame)
    pair.send(frame)


def test_answers_that_wait_until_they_are_safe_are_left_to_the_handler() -> None:
    pair = a_pair()
    frame = fetch_frame(pair, 9, [ALL_OF])
    pair.send(frame)
    assert pair.takes_short_way(frame)
    pair.nodes[0].cluster.durability.replies_wait = True
    assert not pair.takes_short_way(frame)


def test_long_requests_are_not_kept() -> None:
    pair = a_pair()
    pair.send(fetch_frame(pair, 7, [OffsetsOf("g", {"orders": range(1_000)}.items())]))
    assert pair.clients()[0].client.last_offset_fetch is None
    pair.send(fetch_frame(pair, 7, [ALL_OF]))
    assert pair.clients()[0].client.last_offset_fetch is not None


def test_only_a_node_that_leads_all_groups_has_it_and_only_where_nobody_wants_to_hear_of_requests() -> None:
    node = a_node().node
    assert node.resolve(OFFSET_FETCH, 9).usual is not None  # type: ignore[union-attr]
    node.intercept(lambda api, handler: handler)
    assert node.resolve(OFFSET_FETCH, 9).usual is None  # type: ignore[union-attr]
    assert a_node(node_count=2).node.resolve(OFFSET_FETCH, 9).usual is None  # type: ignore[union-attr]
