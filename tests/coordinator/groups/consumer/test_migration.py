"""Groups with members change their protocol, in both directions. Epochs, errors and records are those of a live 4.4."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from kshim.coordinator.groups.consumer.state import MemberState
from kshim.coordinator.groups.consumer.updates import parse_update
from kshim.coordinator.groups.events import GroupConverted, MemberRemoved, MemberReplaced, Transition
from kshim_protocol.codec import codec
from kshim_protocol.errors import ErrorCode
from kshim_protocol.internal.consumer import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
)
from kshim_protocol.internal.group_metadata import GroupMetadataKey
from kshim_protocol.internal.records import parse_key, parse_value
from kshim_protocol.messages.describe_groups import DescribeGroupsRequest
from kshim_protocol.messages.heartbeat import HeartbeatRequest
from kshim_protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kshim_protocol.records.record import iter_records
from tests.coordinator.groups.consumer.test_heartbeat import INTERVAL_MS, SESSION_MS, World, refusal
from tests.coordinator.groups.consumer.test_records import STABLE, UNREVOKED, row
from tests.coordinator.peers import Peer
from tests.coordinator.rules import covers

Owned = Mapping[str, Sequence[int]]
NONE, REBALANCE = ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS
UNKNOWN, ILLEGAL = ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION
INCONSISTENT, NOT_FOUND = ErrorCode.INCONSISTENT_GROUP_PROTOCOL, ErrorCode.GROUP_ID_NOT_FOUND
RETRY = ErrorCode.NOT_ENOUGH_REPLICAS
UNRELEASED = MemberState.UNRELEASED_PARTITIONS
SESSION_OF_CLASSIC_MS, REBALANCE_MS = 10_000, 60_000


def assigned(partitions: Owned, *, version: int = 1, user_data: bytes | None = None) -> bytes:
    entries = tuple(TopicPartition(topic=topic, partitions=tuple(found)) for topic, found in partitions.items())
    value = ConsumerProtocolAssignment(assigned_partitions=entries, user_data=user_data)
    return version.to_bytes(2) + codec(ConsumerProtocolAssignment, version).build(value)


def read_assignment(data: bytes) -> tuple[int, dict[str, list[int]]]:
    """Its version, and the partitions by topic."""
    version = int.from_bytes(data[:2])
    value, end = codec(ConsumerProtocolAssignment, version).parse(data, 2)
    assert end == len(data)
    return version, {entry.topic: list(entry.partitions) for entry in value.assigned_partitions}


class Classic(Peer):
    """A consumer of the classic protocol; it says what it owns, as cooperative ones do, once `owns` was called."""

    def __init__(self, world: World, name: str, *topics: str, **options: Any) -> None:
        self.topics = topics or ("t",)
        super().__init__(world, name, protocols={"range": b""}, **options)
        self.owns({})

    def owns(self, partitions: Owned, *, version: int = 1, rack: str | None = None) -> None:
        entries = tuple(TopicPartition(topic=topic, partitions=tuple(found)) for topic, found in partitions.items())
        value = ConsumerProtocolSubscription(topics=self.topics, owned_partitions=entries, rack_id=rack)
        self.protocols["range"] = version.to_bytes(2) + codec(ConsumerProtocolSubscription, version).build(value)

    def joined(self) -> int:
        """The generation that a JoinGroup brings."""
        return self.take(self.join()).generation_id

    def synced(self) -> dict[str, list[int]]:
        call = self.send_sync()
        assert call.error is NONE, call.reply
        return read_assignment(call.reply.assignment)[1]


def stable(world: World, *members: Classic, assignments: Sequence[bytes] = ()) -> None:
    """A classic group of these members, which know their assignments; the first leads."""
    joined: list[Classic] = []
    for member in members:
        joined.append(member)
        calls = [(peer, peer.join()) for peer in reversed(joined)]
        for peer, call in calls:
            peer.take(call)
    given = {member.member_id: data for member, data in zip(members, assignments, strict=False)}
    for member in members:
        member.send_sync(given if member is members[0] else None, protocol_type=member.protocol_type)


def one_classic_member(world: World, *topics: str, **options: Any) -> Classic:
    """A group of generation 1 with a member that has all three partitions of `t`."""
    member = Classic(world, "c", *topics, **options)
    stable(world, member, assignments=[assigned({"t": [0, 1, 2]})])
    assert member.heartbeat() is NONE
    return member


def mixed(world: World, **options: Any) -> Classic:
    """A classic member and `n`, one of the new protocol; both are at epoch 2, and `c` has {0, 1}."""
    member = one_classic_member(world, **options)
    world.join("n", "t")
    member.joined()
    member.synced()
    world.heartbeat("n", 2, owned={})
    assert (member.generation_id, world.state()) == (2, ("Stable", 2, 2))
    return member


def written(world: World) -> list[list[tuple[object, ...]]]:
    """Each batch, with what matters of its records of groups."""
    return [
        [found for record in iter_records(batch) if (found := written_row(record.key or b"", record.value)) is not None]
        for log in world.logs.values()
        for batch in log
    ]


def written_row(key: bytes, value: bytes | None) -> tuple[object, ...] | None:
    found = parse_update(key, value)
    if found is not None:
        return row(found[1])
    parsed = parse_key(key)
    if not isinstance(parsed, GroupMetadataKey):
        return None if key[1] == 1 else (key[1],)
    if value is None:
        return 2, None
    group = parse_value(parsed, value)
    return 2, group.generation, group.protocol, group.leader, [member.member_id for member in group.members]


# Upgrade


def test_a_member_of_the_new_protocol_takes_a_classic_group_over() -> None:
    world = World()
    member = one_classic_member(world, version=9)
    assert world.told(world.join("n", "t")) == (2, {})
    assert world.state() == ("Reconciling", 2, 2)
    name = member.member_id
    assert written(world)[-1] == [
        (2, None),
        (5, name, None, ("t",), None),
        (3, 1),
        (7, name, [0, 1, 2]),
        (6, (1, False)),
        (8, name, (1, 1, STABLE, {0: 1, 1: 1, 2: 1}, {})),
        (5, "n", None, ("t",), None),
        (3, 2),
        (7, name, [0, 1]),
        (7, "n", [2]),
        (6, (2, True)),
        (8, "n", (2, 0, UNRELEASED, {}, {})),
    ]
    described = {found.member_id: found for found in world.described().members}
    assert (described[name].member_type, described[name].member_epoch, described["n"].member_type) == (0, 1, 1)


def test_an_eager_member_joins_again_once_and_the_new_member_gets_what_is_left() -> None:
    world = World()
    member = one_classic_member(world)
    world.join("n", "t")
    assert member.heartbeat() is REBALANCE
    reply = member.take(member.send_join())
    assert (reply.generation_id, reply.leader, reply.members) == (2, "", ())
    assert (reply.protocol_type, reply.protocol_name) == ("consumer", "range")
    assert member.synced() == {"t": [0, 1]}
    assert member.heartbeat() is NONE
    assert world.told(world.heartbeat("n", 2, owned={})) == (2, {"t": [2]})
    assert world.state() == ("Stable", 2, 2)


def test_a_cooperative_member_gives_up_partitions_first_and_joins_a_second_time() -> None:
    world = World()
    member = one_classic_member(world)
    world.join("n", "t")
    member.owns({"t": [0, 1, 2]})
    assert member.heartbeat() is REBALANCE
    assert member.joined() == 1
    assert world.shard().consumer_group("g").members[member.member_id].current.state is UNREVOKED
    assert member.synced() == {"t": [0, 1]}
    assert member.heartbeat() is REBALANCE
    assert world.told(world.heartbeat("n", 2, owned={})) == (2, None)
    member.owns({"t": [0, 1]})
    assert member.joined() == 2
    assert member.synced() == {"t": [0, 1]}
    assert world.told(world.heartbeat("n", 2, owned={})) == (2, {"t": [2]})


def test_a_member_that_waits_for_partitions_is_told_when_they_are_free() -> None:
    world = World()
    world.join("n", "t")
    world.pass_ms(INTERVAL_MS)
    member = Classic(world, "c")
    assert member.joined() == 3
    assert member.synced() == {}
    assert member.heartbeat() is NONE
    world.heartbeat("n", 2, owned={"t": [0, 1, 2]})
    assert member.heartbeat() is NONE
    kept = world.told(world.heartbeat("n", 2, owned={"t": [0, 1]}))
    assert kept == (3, None)
    assert member.heartbeat() is REBALANCE
    assert (member.joined(), member.synced()) == (3, {"t": [2]})
    assert world.state() == ("Stable", 3, 3)


def test_who_waits_in_the_classic_group_is_answered_that_it_rebalances() -> None:
    world = World()
    members = [Classic(world, name) for name in "cd"]
    stable(world, *members, assignments=[assigned({"t": [0]}), assigned({"t": [1]})])
    first = members[1].send_join()
    members[0].topics = ("t", "u")
    members[0].owns({})
    parked = members[0].send_join()
    assert (first.error, parked.is_parked) == (NONE, True)
    world.join("n", "t")
    assert parked.error is REBALANCE
    generation_id = world.described().group_epoch
    assert members[0].heartbeat() is REBALANCE
    assert members[0].joined() == generation_id


def test_a_sync_that_waits_is_answered_that_the_group_rebalances() -> None:
    world = World()
    members = [Classic(world, name) for name in "cd"]
    stable(world, *members)
    calls = [members[0].join(), members[1].join()]
    for member, call in zip(members, calls, strict=True):
        member.take(call)
    sync = members[1].send_sync()
    assert sync.is_parked
    world.join("n", "t")
    assert sync.error is REBALANCE
    assert [member.heartbeat() for member in members] == [REBALANCE, REBALANCE]
    assert world.described().group_epoch == members[0].generation_id + 1


def test_who_waits_in_a_group_that_cannot_be_upgraded_waits_on() -> None:
    world = World()
    members = [Classic(world, name) for name in "cd"]
    stable(world, *members, assignments=[assigned({"t": [0]}, user_data=b"x")])
    parked = members[0].send_join()
    assert refusal(world.join("n", "t"))[0] is NOT_FOUND
    assert parked.is_parked
    members[1].join()
    assert parked.error is NONE


def test_timers_of_the_classic_group_end_and_sessions_of_its_members_go_on() -> None:
    world = World()
    member = one_classic_member(world)
    world.pass_ms(SESSION_OF_CLASSIC_MS - 1)
    world.join("n", "t")
    assert world.deadline_ms("join", "g") is None
    assert world.deadline_ms("session", "g", member.member_id) == SESSION_OF_CLASSIC_MS
    world.pass_ms(SESSION_OF_CLASSIC_MS)
    assert member.heartbeat() is UNKNOWN
    assert world.told(world.heartbeat("n", 2, owned={})) == (3, {"t": [0, 1, 2]})


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (
            one_classic_member,
            "online upgrade is disabled.",
        ),
        (
            lambda world: stable(world, Classic(world, "c", protocol_type="connect")),
            "the group does not use the consumer embedded protocol.",
        ),
        (
            lambda world: stable(world, Classic(world, "c"), Classic(world, "d"), Classic(world, "e")),
            "the group size exceeds the consumer group maximum size.",
        ),
        (
            lambda world: stable(world, Classic(world, "c"), assignments=[b"\x00"]),
            "the embedded consumer protocol is malformed.",
        ),
        (
            lambda world: stable(world, Classic(world, "c"), assignments=[assigned({"t": [0]}, user_data=b"x")]),
            "an unsupported custom assignor is in use. Please refer to the documentation or switch to a default assignor "
            "before re-attempting the upgrade.",
        ),
    ],
)
def test_a_group_that_cannot_be_upgraded_stays_as_it_is(make: Callable[[World], object], reason: str) -> None:
    policy = "DOWNGRADE" if "disabled" in reason else "bidirectional"
    world = World(group_consumer_migration_policy=policy, group_consumer_max_size=2)
    make(world)
    before = written(world)
    assert refusal(world.join("n", "t")) == (
        NOT_FOUND,
        f"Cannot upgrade classic group g to consumer group because {reason}",
    )
    assert refusal(world.heartbeat("n", -1)) == (NOT_FOUND, "Group g is not a consumer group.")
    assert (written(world), world.group.state.value) == (before, "Stable")


def test_a_group_in_which_two_members_own_one_partition_is_not_upgraded() -> None:
    world = World()
    stable(
        world,
        Classic(world, "c"),
        Classic(world, "d"),
        assignments=[assigned({"t": [0, 1]}), assigned({"t": [1, 2]})],
    )
    assert world.join("n", "t").error is ErrorCode.UNKNOWN_SERVER_ERROR
    assert world.group.state.value == "Stable"


def test_an_upgrade_that_cannot_be_written_has_not_happened() -> None:
    world = World()
    member = one_classic_member(world)
    world.fail_appends(RETRY)
    assert world.join("n", "t").error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert member.heartbeat() is NONE
    assert world.group.generation_id == 1


def test_partitions_of_topics_that_are_gone_are_not_taken_over() -> None:
    world = World()
    member = Classic(world, "c", "t", "gone")
    stable(world, member, assignments=[assigned({"gone": [0], "t": [1]})])
    world.join("n", "t")
    assert world.described().members[0].assignment.topic_partitions[0].partitions == (1,)


# Members of the classic protocol in a group of the new one


def join_error(world: World, **options: Any) -> ErrorCode:
    return Classic(world, "x", **options).send_join().error


def test_the_id_of_a_classic_member_is_a_short_uuid_without_its_client_id() -> None:
    world = World()
    world.join("n", "t")
    world.shard().new_id = lambda: "00112233-4455-4677-8899-fbeeffffffff"
    call = Classic(world, "c").send_join()
    assert (call.error, call.reply.member_id) == (ErrorCode.MEMBER_ID_REQUIRED, "ABEiM0RVRneImfvu_____w")


def test_a_client_without_an_id_is_given_one_and_comes_again() -> None:
    world = World()
    world.join("n", "t")
    member = Classic(world, "c")
    call = member.send_join()
    assert (call.error, call.reply.member_id) == (ErrorCode.MEMBER_ID_REQUIRED, "uuid-1")
    assert len(world.described().members) == 1
    member.member_id = call.reply.member_id
    assert member.joined() == 2
    assert Classic(world, "old", version=3).joined() == 2
    assert len(world.described().members) == 3


def test_an_id_that_is_given_out_is_a_uuid_in_base64_and_never_begins_with_a_hyphen() -> None:
    world = World()
    world.join("n", "t")
    made = iter(["fbff0000-0000-4000-8000-000000000001", "fffb0000-0000-4000-8000-000000000002"])
    world.shard().new_id = lambda: next(made)
    assert Classic(world, "c").send_join().reply.member_id == "__sAAAAAQACAAAAAAAAAAg"


def test_who_may_not_join_a_group_of_the_new_protocol() -> None:
    world = World(group_consumer_max_size=2)
    mixed(world)
    malformed = Classic(world, "x", instance_id="i")
    malformed.protocols = {"range": b"\x00"}
    assert join_error(world) is ErrorCode.GROUP_MAX_SIZE_REACHED
    world.config.group_consumer_max_size = 3
    assert malformed.send_join().error is INCONSISTENT
    other = Classic(world, "x")
    other.protocols = {"roundrobin": other.protocols["range"]}
    assert other.send_join().error is INCONSISTENT
    assert join_error(world, protocol_type="connect") is INCONSISTENT
    unknown = Classic(world, "x", instance_id="i")
    unknown.member_id = "x"
    refused = unknown.send_join()
    assert (refused.error, refused.reply.member_id) == (UNKNOWN, "")
    world.config.group_consumer_migration_policy = "disabled"
    assert join_error(world) is INCONSISTENT


@pytest.mark.parametrize("metadata", [b"", b"\x00", b"\xff\xff", b"\xff\xff" + bytes(20)])
def test_a_subscription_without_a_version_is_malformed(metadata: bytes) -> None:
    world = World()
    world.join("n", "t")
    member = Classic(world, "c", version=3)
    member.protocols = {"range": metadata}
    assert member.send_join().error is INCONSISTENT


def test_a_sync_must_be_of_a_classic_member_its_epoch_and_its_protocol() -> None:
    world = World()
    member = mixed(world)
    assert member.send_sync(protocol_type="connect").error is INCONSISTENT
    assert member.send_sync(protocol_name="roundrobin").error is INCONSISTENT
    assert member.send_sync(version=3).error is NONE
    member.generation_id = 1
    assert member.send_sync().error is ILLEGAL
    member.member_id = "n"
    assert member.send_sync().error is UNKNOWN
    assert member.heartbeat() is UNKNOWN
    member.instance_id = "i"
    assert (member.send_sync().error, member.heartbeat()) == (UNKNOWN, UNKNOWN)


def test_a_sync_after_a_newer_target_makes_the_member_join_again() -> None:
    world = World()
    member = mixed(world)
    world.pass_ms(INTERVAL_MS)
    world.join("m", "t")
    assert member.send_sync().error is REBALANCE
    assert world.deadline_ms("join", "g", member.member_id) == REBALANCE_MS


def test_an_assignment_has_the_version_of_the_subscription_and_metadata_is_kept() -> None:
    world = World()
    world.join("n", "t")
    world.pass_ms(INTERVAL_MS)
    member = Classic(world, "c", "u", "t", "u")
    member.owns({}, version=3, rack="r")
    member.protocols["roundrobin"] = member.protocols["range"]
    member.joined()
    assert read_assignment(member.send_sync().reply.assignment) == (3, {"u": [0, 1, 2, 3]})
    found = world.shard().consumer_group("g").members[member.member_id].metadata
    assert (found.rack_id, found.subscribed_topic_names, found.client_id) == ("r", ("t", "u"), "c")
    assert found.classic_member_metadata is not None
    assert [protocol.name for protocol in found.classic_member_metadata.supported_protocols] == ["range", "roundrobin"]


def test_commits_of_a_classic_member_need_its_epoch() -> None:
    world = World()
    member = mixed(world)
    assert member.commit({("t", 0): 5}) == {("t", 0): NONE}
    member.generation_id = 3
    assert member.commit({("t", 0): 5}) == {("t", 0): ILLEGAL}


def test_a_member_that_cannot_be_written_is_not_there() -> None:
    world = World()
    world.join("n", "t")
    member = Classic(world, "c", version=3)
    world.fail_appends(RETRY)
    assert member.send_join().error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert [found.member_id for found in world.described().members] == ["n"]
    assert member.joined() == 2


def test_a_rebalance_timeout_of_minus_one_leaves_that_of_before() -> None:
    world = World()
    member = mixed(world, rebalance_timeout_ms=20_000)
    member.rebalance_timeout_ms = -1
    assert member.joined() == 2
    assert world.shard().consumer_group("g").members[member.member_id].metadata.rebalance_timeout_ms == 20_000


def test_a_subscription_of_version_0_is_one() -> None:
    world = World()
    world.join("n", "t")
    world.pass_ms(INTERVAL_MS)
    member = Classic(world, "c", "u")
    member.owns({}, version=0)
    member.joined()
    assert read_assignment(member.send_sync().reply.assignment) == (0, {"u": [0, 1, 2, 3]})


def test_a_member_without_a_client_id_is_described_with_an_empty_one() -> None:
    world = World()
    world.join("n", "t")
    member = Classic(world, "c", version=3)
    member.name = None  # type: ignore[assignment]
    assert member.joined() == 2
    assert [member.client_id for member in world.described().members] == ["client", ""]


def test_a_member_that_joins_again_finds_a_topic_that_has_grown() -> None:
    world = World()
    member = mixed(world)
    world.topics.topics["t"] = (4, 0)
    world.pass_ms(INTERVAL_MS)
    assert member.joined() == 3
    assert world.state()[1:] == (3, 3)


def test_a_member_that_wants_less_is_told_to_join_again_before_there_is_a_target_without_it() -> None:
    world = World()
    world.join("n", "t")
    world.pass_ms(INTERVAL_MS)
    member = Classic(world, "c", "u")
    assert (member.joined(), member.synced()) == (3, {"u": [0, 1, 2, 3]})
    member.topics = ("t",)
    member.owns({"u": [0, 1, 2, 3]})
    assert (member.joined(), member.synced()) == (3, {})
    assert world.state()[1:] == (4, 3)
    assert member.heartbeat() is REBALANCE


def test_a_member_that_does_not_join_again_in_time_is_removed() -> None:
    world = World()
    member = mixed(world, session_timeout_ms=1_000_000)
    world.pass_ms(INTERVAL_MS)
    world.join("m", "t")
    assert member.heartbeat() is REBALANCE
    world.pass_ms(REBALANCE_MS // 2)
    world.heartbeat("n", 2, owned={})
    world.heartbeat("m", 3, owned={})
    assert member.heartbeat() is REBALANCE
    world.pass_ms(REBALANCE_MS // 2 - 1)
    assert member.heartbeat() is REBALANCE
    world.pass_ms(1)
    assert member.heartbeat() is UNKNOWN


def test_a_member_that_does_not_sync_in_time_is_removed() -> None:
    world = World()
    world.join("n", "t")
    member = Classic(world, "c", session_timeout_ms=1_000_000, rebalance_timeout_ms=20_000)
    member.joined()
    assert world.deadline_ms("join", "g", member.member_id) is None
    world.pass_ms(19_999)
    assert member.heartbeat() is NONE
    world.pass_ms(1)
    assert member.heartbeat() is UNKNOWN
    assert world.deadline_ms("session", "g", member.member_id) is None


def test_a_member_that_is_not_heard_of_is_removed_after_its_own_session() -> None:
    world = World()
    member = mixed(world)
    world.pass_ms(SESSION_OF_CLASSIC_MS)
    assert member.heartbeat() is UNKNOWN


def test_a_classic_member_leaves() -> None:
    world = World()
    member = mixed(world)
    assert member.leave().members[0].error_code == NONE
    assert world.state()[1] == 3
    again = [MemberIdentity(member_id="n"), MemberIdentity(member_id="n")]
    reply = world.send(LeaveGroupRequest(group_id="g", members=tuple(again)), 5).reply
    assert [found.error_code for found in reply.members] == [NONE, NONE]
    assert world.state() == ("Empty", 4, 4)


def test_members_that_leave_together_are_written_before_the_new_epoch() -> None:
    world = World()
    world.join("a", "t")
    world.join("b", "u")
    world.join("c", "t")
    gone = tuple(MemberIdentity(member_id=name) for name in "ab")
    world.send(LeaveGroupRequest(group_id="g", members=gone), 5)
    assert [found[:2] for found in written(world)[-1]] == [
        *((kind, name) for name in "ab" for kind in (8, 7, 5)),
        (3, 5),
    ]
    assert world.shard().consumer_group("g").metadata_hash == world.shard().hash_of_topics(frozenset({"t"}))


# Static members


def test_a_static_member_comes_back_with_the_other_protocol() -> None:
    world = World()
    world.join("a", "t")
    world.join("s", "t", instance_id="i")
    world.pass_ms(INTERVAL_MS)
    classic = Classic(world, "c", instance_id="i")
    assert classic.joined() == 3
    assert world.shard().consumer_group("g").members[classic.member_id].is_classic
    assert world.told(world.join("s2", "t", instance_id="i"))[0] == 3
    assert classic.heartbeat() is ErrorCode.FENCED_INSTANCE_ID
    assert classic.send_sync().error is ErrorCode.FENCED_INSTANCE_ID
    assert classic.send_join().error is ErrorCode.FENCED_INSTANCE_ID
    assert world.state()[1] == 3


def test_a_group_that_is_full_lets_a_static_member_come_back() -> None:
    world = World(group_consumer_max_size=1)
    world.join("s", "t", instance_id="i")
    world.heartbeat("s", -2, instance_id="i")
    assert world.told(world.join("s2", "t", instance_id="i")) == (2, {"t": [0, 1, 2]})


# Downgrade


def classic_again(world: World) -> tuple[str, int, str | None, list[str]]:
    group = world.group
    return group.state.value, group.generation_id, group.leader_id, list(group.members)


def test_when_the_last_member_of_the_new_protocol_leaves_the_group_is_classic_and_rebalances() -> None:
    world = World()
    member = mixed(world)
    name = member.member_id
    reply = world.heartbeat("n", -1).reply
    assert (reply.error_code, reply.member_id, reply.member_epoch) == (NONE, "n", -1)
    assert written(world)[-1] == [
        *((kind, who, None) for kind in (8, 7) for who in (name, "n")),
        (6, None),
        (5, name),
        (5, "n"),
        (4,),
        (3, None),
        (2, 2, "range", name, [name]),
    ]
    assert classic_again(world) == ("PreparingRebalance", 2, name, [name])
    assert read_assignment(world.group.members[name].assignment) == (1, {"t": [0, 1]})
    assert world.deadline_ms("join", "g") == REBALANCE_MS
    assert world.deadline_ms("session", "g", name) == SESSION_OF_CLASSIC_MS
    assert member.heartbeat() is REBALANCE
    assert (member.joined(), world.group.leader_id) == (3, name)
    assert member.send_sync({name: assigned({"t": [0, 1, 2]})}).error is NONE


@pytest.mark.parametrize("by", ["session", "leave-group"])
def test_a_member_that_is_removed_downgrades_too(by: str) -> None:
    world = World()
    member = mixed(world, session_timeout_ms=1_000_000)
    if by == "session":
        world.pass_ms(SESSION_MS)
    else:
        world.send(LeaveGroupRequest(group_id="g", members=(MemberIdentity(member_id="n"),)), 5)
    assert classic_again(world)[:2] == ("PreparingRebalance", 2)
    assert member.heartbeat() is REBALANCE


@pytest.mark.parametrize("config", [{"group_consumer_migration_policy": "upgrade"}, {"group_max_size": 0}])
def test_a_group_that_may_not_be_downgraded_stays_of_the_new_protocol(config: dict[str, Any]) -> None:
    world = World(**config)
    member = mixed(world) if "group_max_size" not in config else None
    if member is None:
        world.join("n", "t")
        member = Classic(world, "c")
        member.joined()
    world.heartbeat("n", -1)
    assert world.described().group_state in ("Assigning", "Reconciling")
    world.pass_ms(INTERVAL_MS)
    assert member.joined() == world.described().group_epoch
    assert member.synced() == {"t": [0, 1, 2]}


def test_what_remains_when_all_leave_is_an_empty_group_of_the_new_protocol() -> None:
    world = World()
    member = mixed(world)
    gone = tuple(MemberIdentity(member_id=name) for name in ("n", member.member_id))
    world.send(LeaveGroupRequest(group_id="g", members=gone), 5)
    assert world.state() == ("Empty", 3, 3)


def test_a_classic_member_that_takes_the_place_of_the_last_new_one_downgrades_without_a_rebalance() -> None:
    world = World()
    world.join("s", "t", instance_id="i")
    member = Classic(world, "c", instance_id="i")
    reply = member.take(member.send_join())
    assert (reply.generation_id, reply.leader, reply.protocol_name) == (2, "", "range")
    name = member.member_id
    assert written(world)[-1] == [
        (8, "s", None),
        (7, "s", None),
        (5, "s"),
        (5, name, "i", ("t",), None),
        (7, name, [0, 1, 2]),
        (8, name, (0, 0, STABLE, {0: 2, 1: 2, 2: 2}, {})),
        (5, name, "i", ("t",), None),
        (8, name, (2, 0, STABLE, {0: 2, 1: 2, 2: 2}, {})),
        (8, name, None),
        (7, name, None),
        (6, None),
        (5, name),
        (4,),
        (3, None),
        (2, 2, "range", name, [name]),
    ]
    assert classic_again(world) == ("Stable", 2, name, [name])
    assert (member.heartbeat(), member.synced()) == (NONE, {"t": [0, 1, 2]})


@pytest.mark.parametrize("name", ["a", "z"])
def test_all_others_stay_in_a_group_that_is_downgraded_by_a_static_member(name: str) -> None:
    world = World()
    world.join(name, "t", instance_id="i")
    first = Classic(world, "c")
    first.joined()
    second = Classic(world, "d", instance_id="i")
    second.joined()
    assert list(world.group.members) == [first.member_id, second.member_id]


def test_with_another_subscription_the_place_is_taken_with_a_rebalance() -> None:
    world = World()
    world.join("s", "t", instance_id="i")
    member = Classic(world, "c", "u", instance_id="i")
    assert member.joined() == 0
    assert classic_again(world)[:2] == ("PreparingRebalance", 2)
    assert (member.heartbeat(), member.send_sync().error) == (ILLEGAL, ILLEGAL)
    assert member.joined() == 3


def test_a_downgrade_that_cannot_be_written_has_not_happened() -> None:
    world = World()
    member = mixed(world, session_timeout_ms=1_000_000)
    world.fail_appends(RETRY)
    assert world.heartbeat("n", -1).error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert (world.state(), member.heartbeat()) == (("Stable", 2, 2), NONE)
    world.fail_appends(RETRY)
    world.pass_ms(SESSION_MS)
    assert world.state() == ("Stable", 2, 2)
    world.pass_ms(500)
    assert classic_again(world)[:2] == ("PreparingRebalance", 2)


# Crashes


def test_a_migration_goes_on_after_a_crash() -> None:
    world = World()
    member = one_classic_member(world)
    world.join("n", "t")
    world.restart()
    assert world.deadline_ms("session", "g", member.member_id) == SESSION_MS
    member.owns({"t": [0, 1, 2]})
    assert member.heartbeat() is REBALANCE
    assert (member.joined(), member.synced()) == (1, {"t": [0, 1]})
    world.restart()
    assert world.deadline_ms("rebalance", "g", member.member_id) == REBALANCE_MS
    member.owns({"t": [0, 1]})
    assert (member.joined(), member.synced()) == (2, {"t": [0, 1]})
    assert world.deadline_ms("rebalance", "g", member.member_id) is None
    world.heartbeat("n", 2, owned={})
    world.heartbeat("n", -1)
    world.restart()
    assert classic_again(world) == ("Stable", 2, member.member_id, [member.member_id])
    assert member.heartbeat() is NONE
    world.join("n2", "t")
    world.restart()
    assert world.state() == ("Reconciling", 3, 3)


# What is reported


def test_conversions_are_reported_with_both_kinds_and_the_cause_of_what_follows() -> None:
    world = World()
    member = mixed(world)
    world.heartbeat("n", -1)
    converted = [event for event in world.events if isinstance(event, GroupConverted)]
    assert [(event.from_kind, event.to_kind, event.member_count) for event in converted] == [
        ("classic", "consumer", 1),
        ("consumer", "classic", 2),
    ]
    states = [f"{event.previous} {event.new} {event.cause}" for event in world.events if isinstance(event, Transition)]
    assert states[-4:] == [
        "CompletingRebalance Stable assignment-received",
        "Stable Reconciling member-joined",
        "Reconciling Stable reconciled",
        "Stable PreparingRebalance member-left",
    ]
    removed = [event.member.member_id for event in world.events if isinstance(event, MemberRemoved)]
    assert removed == ["n"]
    assert member.heartbeat() is REBALANCE


@pytest.mark.parametrize(("name", "member_id", "replaced"), [("a", "", ["a"]), ("z", "", ["z"]), ("a", "a", [])])
def test_who_takes_the_place_of_the_last_new_member_is_reported_unless_it_is_the_same(
    name: str, member_id: str, replaced: list[str]
) -> None:
    world = World()
    world.join(name, "t", instance_id="i")
    member = Classic(world, "c", instance_id="i")
    member.member_id = member_id
    member.joined()
    assert world.group.state.value == "Stable"
    found = [event.replaced_member_id for event in world.events if isinstance(event, MemberReplaced)]
    assert found == replaced


@covers("describe.new-protocol-group")
def test_the_classic_apis_know_members_of_the_new_protocol_only_by_their_group() -> None:
    world = World()
    world.join("a", "t")
    assert world.send(HeartbeatRequest(group_id="g", generation_id=2, member_id="a"), 4).error is UNKNOWN
    assert world.send(DescribeGroupsRequest(groups=("g",)), 6).reply.groups[0].error_message == (
        "Group g is not a classic group."
    )
