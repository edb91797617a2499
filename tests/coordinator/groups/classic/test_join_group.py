"""JoinGroup from outside: unknown groups, first checks, who may come in, error replies."""

from __future__ import annotations

import pytest

from kshim.coordinator.groups.classic.state import GroupState
from kshim_protocol.errors import ErrorCode
from tests.coordinator.peers import a_group, subscription
from tests.coordinator.rules import covers


@covers("join.unknown-group.without-member-id", "join.new-group-record", "join.dispatch.member-id-required")
def test_the_first_join_is_given_an_id_and_leaves_an_empty_group_of_no_type_in_the_log() -> None:
    sim = a_group()
    call = sim.peer("a").send_join()
    assert call.error is ErrorCode.MEMBER_ID_REQUIRED
    assert call.reply.member_id == "a-uuid-1"
    assert sim.group.state is GroupState.EMPTY
    assert list(sim.group.pending_joins) == ["a-uuid-1"]
    [record] = sim.records()
    assert (record.value.protocol_type, record.value.generation) == ("", 0)
    assert (record.value.protocol, record.value.leader, record.value.members) == (None, None, ())
    assert record.value.current_state_timestamp == sim.wall_ms


@covers("join.unknown-group.with-member-id")
def test_a_member_id_is_unknown_in_a_group_that_does_not_exist() -> None:
    sim = a_group()
    peer = sim.peer("a")
    peer.member_id = "made-up"
    assert peer.send_join().error is ErrorCode.UNKNOWN_MEMBER_ID
    assert sim.find_group() is None


@covers("check.join.empty-group-id")
def test_a_join_needs_a_group_id() -> None:
    assert a_group().peer("a", group_id="").send_join().error is ErrorCode.INVALID_GROUP_ID


@covers("check.join.session-timeout-too-short", "check.join.session-timeout-too-long")
@pytest.mark.parametrize(
    ("session_timeout_ms", "error"),
    [
        (5_999, ErrorCode.INVALID_SESSION_TIMEOUT),
        (6_000, ErrorCode.MEMBER_ID_REQUIRED),
        (1_800_000, ErrorCode.MEMBER_ID_REQUIRED),
        (1_800_001, ErrorCode.INVALID_SESSION_TIMEOUT),
    ],
)
def test_the_session_timeout_lies_within_the_brokers_bounds(session_timeout_ms: int, error: ErrorCode) -> None:
    assert a_group().peer("a", session_timeout_ms=session_timeout_ms).send_join().error is error


@covers("check.join.rebalance-timeout-unbounded")
@pytest.mark.parametrize("rebalance_timeout_ms", [-1, 0, 2**31 - 1])
def test_any_rebalance_timeout_will_do(rebalance_timeout_ms: int) -> None:
    sim = a_group()
    assert sim.peer("a", rebalance_timeout_ms=rebalance_timeout_ms).join().error is ErrorCode.NONE


@covers("check.join.v0-rebalance-timeout")
def test_in_v0_the_session_timeout_is_the_rebalance_timeout() -> None:
    sim = a_group().stable("a", session_timeout_ms=7_000, version=0)
    assert sim.group.members[sim["a"].member_id].rebalance_timeout_ms == 7_000
    assert sim.records()[-1].value.members[0].rebalance_timeout == 7_000


@pytest.mark.parametrize("version", [1, 2, 9])
def test_from_v1_on_the_rebalance_timeout_is_the_clients_own(version: int) -> None:
    sim = a_group().stable("a", session_timeout_ms=7_000, rebalance_timeout_ms=8_000, version=version)
    assert sim.group.members[sim["a"].member_id].rebalance_timeout_ms == 8_000


@covers("check.join.instance-id-syntax")
@pytest.mark.parametrize("instance_id", ["with spaces", "x" * 250, ""])
def test_the_form_of_an_instance_id_is_the_clients_business(instance_id: str) -> None:
    sim = a_group()
    assert sim.peer("a", instance_id=instance_id).join().error is ErrorCode.NONE


def test_a_name_that_fits_into_no_record_is_refused() -> None:
    sim = a_group()
    assert sim.peer("a", instance_id="x" * 32_767).join().error is ErrorCode.INVALID_REQUEST
    assert sim.peer("b", group_id="g" * 32_767).join().error is ErrorCode.INVALID_REQUEST
    assert sim.peer("c", protocols={"p" * 32_767: b""}).join().error is ErrorCode.INVALID_REQUEST
    assert sim.logs == {}


def test_long_names_are_measured_in_bytes() -> None:
    longest = 32_767 - 64
    sim = a_group()
    for index, text in enumerate(["x" * longest, "x" * (longest // 2), "\N{BANANA}" * (longest // 4)]):
        assert sim.peer("a", group_id=f"g{index}", instance_id=text).join().error is ErrorCode.NONE
    for text in ("x" * (longest + 1), "\N{BANANA}" * (longest // 4 + 1)):
        assert sim.peer("b", instance_id=text).join().error is ErrorCode.INVALID_REQUEST


@covers(
    "check.join.error-reply",
    "check.join.error-reply.member-id",
    "check.join.error-reply.protocol-v7",
    "check.join.error-reply.protocol-below-v7",
)
@pytest.mark.parametrize(("version", "protocol_name"), [(5, ""), (6, ""), (7, None), (9, None)])
def test_an_error_reply_has_no_generation_and_the_requests_member_id(version: int, protocol_name: str | None) -> None:
    sim = a_group().stable("a")
    peer = sim.peer("b", version=version)
    for member_id in ("", "made-up"):
        peer.member_id = member_id
        peer.protocol_type = "other"
        reply = peer.send_join().reply
        assert reply.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        assert (reply.generation_id, reply.leader, reply.members) == (-1, "", ())
        assert (reply.member_id, reply.protocol_name) == (member_id, protocol_name)


@pytest.mark.parametrize(("version", "protocol_name"), [(0, ""), (6, ""), (7, None), (9, None)])
def test_a_protocol_with_an_empty_name_is_null_where_null_can_be_said(version: int, protocol_name: str | None) -> None:
    peer = a_group().peer("a", version=version)
    peer.protocols = {"": b"metadata"}
    reply = peer.join().reply
    assert (reply.error_code, reply.protocol_name) == (ErrorCode.NONE, protocol_name)
    assert [member.metadata for member in reply.members] == [b"metadata"]


# Protocols


@covers("join.protocols.empty-group-without-type", "join.protocols.empty-group-without-protocols")
@pytest.mark.parametrize("options", [{"protocol_type": ""}, {"protocols": {}}])
def test_the_first_member_must_bring_a_type_and_a_protocol(options: dict[str, object]) -> None:
    sim = a_group()
    assert sim.peer("a", **options).send_join().error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert sim.group.state is GroupState.EMPTY  # as in Kafka the group exists by now


@covers("join.protocols.other-type")
def test_all_members_are_of_one_type() -> None:
    sim = a_group().stable("a")
    assert sim.peer("b", protocol_type="connect").send_join().error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


@covers("join.protocols.none-common")
def test_a_newcomer_must_offer_a_protocol_that_all_members_offer() -> None:
    sim = a_group()
    sim.completing("a", protocols={"range": b"", "sticky": b""})
    sim.peer("b", protocols={"sticky": b"", "own": b""}).join()
    assert sim.peer("c", protocols={"range": b""}).send_join().error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert sim.peer("d", protocols={"sticky": b""}).send_join().error is ErrorCode.MEMBER_ID_REQUIRED


@covers("join.protocols.empty-group-changes-type")
def test_an_empty_group_takes_the_type_of_who_comes_next() -> None:
    sim = a_group().empty()
    assert sim.group.protocol_type == "consumer"
    sim.stable("a", protocol_type="connect")
    assert sim.group.protocol_type == "connect"
    assert sim.records()[-1].value.protocol_type == "connect"


@covers("join.duplicate-protocol-name")
def test_a_protocol_listed_twice_is_refused_up_front() -> None:
    from kshim_protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol

    sim = a_group()
    twice = JoinGroupRequestProtocol(name="range", metadata=b"")
    request = JoinGroupRequest(
        group_id="g", session_timeout_ms=10_000, member_id="", protocol_type="consumer", protocols=(twice, twice)
    )
    assert sim.send(request, 9).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert sim.find_group() is None


# Coming in


@covers("join.dispatch.member-id-required")
def test_handing_out_an_id_does_not_disturb_a_stable_group() -> None:
    sim = a_group().stable("a")
    before = len(sim.events)
    assert sim.peer("b").send_join().error is ErrorCode.MEMBER_ID_REQUIRED
    assert sim.group.state is GroupState.STABLE
    assert sim["a"].heartbeat() is ErrorCode.NONE
    assert sim.transitions() == [
        "Empty -> PreparingRebalance member-joined",
        "PreparingRebalance -> CompletingRebalance all-joined",
        "CompletingRebalance -> Stable assignment-received",
    ]
    assert len(sim.events) == before + 1


@covers("join.dispatch.old-version-without-id")
@pytest.mark.parametrize("version", [0, 3])
def test_before_v4_a_client_without_id_is_a_member_at_once(version: int) -> None:
    sim = a_group()
    reply = sim.peer("a", version=version).send_join().reply
    assert reply.error_code == ErrorCode.NONE
    assert reply.member_id == "a-uuid-1"
    assert reply.leader == "a-uuid-1"


@covers("join.dispatch.new-static")
def test_a_new_static_member_enters_at_once_under_an_id_made_from_its_instance_id() -> None:
    sim = a_group()
    reply = sim.peer("a", instance_id="desk-1").send_join().reply
    assert reply.error_code == ErrorCode.NONE
    assert reply.member_id == "desk-1-uuid-1"
    assert reply.members[0].group_instance_id == "desk-1"


@covers("join.dispatch.pending-id")
def test_an_id_that_was_handed_out_makes_a_member() -> None:
    sim = a_group()
    peer = sim.peer("a")
    peer.member_id = peer.send_join().reply.member_id
    assert peer.send_join().error is ErrorCode.NONE
    assert list(sim.group.members) == [peer.member_id]
    assert not sim.group.pending_joins


@covers("join.dispatch.unknown-member", "join.dispatch.unknown-instance", "join.dispatch.fenced-instance")
def test_an_id_must_be_the_members_own() -> None:
    sim = a_group().stable("a", "b", static=["a"])
    stranger = sim.peer("c")
    stranger.member_id = "made-up"
    assert stranger.send_join().error is ErrorCode.UNKNOWN_MEMBER_ID
    stranger.member_id = sim["b"].member_id
    stranger.instance_id = "unheard-of"
    assert stranger.send_join().error is ErrorCode.UNKNOWN_MEMBER_ID
    stranger.instance_id = "a-instance"
    assert stranger.send_join().error is ErrorCode.FENCED_INSTANCE_ID


def test_a_pending_id_does_not_go_with_an_instance_id() -> None:
    sim = a_group()
    peer = sim.peer("a")
    peer.member_id = peer.send_join().reply.member_id
    peer.instance_id = "desk-1"
    assert peer.send_join().error is ErrorCode.UNKNOWN_MEMBER_ID
    assert peer.member_id in sim.group.pending_joins


def test_a_client_without_a_client_id_joins_under_a_bare_uuid() -> None:
    sim = a_group()
    peer = sim.peer("a")
    peer.name = None  # type: ignore[assignment]
    call = peer.join()
    assert call.reply.member_id == "-uuid-1"
    assert sim.group.members["-uuid-1"].client_id == ""


@covers("state.member-metadata")
def test_a_member_is_kept_with_all_it_said_of_itself() -> None:
    sim = a_group()
    sim.stable(
        "a",
        static=["a"],
        session_timeout_ms=7_000,
        rebalance_timeout_ms=50_000,
        protocols={"range": b"r", "sticky": b"s"},
    )
    member = sim.group.members[sim["a"].member_id]
    assert (member.group_instance_id, member.client_id, member.client_host) == ("a-instance", "a", "/127.0.0.1")
    assert (member.session_timeout_ms, member.rebalance_timeout_ms) == (7_000, 50_000)
    assert list(member.protocols.items()) == [("range", b"r"), ("sticky", b"s")]
    assert member.assignment == b"a"


def test_a_new_group_that_cannot_be_recorded_does_not_exist() -> None:
    sim = a_group()
    sim.fail_appends(ErrorCode.KAFKA_STORAGE_ERROR)
    reply = sim.peer("a", instance_id="i").send_join().reply
    assert reply.error_code == ErrorCode.NOT_COORDINATOR
    assert reply.member_id == ""
    assert sim.find_group() is None
    assert sim["a"].join().error is ErrorCode.NONE


def test_an_id_is_handed_out_although_its_new_group_cannot_be_recorded() -> None:
    sim = a_group()
    sim.fail_appends(ErrorCode.KAFKA_STORAGE_ERROR)
    peer = sim.peer("a")
    peer.member_id = peer.send_join().reply.member_id
    assert peer.member_id
    assert sim.find_group() is None
    assert peer.send_join().error is ErrorCode.UNKNOWN_MEMBER_ID


# Size


@covers("join.size.empty")
def test_an_empty_group_always_has_room() -> None:
    assert a_group(group_max_size=0).peer("a").send_join().error is ErrorCode.MEMBER_ID_REQUIRED


@covers("join.size.preparing-parked", "join.size.preparing-full")
def test_while_members_gather_those_already_parked_count() -> None:
    sim = a_group(group_max_size=2).stable("a", "b")
    late = sim.peer("c")
    sim["a"].join()  # the leader's rejoin: a is parked, b is awaited
    late.member_id = late.send_join().reply.member_id
    assert late.send_join().is_parked
    assert sim["a"].send_join().is_parked  # parked before: still has its place
    reply = sim["b"].send_join().reply
    assert (reply.error_code, reply.member_id) == (ErrorCode.GROUP_MAX_SIZE_REACHED, "")
    assert sim["b"].member_id not in sim.group.members


@covers("join.size.known-member", "join.size.full", "join.size.comes-first")
def test_a_full_group_lets_only_its_members_in() -> None:
    sim = a_group(group_max_size=2).stable("a", "b")
    assert sim.peer("c").send_join().error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert not sim.group.pending_joins
    assert sim["b"].send_join().error is ErrorCode.NONE
    assert sim.group.state is GroupState.STABLE


@covers("join.size.full", "join.size.preparing-full")
@pytest.mark.parametrize("state", ["stable", "completing", "preparing"])
def test_a_group_that_is_larger_than_allowed_by_now_takes_nobody_in(state: str) -> None:
    sim = getattr(a_group(), state)("a", "b", "c", "d")
    if state == "preparing":
        sim["b"].join()
        sim["c"].join()
    sim.config.group_max_size = 2
    assert sim.peer("e").send_join().error is ErrorCode.GROUP_MAX_SIZE_REACHED


@covers("join.size.full")
def test_an_issued_id_is_taken_back_when_the_group_has_filled_up() -> None:
    sim = a_group(group_max_size=2).stable("a")
    late = sim.peer("c", session_timeout_ms=120_000)
    late.member_id = late.send_join().reply.member_id
    newcomer = sim.peer("b", instance_id="desk-1").join()
    leader = sim["a"].join()
    sim.pass_ms(60_000)  # the rebalance timeout: nobody waits for c any longer
    sim["a"].take(leader)
    sim["b"].take(newcomer)
    assert late.member_id in sim.group.pending_joins
    reply = late.send_join().reply
    assert (reply.error_code, reply.member_id) == (ErrorCode.GROUP_MAX_SIZE_REACHED, "")
    assert not sim.group.pending_joins


# Known members


@covers("join.known.empty")
def test_nobody_is_a_member_of_an_empty_group() -> None:
    sim = a_group().empty()
    assert sim["gone"].send_join().error is ErrorCode.UNKNOWN_MEMBER_ID


@covers("join.known.preparing")
def test_a_rejoin_while_members_gather_replaces_what_the_member_said_and_may_end_the_phase() -> None:
    sim = a_group().preparing("a", "b")
    sim["b"].protocols = {"range": subscription("audit")}
    sim["b"].session_timeout_ms = 8_000
    sim["b"].rebalance_timeout_ms = 9_000
    assert sim["b"].join().error is ErrorCode.NONE
    member = sim.group.members[sim["b"].member_id]
    assert (member.session_timeout_ms, member.rebalance_timeout_ms) == (8_000, 9_000)
    assert member.protocols == {"range": subscription("audit")}
    assert sim.group.state is GroupState.COMPLETING_REBALANCE


@covers("join.known.preparing-superseded")
def test_a_second_join_of_the_same_member_takes_over_and_the_first_is_told_so() -> None:
    sim = a_group().stable("a", "b")
    first = sim["a"].send_join()
    second = sim["a"].send_join()
    assert first.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert first.reply.member_id == sim["a"].member_id
    assert second.is_parked
    sim["b"].join()
    assert second.error is ErrorCode.NONE


@covers("join.known.completing-same")
def test_in_completing_rebalance_the_same_join_again_hears_the_generation_once_more() -> None:
    sim = a_group().completing("a", "b")
    leader, follower = sim["a"].send_join().reply, sim["b"].send_join().reply
    assert leader.generation_id == follower.generation_id == sim.group.generation_id == 2
    assert {member.member_id for member in leader.members} == {sim["a"].member_id, sim["b"].member_id}
    assert follower.members == ()
    assert follower.leader == sim["a"].member_id
    assert sim.group.state is GroupState.COMPLETING_REBALANCE


@covers("join.known.completing-changed", "rebalance.start.from-completing")
@pytest.mark.parametrize(
    "protocols",
    [{"range": b"new"}, {"sticky": b"s", "range": b"r"}, {"range": b"r", "sticky": b"s", "more": b""}],
    ids=["bytes", "order", "names"],
)
def test_in_completing_rebalance_changed_protocols_start_over(protocols: dict[str, bytes]) -> None:
    sim = a_group().completing("a", "b", protocols={"range": b"r", "sticky": b"s"})
    parked = sim["b"].send_sync()
    sim["b"].protocols = protocols
    assert sim["b"].send_join().is_parked
    assert parked.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert sim.group.state is GroupState.PREPARING_REBALANCE
    assert sim.transitions()[-1] == "CompletingRebalance -> PreparingRebalance metadata-changed"
    assert sim.shard().deadlines.get(("sync", "g")) is None


@covers("join.known.stable-leader")
def test_the_leaders_rejoin_always_rebalances() -> None:
    sim = a_group().stable("a", "b")
    assert sim["a"].send_join().is_parked
    assert sim.transitions()[-1] == "Stable -> PreparingRebalance leader-rejoined"


@covers("join.known.stable-follower-changed")
def test_a_followers_changed_protocols_rebalance() -> None:
    sim = a_group().stable("a", "b")
    sim["b"].protocols = {"range": subscription("audit")}
    assert sim["b"].send_join().is_parked
    assert sim.transitions()[-1] == "Stable -> PreparingRebalance metadata-changed"


@covers("join.known.stable-follower-same")
def test_a_followers_same_join_hears_the_generation() -> None:
    sim = a_group().stable("a", "b")
    reply = sim["b"].send_join().reply
    assert (reply.error_code, reply.generation_id, reply.members) == (ErrorCode.NONE, 2, ())
    assert reply.leader == sim["a"].member_id
    assert (reply.protocol_type, reply.protocol_name) == ("consumer", "range")
    assert sim.group.state is GroupState.STABLE


@covers("join.known.stable-follower-same")
@pytest.mark.parametrize("follower", ["a", "z"])
def test_who_leads_does_not_depend_on_the_order_of_ids(follower: str) -> None:
    sim = a_group().stable("m", follower)
    assert sim[follower].send_join().reply.leader == sim["m"].member_id
    assert sim.group.state is GroupState.STABLE
