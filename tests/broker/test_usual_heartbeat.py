"""A Heartbeat of the usual shape takes a short way: the same answers, deadlines and events as by its handler."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kshim.broker.request import HEARTBEAT
from kshim_protocol.errors import ErrorCode
from kshim_protocol.group_requests import Committed, GroupMember, OffsetsOf, offset_fetch
from tests.broker.data_plane import fetch_of
from tests.broker.harness import a_node
from tests.broker.pair import Pair, frame_of

VERSIONS = range(5)
SESSION_TIMEOUT_MS = 10_000
NOBODY = GroupMember("g", "nobody", 1)


@dataclass
class Group:
    """Members of one group, each with a connection, as they know themselves."""

    pair: Pair
    members: list[GroupMember]

    def join(self, number: int, instance_id: str | None = None) -> None:
        """A member joins, and gets its assignment if nobody has to be waited for."""
        member = GroupMember("g", self.members[number].member_id, group_instance_id=instance_id)
        reply = self.pair.ask(member.join(9, [("range", b"meta")], session_timeout_ms=SESSION_TIMEOUT_MS), 9, number)
        if reply is not None and reply.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.members[number] = member._replace(member_id=reply.member_id)
            self.join(number, instance_id)
        elif reply is not None and reply.error_code == ErrorCode.NONE:
            member = member._replace(member_id=reply.member_id, generation_id=reply.generation_id)
            self.members[number] = member
            self.pair.ask(member.sync(5, [(reply.member_id, b"all")] if reply.members else []), 5, number)


def a_group(connections: int = 3) -> Group:
    pair = Pair({"orders": 1}, connections=connections)
    return Group(pair, [GroupMember("g")] * connections)


@given(st.data())
def test_any_heartbeats_are_answered_as_by_the_handler(data: st.DataObject) -> None:
    group = a_group()
    group.join(0, data.draw(st.sampled_from([None, "first"])))
    numbers = st.integers(0, 2)
    for _ in range(data.draw(st.integers(1, 12))):
        what = data.draw(st.sampled_from(["heartbeat"] * 6 + ["join", "leave", "time"]))
        number = data.draw(numbers)
        if what in ("join", "leave") and group.pair.is_waiting(number):
            continue
        if what == "join":
            group.join(number, data.draw(st.sampled_from([None, "first", "second"])))
        elif what == "leave":
            group.pair.ask(group.members[number].leave(5), 5, number)
        elif what == "time":
            group.pair.pass_ms(data.draw(st.sampled_from([0, 1, 2_000, SESSION_TIMEOUT_MS - 1, SESSION_TIMEOUT_MS])))
        else:
            member = group.members[number]
            member = data.draw(
                st.sampled_from(
                    [
                        member,
                        member,
                        member._replace(generation_id=member.generation_id + 1),
                        member._replace(group_instance_id="first"),
                        member._replace(group_id="other"),
                        member._replace(group_id=""),
                        NOBODY,
                    ]
                )
            )
            version = data.draw(st.sampled_from(VERSIONS))
            if version < 3:
                member = member._replace(group_instance_id=None)
            client_id = data.draw(st.sampled_from(["tester", "another", "", None]))
            frame = frame_of(member.heartbeat(version), version, client_id, data.draw(st.integers(-1, 5)))
            if data.draw(st.integers(0, 7)) == 0:
                frame = frame[:8] + data.draw(st.binary(max_size=40))
            for _ in range(data.draw(st.integers(1, 3))):
                group.pair.send(frame, data.draw(st.sampled_from([number, number, 0, 2])))


@pytest.mark.parametrize("version", VERSIONS)
def test_what_is_answered_changes_with_the_group_although_the_bytes_are_the_same(version: int) -> None:
    group = a_group(2)
    group.join(0)
    pair = group.pair
    frame = frame_of(group.members[0].heartbeat(version), version)
    answers = [pair.send(frame)[0] for _ in range(2)]
    assert answers[0] == answers[1]
    assert pair.takes_short_way(frame)
    for client in pair.clients():
        client.frames.clear()
    pair.nodes[1].node.route(frame, pair.clients()[1], pair.nodes[1].now, 0)
    group.join(1)  # and the first has to join again, but only until
    (told,) = pair.send(frame)
    assert told != answers[0]
    assert pair.takes_short_way(frame)
    pair.nodes[1].node.route(frame, pair.clients()[1], pair.nodes[1].now, 0)
    pair.pass_ms(60_000)  # its time for that is over
    assert not pair.takes_short_way(frame)
    pair.send(frame)


def test_a_session_goes_on_from_each() -> None:
    group = a_group(1)
    group.join(0)
    frame = frame_of(group.members[0].heartbeat(4), 4)
    for _ in range(5):
        group.pair.send(frame)
        group.pair.pass_ms(SESSION_TIMEOUT_MS - 1)
    assert group.pair.takes_short_way(frame)


def test_other_members_on_the_same_connection_take_the_long_way_once() -> None:
    group = a_group(2)
    group.join(0)
    frame = frame_of(group.members[0].heartbeat(4), 4)
    pair = group.pair
    pair.send(frame)
    pair.ask(NOBODY.heartbeat(4), 4)
    assert not pair.takes_short_way(frame)
    pair.send(frame)
    assert pair.takes_short_way(frame)


def test_a_shard_that_is_not_there_any_more_is_not_asked() -> None:
    group = a_group(1)
    group.join(0)
    frame = frame_of(group.members[0].heartbeat(4), 4)
    pair = group.pair
    pair.send(frame)
    pair.unload("g")
    assert not pair.takes_short_way(frame)
    pair.send(frame)


def test_answers_that_wait_until_they_are_safe_are_left_to_the_handler() -> None:
    group = a_group(1)
    group.join(0)
    frame = frame_of(group.members[0].heartbeat(4), 4)
    pair = group.pair
    pair.send(frame)
    pair.nodes[0].cluster.durability.replies_wait = True
    assert not pair.takes_short_way(frame)


def test_long_requests_are_not_kept() -> None:
    group = a_group(1)
    pair = group.pair
    pair.send(frame_of(NOBODY._replace(group_id="g" * 2_000).heartbeat(4), 4))
    assert pair.clients()[0].client.last_heartbeat is None


def test_nothing_is_kept_of_a_connection_that_has_ended() -> None:
    group = a_group(1)
    group.join(0)
    pair, client = group.pair, group.pair.clients()[0].client
    pair.send(frame_of(group.members[0].heartbeat(4), 4))
    pair.ask(offset_fetch(7, [OffsetsOf("g", None)]), 7)
    for _ in range(2):  # the first of a connection is the handler's
        pair.ask(fetch_of(("orders", 0, 0), session_epoch=-1), 12)
    pair.ask(group.members[0].commit(8, [("orders", [Committed(0, 1)])]), 8)
    kept = ("last_heartbeat", "last_offset_fetch", "last_fetch", "last_commit")
    assert all(getattr(client, name) is not None for name in kept)
    client.closed("client")
    assert all(getattr(client, name) is None for name in kept)


def test_only_a_node_that_leads_all_groups_has_it_and_only_where_nobody_wants_to_hear_of_requests() -> None:
    node = a_node().node
    assert node.resolve(HEARTBEAT, 4).usual is not None  # type: ignore[union-attr]
    node.intercept(lambda api, handler: handler)
    assert node.resolve(HEARTBEAT, 4).usual is None  # type: ignore[union-attr]
    assert a_node(node_count=2).node.resolve(HEARTBEAT, 4).usual is None  # type: ignore[union-attr]
