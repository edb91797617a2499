"""The task assignor `sticky`: each task once, even shares, little movement, and standby tasks in other processes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from kshim.coordinator.groups.streams.task_assignor import (
    AssignedTasks,
    AssignorMember,
    SubtopologyTasks,
    Task,
    assign_sticky,
)

STATELESS, STATEFUL = SubtopologyTasks(2, is_stateful=False), SubtopologyTasks(2, is_stateful=True)


def tasks(*found: tuple[str, int]) -> frozenset[Task]:
    return frozenset(found)


def having(members: Mapping[str, AssignorMember], target: Mapping[str, AssignedTasks]) -> dict[str, AssignorMember]:
    """Members that run what they were to run."""
    return {
        member_id: member._replace(**target[member_id]._asdict()) if member_id in target else member
        for member_id, member in members.items()
    }


def test_a_second_member_gets_half_of_each_subtopology_as_on_a_live_kafka() -> None:
    subtopologies = {"0": STATELESS, "1": STATEFUL}
    alone = assign_sticky({"a": AssignorMember("p")}, subtopologies)
    assert alone == {"a": AssignedTasks(tasks(("0", 0), ("0", 1), ("1", 0), ("1", 1)))}
    members = having({"a": AssignorMember("p"), "b": AssignorMember("q")}, alone)
    assert assign_sticky(members, subtopologies) == {
        "a": AssignedTasks(tasks(("0", 0), ("1", 0))),
        "b": AssignedTasks(tasks(("0", 1), ("1", 1))),
    }


def test_processes_get_tasks_by_the_number_of_their_members() -> None:
    members = {"a": AssignorMember("p"), "b": AssignorMember("p"), "c": AssignorMember("q")}
    target = assign_sticky(members, {"0": SubtopologyTasks(6, is_stateful=False)})
    assert {member_id: len(found.active_tasks) for member_id, found in target.items()} == {"a": 2, "b": 2, "c": 2}


def test_a_task_goes_to_who_has_it_as_a_standby_task_when_its_owner_is_gone() -> None:
    members = {"a": AssignorMember("p"), "b": AssignorMember("q", standby_tasks=tasks(("0", 1)))}
    target = assign_sticky(members, {"0": STATEFUL}, standby_replicas=1)
    assert target["b"] == AssignedTasks(tasks(("0", 1)), tasks(("0", 0)))
    assert target["a"] == AssignedTasks(tasks(("0", 0)), tasks(("0", 1)))


def test_a_task_goes_to_who_has_most_of_its_state_on_disk() -> None:
    members = {
        "a": AssignorMember("p", task_offsets={("0", 1): 10}),
        "b": AssignorMember("q", task_offsets={("0", 1): 20, ("0", 0): 5}),
    }
    assert assign_sticky(members, {"0": STATEFUL})["b"].active_tasks == tasks(("0", 0))
    one_task = {"0": SubtopologyTasks(1, is_stateful=True)}
    members = {name: AssignorMember(name, task_offsets={("0", 0): offset}) for name, offset in (("a", 1), ("b", 2))}
    assert assign_sticky(members, one_task)["b"].active_tasks == tasks(("0", 0))


def test_a_standby_task_counts_more_than_state_on_disk() -> None:
    members = {
        "a": AssignorMember("p", task_offsets={("0", 0): 100}),
        "b": AssignorMember("q", standby_tasks=tasks(("0", 0))),
    }
    assert assign_sticky(members, {"0": SubtopologyTasks(1, is_stateful=True)})["b"].active_tasks == tasks(("0", 0))


def test_who_does_not_say_how_much_of_a_standby_task_it_has_counts_as_having_nothing() -> None:
    one_task = {"0": SubtopologyTasks(1, is_stateful=True)}

    def runner(offset: int) -> str:
        members = {
            "a": AssignorMember("p", standby_tasks=tasks(("0", 0))),
            "b": AssignorMember("q", standby_tasks=tasks(("0", 0)), task_offsets={("0", 0): offset}),
        }
        target = assign_sticky(members, one_task)
        return next(member_id for member_id, found in target.items() if found.active_tasks)

    assert [runner(offset) for offset in (-1, 0, 1)] == ["a", "a", "b"]


def runner_of_a_task_that_all_have_a_copy_of(*task_counts: int, processes: str) -> str:
    """Members run so many tasks already, and may run more; the first has most of the copied task, the last has least."""
    members: dict[str, AssignorMember] = {}
    begun = 0
    for number, (task_count, process_id) in enumerate(zip(task_counts, processes, strict=True)):
        runs = tasks(*(("1", index) for index in range(begun, begun + task_count)))
        begun += task_count
        members["abcd"[number]] = AssignorMember(process_id, runs, tasks(("0", 0)), {("0", 0): 10 - number})
    new_count = 20
    subtopologies = {
        "0": SubtopologyTasks(1, is_stateful=True),
        "1": SubtopologyTasks(begun + new_count, is_stateful=False),
    }
    target = assign_sticky(members, subtopologies)
    return next(member_id for member_id, found in target.items() if ("0", 0) in found.active_tasks)


def test_a_task_goes_to_the_first_with_a_copy_unless_one_has_less_to_do_itself_and_in_its_process() -> None:
    runner = runner_of_a_task_that_all_have_a_copy_of
    assert runner(1, 1, processes="pq") == "a"
    assert runner(2, 1, processes="pq") == "b"
    assert runner(1, 2, processes="pq") == "a"
    assert runner(3, 2, 1, processes="pqr") == "c"
    assert runner(3, 1, 2, processes="pqr") == "b"


def test_a_member_with_as_much_to_do_or_more_in_a_process_with_less_to_do_is_not_preferred() -> None:
    assert runner_of_a_task_that_all_have_a_copy_of(1, 1, 3, processes="pqp") == "a"
    assert runner_of_a_task_that_all_have_a_copy_of(1, 2, 5, processes="pqp") == "a"


def test_a_member_with_less_to_do_in_a_process_with_as_much_to_do_or_more_is_not_preferred() -> None:
    assert runner_of_a_task_that_all_have_a_copy_of(2, 0, processes="pp") == "a"
    assert runner_of_a_task_that_all_have_a_copy_of(2, 1, 5, processes="pqq") == "a"


def test_members_of_one_process_share_no_standby_tasks() -> None:
    members = {"a": AssignorMember("p"), "b": AssignorMember("p")}
    target = assign_sticky(members, {"0": STATEFUL}, standby_replicas=2)
    assert [found.standby_tasks for found in target.values()] == [frozenset(), frozenset()]


def test_tasks_that_are_gone_and_a_group_without_members_are_no_fault() -> None:
    members = {"a": AssignorMember("p", active_tasks=tasks(("7", 0), ("0", 9)), standby_tasks=tasks(("8", 1)))}
    assert assign_sticky(members, {"0": STATELESS}) == {"a": AssignedTasks(tasks(("0", 0), ("0", 1)))}
    assert assign_sticky({}, {"0": STATELESS}) == {}


subtopologies_of_groups = st.dictionaries(
    st.sampled_from(["0", "1", "2", "10"]),
    st.builds(SubtopologyTasks, st.integers(1, 7), st.booleans()),
    min_size=1,
)
all_tasks = st.frozensets(st.tuples(st.sampled_from(["0", "1", "2", "10", "gone"]), st.integers(0, 8)), max_size=6)
members_of_groups = st.dictionaries(
    st.text("abcdef", min_size=1, max_size=4),
    st.builds(
        AssignorMember,
        st.sampled_from("pqrs"),
        all_tasks,
        all_tasks,
        st.dictionaries(st.tuples(st.sampled_from(["0", "1"]), st.integers(0, 8)), st.integers(0, 3), max_size=4),
    ),
    min_size=1,
    max_size=8,
)
replicas = st.integers(0, 2)


@given(members_of_groups, subtopologies_of_groups, replicas)
def test_each_task_is_active_once_and_has_its_standby_tasks_in_other_processes(
    members: dict[str, AssignorMember], subtopologies: dict[str, SubtopologyTasks], standby_replicas: int
) -> None:
    target = assign_sticky(members, subtopologies, standby_replicas=standby_replicas)
    assert target.keys() == members.keys()
    active = Counter(task for found in target.values() for task in found.active_tasks)
    assert active == Counter((name, index) for name, each in subtopologies.items() for index in range(each.task_count))
    copies = Counter(
        (members[member_id].process_id, task)
        for member_id, found in target.items()
        for task in (*found.active_tasks, *found.standby_tasks)
    )
    assert set(copies.values()) == {1}
    process_count = len({member.process_id for member in members.values()})
    standby = Counter(task for found in target.values() for task in found.standby_tasks)
    for (name, index), each in ((task, subtopologies[task[0]]) for task in active):
        expected = min(standby_replicas, process_count - 1) if each.is_stateful else 0
        assert standby[name, index] == expected


@given(members_of_groups, subtopologies_of_groups, replicas)
def test_no_member_is_to_run_more_than_its_share(
    members: dict[str, AssignorMember], subtopologies: dict[str, SubtopologyTasks], standby_replicas: int
) -> None:
    target = assign_sticky(members, subtopologies, standby_replicas=standby_replicas)
    task_count = sum(each.task_count for each in subtopologies.values())
    assert max(len(found.active_tasks) for found in target.values()) <= -(-task_count // len(members))


@given(st.dictionaries(st.text("abcdef", min_size=1), st.sampled_from("pqrs"), min_size=1), subtopologies_of_groups)
def test_nothing_moves_while_nothing_changes(
    processes: dict[str, str], subtopologies: dict[str, SubtopologyTasks]
) -> None:
    members = {member_id: AssignorMember(process_id) for member_id, process_id in processes.items()}
    target = assign_sticky(members, subtopologies)
    assert assign_sticky(having(members, target), subtopologies) == target


@given(st.dictionaries(st.text("abcdef", min_size=1), st.sampled_from("pqrs"), min_size=2), subtopologies_of_groups)
def test_a_member_that_leaves_takes_no_task_from_the_others(
    processes: dict[str, str], subtopologies: dict[str, SubtopologyTasks]
) -> None:
    members = {member_id: AssignorMember(process_id) for member_id, process_id in processes.items()}
    target = assign_sticky(members, subtopologies)
    gone = min(members)
    left = {member_id: member for member_id, member in having(members, target).items() if member_id != gone}
    after = assign_sticky(left, subtopologies)
    assert all(after[member_id].active_tasks >= target[member_id].active_tasks for member_id in left)
