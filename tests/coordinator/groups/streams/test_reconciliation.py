"""One member on its way to its target: what it gives up, waits for and gets in each role; and which epochs it may send."""

from __future__ import annotations

import pytest

from kshim.coordinator.groups.streams.reconciliation import Current, Owned, Processes, reconcile, require_epoch
from kshim.coordinator.groups.streams.state import MemberState
from kshim.coordinator.groups.streams.task_assignor import Task
from kshim.coordinator.groups.streams.tasks import HeldTasks, Tasks
from kshim_protocol.errors import ErrorCode, KafkaError

STABLE, UNREVOKED, UNRELEASED = MemberState.STABLE, MemberState.UNREVOKED_TASKS, MemberState.UNRELEASED_TASKS
NOTHING = Tasks()
ROLES = ("active", "standby", "warmup")


def t(*indexes: int) -> frozenset[Task]:
    return frozenset(("0", index) for index in indexes)


def since(epoch: int, *indexes: int) -> dict[Task, int]:
    return dict.fromkeys(sorted(t(*indexes)), epoch)


def step(
    current: Current,
    target_epoch: int,
    target: Tasks,
    *,
    owned: Owned = None,
    active: dict[Task, str] | None = None,
    standby: dict[Task, set[str]] | None = None,
    warmup: dict[Task, set[str]] | None = None,
) -> Current:
    """One heartbeat of a member of process `p`. Who has tasks: the member itself what is assigned to it, and those named."""
    assigned = current.assigned
    runs = {**dict.fromkeys(assigned.active, "p"), **(active or {})}
    stands_by, warms_up = standby or {}, warmup or {}
    processes = Processes(
        runs.get,
        lambda task: stands_by.get(task, set()) | ({"p"} if task in assigned.standby else set()),
        lambda task: warms_up.get(task, set()) | ({"p"} if task in assigned.warmup else set()),
    )
    return reconcile(
        current, target_epoch=target_epoch, target=target, owned=owned, process_id="p", processes=processes
    )


def with_role(role: str, *indexes: int) -> Tasks:
    return Tasks(**{role: t(*indexes)})


def held(role: str, epoch: int, *indexes: int) -> HeldTasks:
    match role:
        case "active":
            return HeldTasks(since(epoch, *indexes))
        case "standby":
            return HeldTasks({}, t(*indexes))
        case _:
            return HeldTasks({}, frozenset(), t(*indexes))


def test_a_member_is_at_a_target_when_it_is_stable_in_its_epoch() -> None:
    assert Current(5).is_at(5)
    assert not Current(4).is_at(5)
    assert not Current(5, 4, UNRELEASED).is_at(5)
    assert not Current(4, 4, UNREVOKED).is_at(5)


def test_the_place_of_a_member_is_its_epoch_and_its_state() -> None:
    assert Current(5, 4, UNRELEASED).place == (5, UNRELEASED)


def test_an_active_task_is_in_the_hands_of_who_is_to_give_it_up() -> None:
    current = Current(5, 4, UNREVOKED, HeldTasks(since(3, 0)), HeldTasks(since(2, 1)))
    assert [current.active_since(("0", index)) for index in range(3)] == [3, 2, None]


def test_a_member_that_is_at_its_target_is_left_alone() -> None:
    current = Current(5, 4, STABLE, HeldTasks(since(5, 0)))
    assert step(current, 5, with_role("active", 0, 1)) is current


@pytest.mark.parametrize("role", ROLES)
def test_free_tasks_are_given_at_once(role: str) -> None:
    assert step(Current(), 2, with_role(role, 0, 1)) == Current(2, 0, STABLE, held(role, 2, 0, 1))


@pytest.mark.parametrize("role", ROLES)
def test_tasks_are_given_up_before_the_epoch_comes(role: str) -> None:
    current = Current(2, 0, STABLE, held(role, 2, 0, 1))
    told = step(current, 3, with_role(role, 1, 2))
    assert told == Current(2, 2, UNREVOKED, held(role, 2, 1), held(role, 2, 0))
    assert step(told, 3, with_role(role, 1, 2)) is told
    assert step(told, 3, with_role(role, 1, 2), owned=with_role(role, 0, 1)) is told
    done = step(told, 4, with_role(role, 1), owned=with_role(role, 1))
    assert done == Current(4, 2, STABLE, held(role, 2, 1))


def test_who_has_given_up_and_has_to_again_is_one_epoch_further() -> None:
    told = Current(2, 2, UNREVOKED, HeldTasks(since(2, 1, 2)), HeldTasks(since(2, 0)))
    again = step(told, 7, with_role("active", 2), owned=with_role("active", 1, 2))
    assert again == Current(3, 2, UNREVOKED, HeldTasks(since(2, 2)), HeldTasks(since(2, 1)))


def test_who_says_that_it_runs_the_task_no_more_gives_it_up_at_once() -> None:
    current = Current(2, 0, STABLE, HeldTasks(since(2, 0, 1)))
    told = step(current, 3, with_role("active", 1, 2), owned=with_role("active", 1))
    assert told == Current(3, 2, STABLE, HeldTasks({**since(2, 1), **since(3, 2)}))


@pytest.mark.parametrize("process_id", ["p", "q"])
def test_an_active_task_waits_until_nobody_runs_it(process_id: str) -> None:
    waiting = step(Current(), 2, with_role("active", 0, 1), active={("0", 0): process_id})
    assert waiting == Current(2, 0, UNRELEASED, HeldTasks(since(2, 1)))
    assert step(waiting, 2, with_role("active", 0, 1)) == Current(2, 2, STABLE, HeldTasks(since(2, 0, 1)))


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("in_role", ROLES)
def test_a_task_waits_for_another_member_of_the_process_in_whatever_role(role: str, in_role: str) -> None:
    waits = Current(2, 0, UNRELEASED)
    target = with_role(role, 0)
    match in_role:
        case "active":
            assert step(Current(), 2, target, active={("0", 0): "p"}) == waits
        case "standby":
            assert step(Current(), 2, target, standby={("0", 0): {"p", "q"}}) == waits
        case _:
            assert step(Current(), 2, target, warmup={("0", 0): {"p", "q"}}) == waits


@pytest.mark.parametrize("role", ROLES)
def test_copies_in_other_processes_are_no_hindrance(role: str) -> None:
    target, gets = with_role(role, 0), Current(2, 0, STABLE, held(role, 2, 0))
    assert step(Current(), 2, target, standby={("0", 0): {"q"}}, warmup={("0", 0): {"q"}}) == gets
    if role != "active":
        assert step(Current(), 2, target, active={("0", 0): "q"}) == gets


def test_a_replica_becomes_active_in_place() -> None:
    current = Current(2, 0, STABLE, HeldTasks({}, t(0), t(1)))
    assert step(current, 3, with_role("active", 0, 1)) == Current(3, 2, STABLE, HeldTasks(since(3, 0, 1)))


def test_a_replica_that_is_to_become_active_stays_one_until_it_can_run() -> None:
    current = Current(2, 0, STABLE, HeldTasks({}, t(0), t(1)))
    target, elsewhere = with_role("active", 0, 1), {("0", 0): "q", ("0", 1): "q"}
    waiting = step(current, 3, target, active=elsewhere)
    assert waiting == Current(3, 2, UNRELEASED, HeldTasks({}, t(0), t(1)))
    assert step(waiting, 3, target, active={("0", 0): "q"}) == Current(3, 3, UNRELEASED, HeldTasks(since(3, 1), t(0)))


def test_a_replica_that_could_run_stays_one_while_the_member_has_to_give_up_tasks() -> None:
    current = Current(2, 0, STABLE, HeldTasks(since(2, 5), t(0), t(1)))
    target = with_role("active", 0, 1)
    told = step(current, 3, target)
    assert told == Current(2, 2, UNREVOKED, HeldTasks({}, t(0), t(1)), HeldTasks(since(2, 5)))
    done = step(told, 3, target, owned=Tasks(frozenset(), t(0), t(1)))
    assert done == Current(3, 2, STABLE, HeldTasks(since(3, 0, 1)))


def test_an_active_task_that_becomes_a_standby_one_is_given_up_as_active_and_kept_as_standby() -> None:
    current = Current(2, 0, STABLE, HeldTasks(since(2, 0)))
    told = step(current, 3, with_role("standby", 0))
    assert told == Current(2, 2, UNREVOKED, HeldTasks({}, t(0)), HeldTasks(since(2, 0)))
    assert step(told, 3, with_role("standby", 0), owned=with_role("standby", 0)) == Current(
        3, 2, STABLE, HeldTasks({}, t(0))
    )


def test_standby_and_warm_up_tasks_change_their_role_in_place() -> None:
    current = Current(2, 0, STABLE, HeldTasks({}, t(0), t(1)))
    changed = step(current, 3, Tasks(frozenset(), t(1), t(0)))
    assert changed.assigned.active == {}
    assert (changed.assigned.standby, changed.assigned.warmup) == (t(1), t(0))
    assert (changed.epoch, changed.state) == (3, STABLE)


def test_a_member_in_a_state_that_nobody_knows_begins_anew_once_it_runs_nothing() -> None:
    lost = Current(2, 1, MemberState.UNKNOWN)
    for owned in (None, with_role("active", 0)):
        with pytest.raises(KafkaError) as fenced:
            step(lost, 5, with_role("active", 0), owned=owned)
        assert fenced.value.code == ErrorCode.FENCED_MEMBER_EPOCH
        assert fenced.value.message == (
            "The streams group member is in a unknown state. The member must abandon all its tasks and rejoin."
        )
    assert step(lost, 5, with_role("active", 0), owned=NOTHING) == Current(5, 2, STABLE, HeldTasks(since(5, 0)))


@pytest.mark.parametrize(
    ("epoch", "owned", "which"),
    [
        (6, NOTHING, "greater"),
        (3, NOTHING, "smaller"),
        (4, None, "smaller"),
        (4, with_role("active", 0, 2), "smaller"),
        (4, with_role("standby", 0), "smaller"),
        (4, with_role("warmup", 0), "smaller"),
    ],
)
def test_other_epochs_are_fenced(epoch: int, owned: Owned, which: str) -> None:
    current = Current(5, 4, STABLE, HeldTasks(since(4, 0, 1), t(3), t(4)), HeldTasks(since(2, 2)))
    with pytest.raises(KafkaError) as fenced:
        require_epoch(current, epoch, owned)
    assert fenced.value.code == ErrorCode.FENCED_MEMBER_EPOCH
    assert fenced.value.message == (
        f"The streams group member has a {which} member epoch ({epoch}) than the one known by the group coordinator (5). "
        "The member must abandon all its partitions and rejoin."
    )


def test_the_previous_epoch_is_taken_from_who_runs_what_is_assigned_to_it() -> None:
    current = Current(5, 4, STABLE, HeldTasks(since(4, 0, 1), t(3), t(4)))
    for owned in (NOTHING, with_role("active", 0), with_role("standby", 3), with_role("warmup", 4)):
        require_epoch(current, 4, owned)
    require_epoch(current, 5, None)


def test_a_previous_epoch_that_is_not_older_is_not_taken() -> None:
    with pytest.raises(KafkaError):
        require_epoch(Current(5, 6), 6, NOTHING)
