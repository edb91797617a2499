"""`Kshim.group`: what a group is, waiting for what it becomes, and what a test does to it."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TypeVar

import aiokafka
import pytest
import trio

from kshim.harness.groups import GroupView, group_view
from kshim.testing import Kshim
from kshim_protocol.errors import ErrorCode
from tests.testing.members import Member, meanwhile, member

T = TypeVar("T")


@pytest.fixture
def kshim() -> Iterator[Kshim]:
    with Kshim(topics={"orders": 4}) as found:
        yield found


def settle(*members: Member) -> None:
    """Have members join and sync: each gets one partition in turn, by its place."""
    for each in members:
        each.begin_join()
    assert {each.end_join() for each in members} == {ErrorCode.NONE}
    leader = next(each for each in members if each.others)
    partitions = {each.member_id: (index,) for index, each in enumerate(members)}
    assert leader.sync(partitions) == ErrorCode.NONE
    assert {each.sync() for each in members if each is not leader} <= {ErrorCode.NONE}


def join_beside(kshim: Kshim, first: Member, second: Member) -> None:
    """Have a member join a group that has one, which rejoins when it is to."""
    second.begin_join()
    while kshim.group("billing").state != "PreparingRebalance":  # the request is on its way
        pass
    first.begin_join()
    assert (first.end_join(), second.end_join()) == (ErrorCode.NONE, ErrorCode.NONE)


# What a group is


def test_a_group_there_is_not_is_dead(kshim: Kshim) -> None:
    group = kshim.group("billing")
    assert (group.state, group.generation, group.members, group.offsets, group.lag) == ("Dead", 0, (), {}, {})
    assert (group.rebalances, kshim.group_ids()) == ((), [])
    assert group.explain() == "Group billing has not rebalanced."


def test_a_group_is_seen_as_its_coordinator_has_it(kshim: Kshim) -> None:
    kshim.produce("orders", "one", "two", "three", partition=0)
    with member(kshim) as ann:
        settle(ann)
        assert ann.commit("orders", 0, 1) == ErrorCode.NONE
        group = kshim.group("billing")
        (seen,) = group.members
        assert (group.state, group.generation, kshim.group_ids()) == ("Stable", 1, ["billing"])
        assert (seen.member_id, seen.client_id, seen.host, seen.is_leader) == (ann.member_id, "ann", "127.0.0.1", True)
        assert group.assignment == {ann.member_id: (("orders", 0),)}
        assert group.offsets == kshim.offsets("billing") == {("orders", 0): 1}
        assert group.lag == {("orders", 0): 2}
        assert ann.leave() == ErrorCode.NONE
        assert (group.state, group.members, group.offsets) == ("Empty", (), {("orders", 0): 1})


def test_a_partition_that_nobody_has_committed_lags_from_its_start(kshim: Kshim) -> None:
    with member(kshim) as ann:
        settle(ann)
        kshim.produce("orders", "one", "two", partition=0)
        assert kshim.group("billing").lag == {("orders", 0): 2}


def test_each_rebalance_says_why_it_began_who_caused_it_and_how_long_it_took(kshim: Kshim) -> None:
    group = kshim.group("billing")
    with member(kshim, "ann") as ann, member(kshim, "ben") as ben:
        settle(ann)
        ben.begin_join(reason="scaled out")
        while group.state != "PreparingRebalance":  # the request is on its way
            pass
        (_, second) = group.rebalances
        assert (second.why, second.outcome, second.duration_ms) == ("member_joined", None, None)
        assert "It is not over yet" in group.explain()
        ann.begin_join()
        assert (ann.end_join(), ben.end_join()) == (ErrorCode.NONE, ErrorCode.NONE)
        assert ann.sync({ann.member_id: (0,), ben.member_id: (1,)}) == ErrorCode.NONE
        assert ben.sync() == ErrorCode.NONE
        first, second = group.rebalances
        assert (first.why, first.outcome, first.to_generation) == ("member_joined", "completed", 1)
        assert second.who is not None
        assert (second.who.client_id, second.who.client_reason) == ("ben", "scaled out")
        assert (second.outcome, second.from_generation, second.to_generation) == ("completed", 1, 2)
        assert second.duration_ms is not None
        assert [each.client_id for each in second.joined] == ["ann", "ben"]
        sentences = group.explain().splitlines()
        ben_joined = f"Rebalance 2: member {ben.member_id} (client ben at 127.0.0.1) joined"
        assert sentences[1].startswith(f'{ben_joined}, which gave the reason "scaled out". It took 0.')
        assert sentences[1].endswith("ended in generation 2 with 2 members.")


def test_the_number_of_rebalances_is_asserted_with_the_timeline(kshim: Kshim) -> None:
    group = kshim.group("billing")
    group.assert_rebalances(at_most=0)
    with member(kshim) as ann:
        settle(ann)
        settle(ann)
    group.assert_rebalances(at_most=2, at_least=2)
    with pytest.raises(
        AssertionError, match=r"(?s)billing rebalanced 2 times, at most 1 expected.*rebalance_completed"
    ) as failure:
        group.assert_rebalances(at_most=1)
    assert "(by reason: member_joined 1, leader_rejoined 1)\nRebalance 1: member " in str(failure.value)
    assert "Rebalance 2: the leader, member " in str(failure.value)
    group.assert_rebalances(at_most=1, why="member_joined")
    with pytest.raises(AssertionError, match="rebalanced 1 time for leader_rejoined, at most 0 expected"):
        group.assert_rebalances(at_most=0, why="leader_rejoined")
    with pytest.raises(TypeError, match=r"needs at_most or at_least: group\.assert_rebalances\(at_most=1\)"):
        group.assert_rebalances()
    with pytest.raises(ValueError, match=r"why must be one of member_joined, member_left, .*not 'joined'"):
        group.assert_rebalances(at_most=0, why="joined")
    with pytest.raises(AssertionError, match="at least 3 expected"):
        group.assert_rebalances(at_least=3)


def test_a_group_that_is_being_read_from_the_log_is_seen_as_it_will_be(tmp_path: Path) -> None:
    with Kshim(2, topics={"orders": 4}, data_dir=tmp_path) as kshim, member(kshim) as ann:
        settle(ann)
        assert ann.commit("orders", 0, 3) == ErrorCode.NONE
        for broker in (1, 2):
            kshim.move_coordinator("billing", broker)
            assert (kshim.group("billing").state, kshim.offsets("billing")) == ("Stable", {("orders", 0): 3})
    with Kshim(2, topics={"orders": 4}, data_dir=tmp_path) as kshim:
        assert kshim.group_ids() == ["billing"]
    with Kshim(2, topics={"orders": 4}, data_dir=tmp_path) as kshim:
        assert kshim.group("billing").expel("ann") == ann.member_id
        assert kshim.group("billing").state == "Empty"


# Waiting


def test_a_wait_ends_at_once_when_it_is_true_already(kshim: Kshim) -> None:
    group = kshim.group("billing")
    assert group.wait_empty(timeout=0).state == "Dead"
    with member(kshim) as ann:
        settle(ann)
        assert group.wait_stable(members=1, timeout=0).generation == 1
        assert group.wait_stable(timeout=0).state == "Stable"
        assert group.wait_generation(1, timeout=0).generation == 1
        assert group.wait_assigned("ann", timeout=0) == (("orders", 0),)
        assert group.wait_assigned(ann.member_id, timeout=0) == (("orders", 0),)


def test_a_wait_for_a_stable_group_ends_when_the_last_member_has_its_assignment(kshim: Kshim) -> None:
    group = kshim.group("billing")
    with member(kshim, "ann") as ann, member(kshim, "ben") as ben, meanwhile(lambda: group.wait_stable(2)) as stable:
        settle(ann)
        join_beside(kshim, ann, ben)
        assert ann.sync({ann.member_id: (0, 1), ben.member_id: (2, 3)}) == ErrorCode.NONE
        assert kshim.group("billing").state == "Stable"
        assert not stable.done()
        assert ben.sync() == ErrorCode.NONE
        assert [len(each.assignment) for each in stable.result(timeout=10).members] == [2, 2]


def settle_with_nothing(found: Member) -> None:
    """Have the only member join, and assign nothing."""
    assert found.join() == ErrorCode.NONE
    assert found.sync({found.member_id: ()}) == ErrorCode.NONE


def test_a_group_whose_leader_did_not_know_the_topic_yet_is_not_stable_for_a_wait(kshim: Kshim) -> None:
    group = kshim.group("billing")
    with member(kshim) as ann:
        settle_with_nothing(ann)
        assert group.state == "Stable"
        assert group.unassigned == tuple(("orders", index) for index in range(4))
        with pytest.raises(TimeoutError, match="no member has a partition of orders"):
            group.wait_stable(members=1, timeout=0.01)
        with meanwhile(lambda: group.wait_stable(members=1)) as stable:
            settle(ann)
            assert stable.result(timeout=10).assignment == {ann.member_id: (("orders", 0),)}


def test_each_topic_that_exists_has_to_be_assigned(kshim: Kshim) -> None:
    kshim.create_topic("bills")
    with member(kshim, topics=("orders", "bills", "nowhere")) as ann:
        settle(ann)
        assert kshim.group("billing").unassigned == (("bills", 0),)


def test_a_member_of_a_topic_that_does_not_exist_is_stable_without_partitions(kshim: Kshim) -> None:
    with member(kshim, topics=("nowhere",)) as ann:
        settle_with_nothing(ann)
        assert kshim.group("billing").wait_stable(members=1, timeout=0).assignment == {ann.member_id: ()}


def test_a_member_may_be_left_without_partitions_where_others_have_them(kshim: Kshim) -> None:
    with member(kshim, "ann") as ann, member(kshim, "ben") as ben:
        settle(ann)
        join_beside(kshim, ann, ben)
        assert ann.sync({ann.member_id: (0, 1, 2, 3)}) == ErrorCode.NONE
        assert ben.sync() == ErrorCode.NONE
        assert kshim.group("billing").wait_stable(members=2, timeout=0).assignment[ben.member_id] == ()


def test_a_partition_on_its_way_from_one_cooperative_member_to_another_is_waited_for(kshim: Kshim) -> None:
    group = kshim.group("billing")
    with member(kshim, "ann") as ann, member(kshim, "ben") as ben:
        settle(ann)
        ann.owned = (0, 1)
        join_beside(kshim, ann, ben)
        assert ann.sync({ann.member_id: (0,), ben.member_id: ()}) == ErrorCode.NONE
        assert ben.sync() == ErrorCode.NONE
        with pytest.raises(TimeoutError, match="nobody has orders-1, which a member has given up"):
            group.wait_stable(members=2, timeout=0.01)
        ann.owned = (0,)
        with meanwhile(lambda: group.wait_stable(members=2)) as stable:
            settle(ann, ben)
            assert stable.result(timeout=10).assignment[ben.member_id] == (("orders", 1),)


def test_a_group_of_another_kind_of_members_is_stable_whatever_they_are_given(kshim: Kshim) -> None:
    with member(kshim) as worker:
        worker.protocol_type = "connect"
        settle_with_nothing(worker)
        assert kshim.group("billing").wait_stable(members=1, timeout=0).generation == 1


def test_a_wait_for_anything_else_ends_as_soon_as_it_is_so(kshim: Kshim) -> None:
    group = kshim.group("billing")
    with member(kshim) as ann, meanwhile(lambda: group.wait_until(lambda view: len(view.members) == 1)) as joined:
        ann.begin_join()
        assert joined.result(timeout=10).members[0].client_id == "ann"
        assert ann.end_join() == ErrorCode.NONE
    with pytest.raises(TimeoutError, match=r"billing was not as wanted within 0\.01 s: it is "):
        group.wait_until(lambda view: len(view.members) == 2, timeout=0.01)
    with pytest.raises(AttributeError, match="nonsense"):
        group.wait_until(lambda view: view.nonsense)  # type: ignore[attr-defined]


def test_a_wait_for_anything_sees_offsets_lag_and_rebalances(kshim: Kshim) -> None:
    group = kshim.group("billing")
    with member(kshim) as ann:
        with meanwhile(lambda: group.wait_until(lambda found: len(found.rebalances) == 1)) as rebalanced:
            settle(ann)
            assert rebalanced.result(timeout=10).group_id == "billing"
        with meanwhile(lambda: group.wait_until(lambda found: found.lag == {("orders", 0): 2})) as behind:
            kshim.produce("orders", "one", partition=0)
            assert not behind.done()
            kshim.produce("orders", "two", partition=0)
            assert behind.result(timeout=10).state == "Stable"
        with meanwhile(lambda: group.wait_until(lambda found: found.offsets == {("orders", 0): 2})) as committed:
            assert ann.commit("orders", 0, 2) == ErrorCode.NONE
            committed.result(timeout=10)


def test_a_wait_for_anything_sees_topics_that_are_made_meanwhile(kshim: Kshim) -> None:
    group = kshim.group("billing")
    with member(kshim) as ann, meanwhile(lambda: group.wait_until(lambda found: found.lag == {("bills", 0): 1})) as lag:
        kshim.create_topic("bills")
        assert ann.join() == ErrorCode.NONE
        assert ann.sync({}) == ErrorCode.NONE
        assert ann.commit("bills", 0, 0) == ErrorCode.NONE
        kshim.produce("bills", "one")
        lag.result(timeout=10)


def test_a_wait_for_a_commit_ends_with_it(kshim: Kshim) -> None:
    group = kshim.group("billing")
    with member(kshim) as ann:
        settle(ann)
        with meanwhile(lambda: group.wait_committed("orders", 0, 5)) as committed:
            assert ann.commit("orders", 1, 7) == ErrorCode.NONE
            assert ann.commit("orders", 0, 4) == ErrorCode.NONE
            assert not committed.done()
            assert ann.commit("orders", 0, 6) == ErrorCode.NONE
            assert committed.result(timeout=10) == 6


def test_a_wait_for_an_empty_group_ends_with_its_last_member(kshim: Kshim) -> None:
    group = kshim.group("billing")
    with member(kshim) as ann:
        settle(ann)
        with meanwhile(group.wait_empty) as empty:
            assert ann.leave() == ErrorCode.NONE
            assert empty.result(timeout=10).generation == 2


def test_waits_go_on_while_a_coordinator_moves() -> None:
    with Kshim(2, topics={"orders": 4}) as kshim:
        group = kshim.group("billing")
        with member(kshim, "ann") as ann:
            settle(ann)
            other = 3 - kshim.coordinator_of("billing")
            kshim.move_coordinator("billing", other)
            assert group.wait_stable(1).generation == 1
            assert kshim.coordinator_of("billing") == other


def test_a_wait_for_a_group_there_is_not_ends_when_its_coordinator_is_loaded() -> None:
    with Kshim(2) as kshim:
        group = kshim.group("billing")
        with member(kshim) as ann:
            assert ann.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID
        other = 3 - kshim.coordinator_of("billing")

        def move_and_wait() -> Future[GroupView]:
            kshim.brokers.move_coordinator("billing", other)
            assert group_view(kshim.cluster, "billing").state == "Unknown"
            return group._empty(timeout=10)

        assert kshim.call(move_and_wait).result().state == "Dead"


def test_a_wait_that_is_over_shows_the_timeline(kshim: Kshim) -> None:
    group = kshim.group("billing")
    with member(kshim) as ann:
        settle(ann)
        with pytest.raises(TimeoutError) as over:
            group.wait_stable(members=3, timeout=0.01)
    text = str(over.value)
    assert text.startswith(
        "group billing was not stable with 3 members within 0.01 s: it is Stable in generation 1, with the members: ann "
    )
    assert "rebalance_completed" in text
    with pytest.raises(TimeoutError, match="had not committed offset 9 of orders-0 within"):
        group.wait_committed("orders", 0, 9, timeout=0.01)


def over(wait: Callable[[], object]) -> str:
    """What a wait says when its time is over."""
    with pytest.raises(TimeoutError) as failure:
        wait()
    return str(failure.value)


def test_a_wait_that_is_over_says_that_no_client_has_connected(kshim: Kshim) -> None:
    group = kshim.group("billing")
    assert f"No client has connected. Is it pointed at {kshim.bootstrap_servers}?" in over(
        lambda: group.wait_stable(timeout=0.01)
    )
    with member(kshim, group_id="invoices") as ann:
        settle(ann)
        found = over(lambda: group.wait_stable(timeout=0.01))
    assert "No client has connected" not in found
    assert "There is no group billing; the groups there are: invoices." in found


def test_a_wait_that_is_over_names_the_member_that_is_silent() -> None:
    with Kshim(topics={"orders": 4}, clock="manual") as kshim, member(kshim) as ann:
        group = kshim.group("billing")
        settle(ann)
        assert "heartbeat" not in over(lambda: group.wait_stable(2, timeout=0.01))
        kshim.clock.advance(9)
        assert f"Member {ann.member_id} has sent no heartbeat for 9.0 s by the broker's clock" in over(
            lambda: group.wait_stable(2, timeout=0.01)
        )


def test_a_wait_that_is_over_names_the_members_that_a_rebalance_waits_for(kshim: Kshim) -> None:
    group = kshim.group("billing")
    with member(kshim) as ann:
        settle(ann)
        group.trigger_rebalance()
        assert f"Member {ann.member_id} has still to send JoinGroup" in over(lambda: group.wait_stable(timeout=0.01))
        assert ann.join() == ErrorCode.NONE
        assert f"Member {ann.member_id} has still to send SyncGroup" in over(lambda: group.wait_stable(timeout=0.01))


def test_a_wait_for_a_commit_that_is_over_says_what_is_committed(kshim: Kshim) -> None:
    group = kshim.group("billing")
    with member(kshim) as ann:
        settle(ann)
        assert ann.commit("orders", 0, 3) == ErrorCode.NONE
    found = over(lambda: group.wait_committed("orders", 0, 9, timeout=0.01))
    assert "Group billing has committed offset 3 of orders-0." in found
    found = over(lambda: group.wait_committed("orders", 7, 9, timeout=0.01))
    assert "has committed nothing of orders-7, but orders-0: 3." in found
    assert "Topic orders has the partitions 0 to 3, and no 7." in found
    assert "There is no topic bills." in over(lambda: group.wait_committed("bills", 0, 9, timeout=0.01))


def test_a_wait_ends_with_its_brokers() -> None:
    with Kshim() as kshim:
        group = kshim.group("billing")
        with meanwhile(lambda: group.wait_stable(timeout=60)) as stable:
            while not kshim.call(lambda: kshim.brokers.waits.count):
                pass
            kshim.reset()
            with pytest.raises(RuntimeError, match="the brokers were reset"):
                stable.result(timeout=10)
        ended = kshim.group("other")
    with pytest.raises(RuntimeError, match="closed"):
        ended.wait_stable()


# What a test does to it


def test_a_rebalance_that_is_triggered_has_its_reason(kshim: Kshim) -> None:
    group = kshim.group("billing")
    with member(kshim) as ann:
        settle(ann)
        group.trigger_rebalance("rolling out")
        assert group.state == "PreparingRebalance"
        group.trigger_rebalance("again")  # nothing more: one is under way
        assert ann.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
        settle(ann)
        assert group.generation == 2
        assert [(each.why, each.text) for each in group.rebalances][1:] == [("admin", "rolling out")]
        assert "Rebalance 2: it was asked for (rolling out). It took" in group.explain()


def test_a_member_that_is_expelled_is_unknown(kshim: Kshim) -> None:
    group = kshim.group("billing")
    with member(kshim, "ann") as ann, member(kshim, "ben", instance_id="b1") as ben:
        settle(ann)
        join_beside(kshim, ann, ben)
        assert ann.sync({}) == ErrorCode.NONE
        assert ben.sync() == ErrorCode.NONE
        assert group.expel("b1") == ben.member_id
        assert ben.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID
        assert ann.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
        assert group.rebalances[-1].why == "admin"
        assert "an administrator removed static member b1 (client ben at 127.0.0.1)" in group.explain()
        assert group.expel(group.members[0]) == ann.member_id
        assert group.wait_empty(timeout=0).members == ()


def test_an_instance_that_is_fenced_hears_of_it(kshim: Kshim) -> None:
    group = kshim.group("billing")
    with member(kshim, instance_id="b1") as ann, member(kshim, instance_id="b1") as successor:
        settle(ann)
        ghost = group.fence("b1")
        assert ann.heartbeat() == ErrorCode.FENCED_INSTANCE_ID
        assert [each.member_id for each in group.members] == [ghost]
        assert successor.join() == ErrorCode.NONE
        assert group.members[0].member_id == successor.member_id


def test_what_cannot_be_done_to_a_group_is_named(kshim: Kshim) -> None:
    group = kshim.group("billing")
    for call in (group.trigger_rebalance, lambda: group.expel("ann"), lambda: group.fence("b1")):
        with pytest.raises(LookupError, match="there is no group billing"):
            call()
    with member(kshim) as ann:
        settle(ann)
        wrong: Any = 5
        wrong_time: Any = "5"
        mistakes: list[tuple[Callable[[], object], type[Exception], str]] = [
            (
                lambda: group.expel("eve"),
                LookupError,
                "group billing has no member 'eve': give a member id, group.instance.id or client id",
            ),
            (lambda: group.fence("b1"), LookupError, r"no member with the group.instance.id b1 \(it has: none\)"),
            (lambda: group.expel(wrong), TypeError, "member must be a string, not 5"),
            (lambda: kshim.group(wrong), TypeError, "group_id must be a string, not 5"),
            (lambda: group.wait_stable(members="2"), TypeError, "members must be an integer"),  # type: ignore[arg-type]
            (lambda: group.wait_empty(timeout=wrong_time), TypeError, "timeout must be a number of seconds, not '5'"),
            (lambda: group.wait_empty(timeout=-1), ValueError, "timeout must be a number of seconds from 0 on, not -1"),
            (lambda: group.wait_empty(timeout=math.nan), ValueError, "from 0 on, not nan"),
        ]
        for mistake, error, sentence in mistakes:
            with pytest.raises(error, match=sentence):
                mistake()
        assert ann.leave() == ErrorCode.NONE
    with pytest.raises(LookupError, match=r"group billing has no members that could rebalance \(it is Empty\)"):
        group.trigger_rebalance()


# In asyncio and trio


def test_under_asyncio_waits_are_awaited_beside_a_client() -> None:
    async def run() -> None:
        async with Kshim(topics={"orders": 2}) as kshim:
            group = kshim.group("billing")
            kshim.produce("orders", "coffee")
            consumer = aiokafka.AIOKafkaConsumer(
                "orders",
                group_id="billing",
                client_id="ann",
                auto_offset_reset="earliest",
                **kshim.client_config("aiokafka"),
            )
            assigned = asyncio.ensure_future(group.wait_assigned("ann"))
            await consumer.start()
            assert await assigned == (("orders", 0), ("orders", 1))
            assert (await group.wait_stable(members=1)).generation == 1
            await consumer.getone()
            await consumer.commit()
            assert await group.wait_committed("orders", 0, 1) == 1
            await consumer.stop()
            assert (await group.wait_empty()).state == "Empty"
            assert (await group.wait_generation(1)).generation >= 1
            with pytest.raises(TimeoutError):
                await group.wait_stable(timeout=0.01)
            await kshim.reset()
            assert group.state == "Dead"

    asyncio.run(run())


@pytest.mark.trio
async def test_under_trio_waits_are_awaited_and_can_be_given_up() -> None:
    async with Kshim(topics={"orders": 2}) as kshim:
        group = kshim.group("billing")
        with trio.move_on_after(0.01) as given_up:
            await group.wait_stable()
        assert given_up.cancelled_caught
        async with trio.open_nursery() as nursery:

            async def wait() -> None:
                assert (await group.wait_stable(members=1)).generation == 1

            nursery.start_soon(wait)
            with member(kshim) as ann:
                await trio.to_thread.run_sync(settle, ann)
        with pytest.raises(TimeoutError):
            await group.wait_empty(timeout=0.01)
        assert kshim.call(lambda: kshim.brokers.waits.count) == 0


def test_under_asyncio_a_wait_can_be_given_up() -> None:
    async def run() -> None:
        async with Kshim() as kshim:
            group = kshim.group("billing")
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(group.wait_stable(), 0.01)

    asyncio.run(run())
