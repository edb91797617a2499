"""DescribeGroups, ListGroups, DeleteGroups."""

from __future__ import annotations

import pytest

from kshim.coordinator.groups.offsets.committed_offsets import CommittedOffset
from kshim_protocol.codec import codec
from kshim_protocol.errors import ErrorCode
from kshim_protocol.internal.offset_commit import OffsetCommitKey
from kshim_protocol.messages.delete_groups import DeleteGroupsRequest
from kshim_protocol.messages.describe_groups import DescribedGroup, DescribeGroupsRequest
from kshim_protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from tests.coordinator.harness import Sim
from tests.coordinator.peers import a_group, fetched, subscription
from tests.coordinator.rules import covers

ORDERS = ("orders", 0)


def described(sim: Sim, group_id: str = "g", *, version: int = 6, with_operations: bool = False) -> DescribedGroup:
    """DescribeGroups of one group."""
    request = DescribeGroupsRequest(groups=(group_id,), include_authorized_operations=with_operations)
    [group] = sim.ask(request, version).groups
    assert group.group_id == group_id
    return group


def listed(sim: Sim, states: tuple[str, ...] = (), types: tuple[str, ...] = ()) -> list[tuple[str, str, str, str]]:
    """ListGroups v5."""
    reply = sim.ask(ListGroupsRequest(states_filter=states, types_filter=types), 5)
    assert reply.error_code == ErrorCode.NONE
    return [(group.group_id, group.protocol_type, group.group_state, group.group_type) for group in reply.groups]


def deleted(sim: Sim, *group_ids: str) -> dict[str, ErrorCode]:
    """DeleteGroups."""
    reply = sim.ask(DeleteGroupsRequest(groups_names=group_ids), 2)
    assert len({result.group_id for result in reply.results}) == len(reply.results)
    return {result.group_id: ErrorCode(result.error_code) for result in reply.results}


# Describe


@covers("describe.unknown-below-v6", "describe.unknown-v6", "check.describe.empty-group-id")
@pytest.mark.parametrize("group_id", ["g", ""])
@pytest.mark.parametrize(
    ("version", "error"), [(0, ErrorCode.NONE), (5, ErrorCode.NONE), (6, ErrorCode.GROUP_ID_NOT_FOUND)]
)
def test_a_group_that_does_not_exist_is_dead(version: int, error: ErrorCode, group_id: str) -> None:
    group = described(a_group(), group_id, version=version)
    assert (group.error_code, group.group_state, group.members) == (error, "Dead", ())
    assert group.error_message == (f"Group {group_id} not found." if version == 6 else None)


@covers("describe.protocol-data", "state.names")
def test_a_stable_group_shows_its_protocol_and_what_its_members_said() -> None:
    sim = a_group().stable("a", "b", static=["b"])
    group = described(sim)
    assert (group.group_state, group.protocol_type, group.protocol_data) == ("Stable", "consumer", "range")
    [first, second] = group.members
    assert (first.member_id, first.group_instance_id, first.client_id) == (sim["a"].member_id, None, "a")
    assert (second.group_instance_id, second.client_host) == ("b-instance", "/127.0.0.1")
    assert (first.member_metadata, first.member_assignment) == (subscription("orders"), b"a")


@covers("describe.protocol-data", "describe.assignments", "state.names")
def test_in_other_states_protocol_and_metadata_are_hidden_and_old_assignments_still_show() -> None:
    sim = a_group().preparing("a", "b")
    group = described(sim)
    assert (group.group_state, group.protocol_type, group.protocol_data) == ("PreparingRebalance", "consumer", "")
    assert [(member.member_metadata, member.member_assignment) for member in group.members] == [
        (b"", b"a"),
        (b"", b"b"),
    ]
    sim["b"].join()
    assert described(sim).group_state == "CompletingRebalance"
    assert described(a_group().empty()).group_state == "Empty"


@covers("describe.authorized-operations", "describe.authorized-operations-not-asked")
@pytest.mark.parametrize(("with_operations", "operations"), [(True, 3400), (False, -2147483648)])
def test_operations_are_told_to_those_who_ask(with_operations: bool, operations: int) -> None:
    assert described(a_group().stable("a"), with_operations=with_operations).authorized_operations == operations


# List


@covers("list.simple", "list.types")
def test_all_groups_of_all_shards_are_listed() -> None:
    sim = a_group().stable("a")
    sim.peer("s", group_id="simple").commit({ORDERS: 1})
    sim.peer("n", group_id="new").send_join()
    assert sorted(listed(sim)) == [
        ("g", "consumer", "Stable", "classic"),
        ("new", "", "Empty", "classic"),
        ("simple", "", "Empty", "classic"),
    ]


@pytest.mark.parametrize("version", range(6))
def test_groups_are_listed_in_every_version_as_one_by_one(version: int) -> None:
    sim = a_group().stable("a")
    long_id = 130 * "long"
    for group_id in ("new", "größer", long_id):
        sim.peer("n", group_id=group_id).send_join()
    reply = sim.ask(ListGroupsRequest(), version)
    expected = {
        "g": ("consumer", "Stable", "classic"),
        "new": ("", "Empty", "classic"),
        "größer": ("", "Empty", "classic"),
        long_id: ("", "Empty", "classic"),
    }
    build = codec(ListGroupsResponse, version).build
    one_by_one = [
        ListedGroup(
            group_id=group.group_id,
            protocol_type=expected[group.group_id][0],
            group_state=expected[group.group_id][1],
            group_type=expected[group.group_id][2],
        )
        for group in reply.groups
    ]
    assert len(one_by_one) == len(expected)
    assert build(reply) == build(ListGroupsResponse(error_code=ErrorCode.NONE, groups=tuple(one_by_one)))


def test_each_group_is_listed_as_what_it_is_whatever_the_one_before_it_is() -> None:
    sim = a_group(offsets_topic_num_partitions=1).stable("a")
    for group_id, protocol_type in (("emptied", "consumer"), ("of-connect", "connect")):
        peer = sim.peer(group_id, group_id=group_id, protocol_type=protocol_type)
        peer.take(peer.join())
        peer.leave()
    sim.peer("n", group_id="new").send_join()
    assert listed(sim) == [
        ("g", "consumer", "Stable", "classic"),
        ("emptied", "consumer", "Empty", "classic"),
        ("of-connect", "connect", "Empty", "classic"),
        ("new", "", "Empty", "classic"),
    ]


@covers("list.states", "list.unknown-filter", "list.types")
def test_states_and_types_are_filtered_whatever_their_case() -> None:
    sim = a_group().stable("a")
    sim.peer("n", group_id="new").send_join()
    assert [row[0] for row in listed(sim, states=("sTABLE",))] == ["g"]
    assert {row[0] for row in listed(sim, states=("Stable", "empty"))} == {"g", "new"}
    assert listed(sim, states=("Unheard-of",)) == []
    assert len(listed(sim, types=("Classic", "share"))) == 2
    assert listed(sim, types=("consumer",)) == []
    assert listed(sim, types=("unheard-of",)) == []


# Delete


@covers("delete.unknown", "delete.non-empty", "delete.duplicates", "check.delete-groups.empty-group-id")
def test_only_empty_groups_are_deleted_each_with_its_own_result() -> None:
    sim = a_group().stable("a")
    sim.peer("s", group_id="simple").commit({ORDERS: 1})
    assert deleted(sim, "g", "simple", "unheard-of", "simple", "") == {
        "g": ErrorCode.NON_EMPTY_GROUP,
        "simple": ErrorCode.NONE,
        "unheard-of": ErrorCode.GROUP_ID_NOT_FOUND,
        "": ErrorCode.GROUP_ID_NOT_FOUND,
    }
    assert sim.find_group("simple") is None


@covers("delete.done", "state.deleted-group-is-gone")
def test_a_deleted_group_leaves_tombstones_of_its_offsets_and_itself_in_one_batch() -> None:
    sim = a_group().empty()
    sim.peer("x").commit({ORDERS: 1, ("audit", 0): 2})
    sim.shard().put_pending_offset(77, "g", "orders", 3, CommittedOffset.of(9, -1, "", 0, record_offset=10))
    assert deleted(sim, "g") == {"g": ErrorCode.NONE}
    assert sim.find_group() is None
    assert fetched(sim) == {}
    last = sim.records()[-1].batch_number
    records = [record for record in sim.records() if record.batch_number == last]
    assert [getattr(record.key, "topic", None) for record in records] == ["orders", "audit", "orders", None]
    assert all(record.value is None for record in records)
    assert not isinstance(records[-1].key, OffsetCommitKey)
    assert sim.transitions()[-1] == "Empty -> Dead group-deleted"
    assert described(sim).group_state == "Dead"
    sim.restart()
    assert sim.find_group() is None


def test_the_answer_waits_for_every_shard_and_tells_which_could_not_be_written() -> None:
    sim = a_group()
    names = [f"group-{number}" for number in range(4)]
    assert len({sim.coordinator.partition_for(name) for name in names}) > 1
    for name in names:
        sim.peer("s", group_id=name).commit({ORDERS: 1})
    sim.fail_appends(ErrorCode.KAFKA_STORAGE_ERROR)
    results = deleted(sim, *names)
    failed = {name for name, error in results.items() if error is ErrorCode.NOT_COORDINATOR}
    assert failed == {name for name in names if sim.find_group(name) is not None}
    assert "group-0" in failed
    assert set(results.values()) == {ErrorCode.NONE, ErrorCode.NOT_COORDINATOR}


def test_an_id_issued_in_a_deleted_group_is_forgotten_with_it() -> None:
    sim = a_group()
    peer = sim.peer("a")
    peer.member_id = peer.send_join().reply.member_id
    assert deleted(sim, "g") == {"g": ErrorCode.NONE}
    sim.pass_ms(10_000)
    assert peer.send_join().error is ErrorCode.UNKNOWN_MEMBER_ID
