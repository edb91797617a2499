"""The same requests, in the same order, to kshim and to a real Kafka 4.4: the same answers are expected of both."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from integration.migration.members import INTERVAL_S, JOIN, Classic, New, World, alone, mixed
from integration.support.broker import Broker, Deadline
from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.leave_group import MemberIdentity

NONE, REBALANCE = ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS
UNKNOWN, ILLEGAL = ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION
INCONSISTENT, FENCED = ErrorCode.INCONSISTENT_GROUP_PROTOCOL, ErrorCode.FENCED_INSTANCE_ID
ALL = {"t": [0, 1, 2]}


@pytest.fixture
def world(broker: Broker) -> Iterator[World]:
    found = World(broker)
    yield found
    found.close()


# Upgrade


def test_an_eager_member_stays_while_its_group_is_taken_over(world: World) -> None:
    classic = alone(world)
    assert classic.commit(0, 7) is NONE
    new = New(world, "n")
    assert (new.join(), new.epoch) == ({}, 2)
    assert world.state() == ("Reconciling", 2, 2)
    assert (world.listed_type(), world.classic_state()[0]) == ("consumer", "Dead")
    assert classic.heartbeat() is REBALANCE
    reply = classic.join()
    assert (reply.generation_id, reply.leader, reply.members, reply.member_id) == (2, "", (), classic.member_id)
    assert (reply.protocol_type, reply.protocol_name, reply.skip_assignment) == ("consumer", "range", False)
    assert classic.synced() == (1, {"t": [0, 1]})
    assert classic.heartbeat() is NONE
    assert (new.heartbeat(owned={}), new.epoch) == ({"t": [2]}, 2)
    assert world.state() == ("Stable", 2, 2)
    members = {member.member_id: member for member in world.described().members}
    assert (members[classic.member_id].member_type, members["n"].member_type) == (0, 1)
    assert members[classic.member_id].subscribed_topic_regex == members["n"].subscribed_topic_regex
    assert (classic.commit(1, 8), world.offset_of(0), world.offset_of(1)) == (NONE, 7, 8)


def test_a_cooperative_member_gives_up_what_it_loses_before_another_gets_it(world: World) -> None:
    classic, new = alone(world), New(world, "n")
    new.join()
    classic.owned = ALL
    assert (classic.heartbeat(), classic.join().generation_id) == (REBALANCE, 1)
    assert classic.synced() == (1, {"t": [0, 1]})
    assert classic.heartbeat() is REBALANCE
    assert new.heartbeat(owned={}) is None
    classic.owned = {"t": [0, 1]}
    assert (classic.join().generation_id, classic.synced()) == (2, (1, {"t": [0, 1]}))
    assert (new.heartbeat(owned={}), world.state()) == ({"t": [2]}, ("Stable", 2, 2))


def test_what_waits_in_the_classic_group_is_answered(world: World) -> None:
    first, second = alone(world), Classic(world)
    second.member_id = second.send_join().member_id
    waits = world.connect()
    waits.send(second.join_request(), JOIN)
    deadline = Deadline(30)
    while first.heartbeat() is NONE:
        deadline.check("the group rebalances")
    new = New(world, "n")
    assert (new.join(), new.epoch) == ({}, 2)
    answer = waits.receive(30)
    waits.close()
    assert answer is not None
    assert answer.error_code == REBALANCE
    assert first.heartbeat() is REBALANCE
    assert (second.join().generation_id, first.join().generation_id) == (2, 2)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (
            lambda world: alone(world, protocol_type="connect"),
            "the group does not use the consumer embedded protocol.",
        ),
        (
            lambda world: alone(world, assignment=lambda member: b"\x00"),
            "the embedded consumer protocol is malformed.",
        ),
        (
            lambda world: alone(world, assignment=lambda member: member.assigned({"t": [0]}, user_data=b"x")),
            "an unsupported custom assignor is in use. Please refer to the documentation or switch to a default assignor "
            "before re-attempting the upgrade.",
        ),
    ],
    ids=["connect", "malformed", "user-data"],
)
def test_a_group_that_cannot_be_upgraded_stays_classic(
    world: World, make: Callable[[World], Classic], reason: str
) -> None:
    classic = make(world)
    reply = New(world, "n").try_to_join()
    assert (reply.error_code, reply.error_message) == (
        ErrorCode.GROUP_ID_NOT_FOUND,
        f"Cannot upgrade classic group {world.group_id} to consumer group because {reason}",
    )
    for epoch in (-1, 5):
        reply = New(world, "n").send(epoch=epoch)
        assert (reply.error_code, reply.error_message) == (
            ErrorCode.GROUP_ID_NOT_FOUND,
            f"Group {world.group_id} is not a consumer group.",
        )
    assert (classic.heartbeat(), world.classic_state()[0]) == (NONE, "Stable")


def test_a_subscription_that_is_malformed_and_a_partition_of_two_members(world: World) -> None:
    classic = Classic(world)
    classic.metadata = b"\x00"
    classic.join()
    classic.send_sync(classic.assigned(ALL))
    reply = New(world, "n").try_to_join()
    assert reply.error_message == (
        f"Cannot upgrade classic group {world.group_id} to consumer group because the embedded consumer protocol is "
        "malformed."
    )


# Members of the classic protocol in a group of the new one


def test_a_classic_member_comes_to_a_group_of_the_new_protocol(world: World) -> None:
    new = New(world, "n")
    assert new.join() == ALL
    classic = Classic(world)
    reply = classic.send_join()
    assert (reply.error_code, reply.generation_id, reply.leader) == (ErrorCode.MEMBER_ID_REQUIRED, -1, "")
    assert len(world.described().members) == 1
    time.sleep(INTERVAL_S)
    assert classic.join().generation_id == 3
    assert (classic.synced(), classic.heartbeat()) == ((1, {}), NONE)
    assert (new.heartbeat(owned=ALL), new.epoch) == ({"t": [0, 1]}, 2)
    assert classic.heartbeat() is NONE
    assert (new.heartbeat(owned={"t": [0, 1]}), new.epoch) == (None, 3)
    assert classic.heartbeat() is REBALANCE
    assert (classic.join().generation_id, classic.synced()) == (3, (1, {"t": [2]}))
    assert (classic.heartbeat(), world.state()) == (NONE, ("Stable", 3, 3))
    assert Classic(world).send_join(version=3).error_code == NONE


def test_who_may_not_join(world: World) -> None:
    mixed(world)
    for member, error in (
        (Classic(world, protocol_type="connect"), INCONSISTENT),
        (Classic(world, protocols=("roundrobin",)), INCONSISTENT),
        (Classic(world, protocols=()), INCONSISTENT),
    ):
        reply = member.send_join()
        assert (reply.error_code, reply.member_id, reply.generation_id) == (error, "", -1)
        member.member_id = "x"
        reply = member.send_join()
        assert (reply.error_code, reply.member_id) == (error, "")
    malformed = Classic(world, instance_id="i")
    malformed.metadata = b"\x00"
    assert malformed.send_join().error_code == INCONSISTENT
    unknown = Classic(world, instance_id="i")
    unknown.member_id = "x"
    assert unknown.send_join().error_code == UNKNOWN
    assert world.state() == ("Stable", 2, 2)


def test_heartbeats_syncs_and_commits_that_are_refused(world: World) -> None:
    classic, _ = mixed(world)
    assert classic.send_sync(protocol=("connect", "range")).error_code == INCONSISTENT
    assert classic.send_sync(protocol=("consumer", "roundrobin")).error_code == INCONSISTENT
    assert classic.send_sync(classic.assigned(ALL)).error_code == NONE
    classic.generation_id = 3
    assert (classic.heartbeat(), classic.send_sync().error_code, classic.commit(0, 1)) == (ILLEGAL, ILLEGAL, ILLEGAL)
    classic.generation_id, classic.member_id = 2, "n"
    assert (classic.heartbeat(), classic.send_sync().error_code) == (UNKNOWN, UNKNOWN)
    classic.member_id = "nobody"
    assert (classic.heartbeat(), classic.send_sync().error_code, classic.commit(0, 1)) == (UNKNOWN, UNKNOWN, UNKNOWN)
    classic.instance_id = "i"
    assert (classic.heartbeat(), classic.send_sync().error_code) == (UNKNOWN, UNKNOWN)


def test_a_member_that_must_join_again_cannot_sync_and_is_removed_when_it_does_not(world: World) -> None:
    classic, new = mixed(world, rebalance_timeout_ms=3_000)
    time.sleep(INTERVAL_S)
    other = New(world, "m")
    assert other.join() == {}
    assert classic.send_sync().error_code == REBALANCE
    deadline = Deadline(30)
    while (answer := classic.heartbeat()) is REBALANCE:
        deadline.check("the member is removed")
        new.heartbeat(owned={})
        time.sleep(0.2)
    assert answer is UNKNOWN


def test_a_member_that_does_not_sync_is_removed(world: World) -> None:
    New(world, "n").join()
    classic = Classic(world, rebalance_timeout_ms=2_000)
    classic.join()
    deadline = Deadline(30)
    while (answer := classic.heartbeat()) is NONE:
        deadline.check("the member is removed")
        time.sleep(0.2)
    assert answer is UNKNOWN


@pytest.mark.parametrize("version", [0, 1, 3])
def test_an_assignment_has_the_version_of_the_subscription(world: World, version: int) -> None:
    New(world, "n").join()
    time.sleep(INTERVAL_S)
    classic = Classic(world, "t", "u")
    classic.subscription_version = version
    classic.join()
    assert classic.synced() == (version, {"u": [0, 1, 2, 3]})


def test_leave_group_names_members_of_both_protocols(world: World) -> None:
    classic, _ = mixed(world)
    gone = [MemberIdentity(member_id=name) for name in (classic.member_id, classic.member_id, "nobody")]
    assert world.leave(*gone) == [NONE, NONE, UNKNOWN]
    assert world.state()[1] == 3
    assert world.leave(MemberIdentity(member_id="n")) == [NONE]
    assert world.state() == ("Empty", 4, 4)


# Static members


def test_static_members_change_the_protocol_in_both_directions(world: World) -> None:
    New(world, "n").join()
    static = New(world, "s", instance_id="i")
    static.join()
    time.sleep(INTERVAL_S)
    classic = Classic(world, instance_id="i")
    assert classic.join().generation_id in (2, 3)
    again = New(world, "s2", instance_id="i")
    again.join()
    assert again.epoch == classic.generation_id
    assert (classic.heartbeat(), classic.send_sync().error_code) == (FENCED, FENCED)
    assert classic.send_join().error_code == FENCED
    assert again.try_to_join().error_code == ErrorCode.UNRELEASED_INSTANCE_ID


# Downgrade


def test_when_the_last_member_of_the_new_protocol_leaves_the_classic_ones_rebalance(world: World) -> None:
    classic, new = mixed(world)
    new.leave()
    assert world.classic_state() == ("PreparingRebalance", "", 1)
    assert world.listed_type() == "classic"
    assert classic.heartbeat() is REBALANCE
    reply = classic.join()
    assert (reply.generation_id, reply.leader) == (3, classic.member_id)
    assert classic.send_sync(classic.assigned(ALL)).error_code == NONE
    assert world.classic_state() == ("Stable", "range", 1)
    assert (New(world, "n").join(), world.state()) == ({}, ("Reconciling", 4, 4))


def test_a_downgrade_by_leave_group(world: World) -> None:
    classic, _ = mixed(world)
    assert world.leave(MemberIdentity(member_id="n")) == [NONE]
    assert (world.classic_state()[0], classic.heartbeat()) == ("PreparingRebalance", REBALANCE)


def test_a_static_member_that_leaves_for_now_downgrades_nothing(world: World) -> None:
    alone(world)
    static = New(world, "s", instance_id="i")
    static.join()
    static.leave(-2)
    assert world.state()[1] == 2


def test_a_classic_member_takes_the_place_of_the_last_new_one(world: World) -> None:
    static = New(world, "s", instance_id="i")
    static.join()
    classic = Classic(world, instance_id="i")
    reply = classic.join()
    assert (reply.generation_id, reply.leader, reply.protocol_name) == (2, "", "range")
    assert world.classic_state() == ("Stable", "range", 1)
    assert (classic.heartbeat(), classic.synced()) == (NONE, (1, ALL))
    assert static.send().error_message == f"Group {world.group_id} is not a consumer group."


def test_what_others_are_still_to_get_then_does_not_reach_them(world: World) -> None:
    """Kafka rebalances only when the last member leaves: one that waits for partitions is never told of them."""
    New(world, "s", instance_id="i").join()
    time.sleep(INTERVAL_S)
    waiting = Classic(world)
    waiting.join()
    assert waiting.synced() == (1, {})
    time.sleep(INTERVAL_S)
    assert waiting.heartbeat() == NONE
    assert world.state()[0] == "Reconciling"
    assert Classic(world, instance_id="i").join().generation_id == waiting.generation_id
    for _ in range(2):
        assert world.classic_state() == ("Stable", "range", 2)
        assert waiting.heartbeat() == NONE
        time.sleep(INTERVAL_S)


def test_with_another_subscription_it_rebalances(world: World) -> None:
    New(world, "s", instance_id="i").join()
    classic = Classic(world, "u", instance_id="i")
    assert classic.join().generation_id == 0
    assert world.classic_state() == ("PreparingRebalance", "", 1)
    assert (classic.heartbeat(), classic.send_sync().error_code) == (ILLEGAL, ILLEGAL)
    assert classic.join().generation_id == 3
