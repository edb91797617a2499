"""Applications of Kafka Streams with `group.protocol=streams`: the same happens on kshim and on Apache Kafka 4.4."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from integration.streams.application import Application, Groups, Topics, eventually
from integration.support.broker import Broker
from integration.support.fixtures import KINDS, available
from integration.support.jvm import Jvm
from integration.support.kafka import RealKafka
from integration.support.kshim import KshimProcess
from kshim_protocol.apis import API_TABLE

pytestmark = [pytest.mark.java, pytest.mark.long, pytest.mark.timeout(900)]

CONFIG = {
    "group.streams.min.session.timeout.ms": "6000",
    "group.streams.session.timeout.ms": "6000",
    "group.streams.min.heartbeat.interval.ms": "500",
    "group.streams.heartbeat.interval.ms": "500",
    "group.streams.initial.rebalance.delay.ms": "500",
}
"""A killed process is noticed after six seconds; else it would take 45."""

_HEARTBEAT = 88

Start = Callable[..., Application]


@pytest.fixture(params=KINDS, scope="module")
def streams_broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """Each broker in turn; tests use applications of their own."""
    directory = tmp_path_factory.mktemp("streams")
    broker: Broker
    if request.param == "kshim":
        if _HEARTBEAT not in API_TABLE:
            pytest.skip("kshim does not serve StreamsGroupHeartbeat yet")
        broker = KshimProcess(directory, config=CONFIG, durable=True)
    else:
        broker = available(lambda: RealKafka(directory, CONFIG))
    broker.start()
    yield broker
    broker.stop()


@pytest.fixture
def topics(streams_broker: Broker) -> Topics:
    return Topics(streams_broker.bootstrap)


@pytest.fixture
def groups(streams_broker: Broker, jvm: Jvm) -> Iterator[Groups]:
    groups = Groups(jvm, streams_broker.bootstrap)
    yield groups
    groups.close()


@pytest.fixture
def start(streams_broker: Broker, tmp_path: Path) -> Iterator[Start]:
    """Starts processes: `start(name, topology, application_id, **settings)`. What still runs in the end is killed."""
    running: list[Application] = []

    def start(name: str, topology: str, application_id: str, **settings: Any) -> Application:
        application = available(
            lambda: Application(topology, streams_broker.bootstrap, application_id, tmp_path / name, **settings)
        )
        running.append(application)
        return application

    yield start
    for application in running:
        application.kill()


def has_tasks(count: int) -> Callable[[Any], bool]:
    return lambda tasks: len(tasks.active) == count


def test_one_process_counts_words(topics: Topics, groups: Groups, start: Start) -> None:
    topics.create({"one-in": 3, "one-out": 1})
    topics.write("one-in", [(str(number), "to be or not to be") for number in range(20)])
    one = start("one", "word-count", "one")
    one.wait_for_state("RUNNING")
    assert one.wait_for_tasks(has_tasks(6), "six tasks").active == {"0_0", "0_1", "0_2", "1_0", "1_1", "1_2"}
    eventually(
        lambda: topics.table("one-out"), lambda table: table == {"to": "40", "be": "40", "or": "20", "not": "20"}
    )
    assert topics.partition_counts("one-") == {
        "one-in": 3,
        "one-out": 1,
        "one-words-repartition": 3,
        "one-counts-changelog": 3,
    }
    assert topics.configs("one-counts-changelog")["cleanup.policy"] == "compact"
    assert groups.types()["one"] == "Streams"
    assert len(groups.settled("one", 1).members) == 1
    one.close()
    assert groups.describe("one").state == "Empty"
    assert topics.committed("one", "one-in") == 20


def test_a_second_process_takes_half_of_the_tasks_and_the_first_gets_them_back(
    topics: Topics, groups: Groups, start: Start
) -> None:
    topics.create({"two-in": 4, "two-out": 2})
    topics.write("two-in", [(str(number), f"word-{number % 10}") for number in range(100)])
    one = start("one", "word-count", "two")
    one.wait_for_tasks(has_tasks(8), "eight tasks")
    two = start("two", "word-count", "two")
    kept = one.wait_for_tasks(has_tasks(4), "half of the tasks").active
    taken = two.wait_for_tasks(has_tasks(4), "half of the tasks").active
    assert kept | taken == {f"{subtopology}_{partition}" for subtopology in range(2) for partition in range(4)}
    group = groups.settled("two", 2)
    assert {member.tasks.active for member in group.members.values()} == {kept, taken}
    assert len({member.process_id for member in group.members.values()}) == 2
    topics.write("two-in", [(str(number), f"word-{number % 10}") for number in range(100)])
    eventually(lambda: set(topics.table("two-out").values()), lambda counts: counts == {"20"})
    one.close()
    two.wait_for_tasks(has_tasks(8), "all tasks")
    topics.write("two-in", [(str(number), f"word-{number % 10}") for number in range(100)])
    eventually(lambda: topics.table("two-out"), lambda table: table == {f"word-{number}": "30" for number in range(10)})
    assert len(groups.settled("two", 1).members) == 1
    two.close()


def test_tasks_of_a_killed_process_go_to_the_other_one(topics: Topics, groups: Groups, start: Start) -> None:
    topics.create({"killed-in": 4, "killed-out": 1})
    topics.write("killed-in", [(str(number), f"word-{number % 5}") for number in range(50)])
    one, two = start("one", "word-count", "killed"), start("two", "word-count", "killed")
    for process in (one, two):
        process.wait_for_tasks(has_tasks(4), "half of the tasks")
    before = groups.settled("killed", 2)
    eventually(lambda: topics.table("killed-out"), lambda table: len(table) == 5)
    two.kill()
    topics.write("killed-in", [(str(number), f"word-{number % 5}") for number in range(50)])
    one.wait_for_tasks(has_tasks(8), "all tasks")
    eventually(lambda: topics.table("killed-out"), lambda table: set(table.values()) >= {"20"} and len(table) == 5)
    after = groups.settled("killed", 1)
    assert after.epoch > before.epoch
    (survivor,) = after.members
    assert survivor in before.members
    one.close()


def test_with_exactly_once_a_killed_process_repeats_and_loses_nothing(topics: Topics, start: Start) -> None:
    topics.create({"once-in": 3, "once-out": 2})
    settings = {"processing_guarantee": "exactly_once_v2", "transaction_timeout_ms": "10000"}
    one, two = (start(name, "word-count", "once", **settings) for name in ("one", "two"))
    for process in (one, two):
        process.wait_for_tasks(has_tasks(3), "half of the tasks")
    for number in range(30):
        topics.write("once-in", [(str(number), f"word-{number % 3}")])
        if number == 15:
            two.kill()
    one.wait_for_tasks(has_tasks(6), "all tasks")
    eventually(
        lambda: topics.table("once-out"), lambda table: table == dict.fromkeys(("word-0", "word-1", "word-2"), "10")
    )
    seen: dict[str, list[int]] = {}
    for word, count in topics.read("once-out"):
        seen.setdefault(word, []).append(int(count))
    assert all(counts == sorted(set(counts)) for counts in seen.values()), seen
    one.close()


def test_a_stream_is_joined_with_a_table_over_a_repartition_topic(topics: Topics, groups: Groups, start: Start) -> None:
    topics.create({"join-in": 4, "join-users": 2, "join-out": 1})
    topics.write("join-users", [(f"u{number}", f"name-{number}") for number in range(6)])
    one = start("one", "join", "join")
    # Two subtopologies: four tasks read the orders, two join what was repartitioned as the users are.
    one.wait_for_tasks(has_tasks(6), "six tasks")
    assert topics.partition_counts("join-by-user")["join-by-user-repartition"] == 2
    two = start("two", "join", "join")
    for process in (one, two):
        process.wait_for_tasks(has_tasks(3), "half of the tasks")
    topics.write("join-in", [(str(number), f"u{number % 6}:{number}") for number in range(60)])
    joined = eventually(lambda: topics.read("join-out"), lambda records: len(records) >= 60)
    assert sorted(joined) == sorted((f"u{number % 6}", f"name-{number % 6}:{number}") for number in range(60))
    groups.settled("join", 2)
    two.close()
    one.close()


def test_a_standby_task_takes_over_with_its_state(topics: Topics, groups: Groups, start: Start) -> None:
    begun_s = int(time.time()) // 10 * 10  # not longer ago: the broker deletes what is older than its retention
    groups.configure("windows", streams_num_standby_replicas="1")
    topics.create({"windows-in": 2, "windows-out": 1})
    for second in (0, 4, 11):
        topics.write(
            "windows-in", [(f"k{number}", "") for number in range(200)], timestamp_ms=(begun_s + second) * 1_000
        )
    one, two = start("one", "windows", "windows"), start("two", "windows", "windows")
    for process in (one, two):
        tasks = process.wait_for_tasks(
            lambda tasks: len(tasks.active) == len(tasks.standby) == 1, "a task and a standby task"
        )
        assert not tasks.active & tasks.standby
    group = groups.settled("windows", 2)
    assert {member.tasks for member in group.members.values()} == {one.tasks(), two.tasks()}
    expected = {
        f"k{number}@{begun_s + second}": count for number in range(200) for second, count in ((0, "2"), (10, "1"))
    }
    eventually(lambda: topics.table("windows-out"), lambda table: table == expected)
    two.kill()
    one.wait_for_tasks(lambda tasks: len(tasks.active) == 2 and not tasks.standby, "both tasks")
    topics.write("windows-in", [(f"k{number}", "") for number in range(200)], timestamp_ms=(begun_s + 12) * 1_000)
    expected |= {f"k{number}@{begun_s + 10}": "2" for number in range(200)}
    eventually(lambda: topics.table("windows-out"), lambda table: table == expected)
    assert sum(one.restored().values()) < 20  # of 600: the standby task had read what was there
    one.close()


def test_an_application_of_the_classic_protocol_goes_on_in_the_streams_protocol_and_back(
    topics: Topics, groups: Groups, start: Start
) -> None:
    topics.create({"upgraded-in": 2, "upgraded-out": 1})
    for number, (protocol, kind) in enumerate(
        (("classic", "Classic"), ("streams", "Streams"), ("classic", "Classic")), 1
    ):
        topics.write("upgraded-in", [(str(key), "word") for key in range(10)])
        settings = {"session_timeout_ms": "6000"} if protocol == "classic" else {}
        process = start(f"run-{number}", "word-count", "upgraded", group_protocol=protocol, **settings)
        process.wait_for_tasks(has_tasks(4), "four tasks")
        counted = {"word": str(10 * number)}
        eventually(lambda: topics.table("upgraded-out"), counted.__eq__)
        assert groups.types()["upgraded"] == kind
        process.close()
        # A member of the classic protocol does not leave by itself: its session has to end.
        eventually(lambda: groups.state("upgraded"), lambda state: state == "Empty")


def test_processes_of_both_protocols_cannot_be_in_one_group(topics: Topics, start: Start) -> None:
    topics.create({"mixed-in": 2, "mixed-out": 1})
    classic = start("classic", "word-count", "mixed", group_protocol="classic")
    classic.wait_for_state("RUNNING")
    streams = start("streams", "word-count", "mixed")
    streams.wait_for_state("ERROR")
    assert "GroupIdNotFoundException: Group mixed is not a streams group." in streams.lines("error")
    assert classic.lines("state")[-1] == "RUNNING"
    streams.close()
    classic.close()


def test_a_source_topic_that_is_missing_ends_the_application(topics: Topics, start: Start) -> None:
    topics.create({"missing-out": 1})
    process = start("one", "word-count", "missing")
    process.wait_for_state("ERROR")
    (error,) = process.lines("error")
    assert error.startswith("MissingSourceTopicException: ")
    process.close()


def test_sources_of_a_join_with_different_partition_counts_end_the_application(topics: Topics, start: Start) -> None:
    topics.create({"uneven-in": 2, "uneven-users": 2, "uneven-by-user-repartition": 3, "uneven-out": 1})
    process = start("one", "join", "uneven")
    process.wait_for_state("ERROR")
    (error,) = process.lines("error")
    assert "Existing topic uneven-by-user-repartition has different number of partitions: expected 2, found 3" in error
    process.close()


def test_a_process_ends_alone_or_all_processes_end_with_it(topics: Topics, groups: Groups, start: Start) -> None:
    topics.create({"poison-in": 2, "poison-out": 1})
    processes = [start(name, "word-count", "poison") for name in ("one", "two")]
    for process in processes:
        process.wait_for_tasks(has_tasks(2), "half of the tasks")
    groups.settled("poison", 2)
    topics.write("poison-in", [(str(number), "poison-all") for number in range(1)])
    for process in processes:
        process.wait_for_state("ERROR")
    assert any("Poison: all processes are to end" in process.lines("error") for process in processes)
    for process in processes:
        process.close()


def test_threads_of_a_process_are_members_that_share_its_tasks(topics: Topics, groups: Groups, start: Start) -> None:
    topics.create({"threads-in": 4, "threads-out": 1})
    process = start("one", "word-count", "threads")
    process.wait_for_tasks(has_tasks(8), "eight tasks")
    process.say("add-thread")
    group = groups.settled("threads", 2)
    assert {len(member.tasks.active) for member in group.members.values()} == {4}
    assert len({member.process_id for member in group.members.values()}) == 1
    process.say("remove-thread")
    assert [len(member.tasks.active) for member in groups.settled("threads", 1).members.values()] == [8]
    process.close()


def test_a_static_member_that_comes_back_has_its_tasks_again(topics: Topics, groups: Groups, start: Start) -> None:
    groups.configure(
        "static", streams_session_timeout_ms="45000"
    )  # a JVM on a busy machine may need more than six seconds
    topics.create({"static-in": 4, "static-out": 1})
    one = start("one", "word-count", "static", group_instance_id="i1")
    two = start("two", "word-count", "static", group_instance_id="i2")
    for process in (one, two):
        process.wait_for_tasks(has_tasks(4), "half of the tasks")
    before = groups.settled("static", 2)
    tasks = two.tasks()
    two.close()
    assert one.tasks().active | tasks.active == {f"{a}_{b}" for a in range(2) for b in range(4)}
    again = start("two", "word-count", "static", group_instance_id="i2")
    again.wait_for_tasks(lambda now: now == tasks, "the tasks that it had")
    after = groups.settled("static", 2)
    assert after.epoch == before.epoch
    assert {member.instance_id for member in after.members.values()} == {"i1-1", "i2-1"}
    again.close()
    one.close()


def test_an_application_goes_on_after_the_broker_was_killed(
    streams_broker: Broker, topics: Topics, groups: Groups, start: Start
) -> None:
    topics.create({"restarted-in": 2, "restarted-out": 1})
    topics.write("restarted-in", [(str(key), "word") for key in range(10)])
    process = start("one", "word-count", "restarted")
    process.wait_for_tasks(has_tasks(4), "four tasks")
    eventually(lambda: topics.table("restarted-out"), lambda table: table == {"word": "10"})
    before = groups.settled("restarted", 1)
    streams_broker.kill()
    streams_broker.start()
    topics.write("restarted-in", [(str(key), "word") for key in range(10)])
    eventually(lambda: topics.table("restarted-out"), lambda table: table == {"word": "20"})
    after = groups.settled("restarted", 1)
    assert after.members.keys() == before.members.keys()
    process.close()
