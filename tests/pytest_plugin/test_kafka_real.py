"""`--kafka-real`: the same tests on brokers that run elsewhere, and what is skipped there."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from integration.support.kafka import RealKafka
from kshim.testing import Kshim
from tests.pytest_plugin.conftest import Run

TESTS = """
        import pytest
        from kafka import KafkaConsumer

        @pytest.mark.kshim(topics={"orders": 2})
        def test_a_group(kshim, kshim_group):
            group = kshim.group(kshim_group)
            assert group.state == "Dead"
            kshim.produce("orders", "coffee", "tea", partition=1)
            consumer = KafkaConsumer(
                "orders",
                group_id=kshim_group,
                client_id="ann",
                auto_offset_reset="earliest",
                **kshim.client_config("kafka-python"),
            )
            assert next(consumer).value == b"coffee"
            consumer.commit()
            assert group.wait_committed("orders", 1, 1) == 1
            assert group.wait_stable(members=1).state == "Stable"
            assert group.wait_until(lambda view: view.protocol == "range").members
            assert group.wait_assigned("ann") == (("orders", 0), ("orders", 1))
            assert group.offsets["orders", 1] == kshim.offsets(kshim_group)["orders", 1] == 1
            assert group.lag["orders", 1] == 1
            assert kshim_group in kshim.group_ids()
            member, = group.members
            assert member.client_id == "ann"
            assert group.expel("ann") == member.member_id
            consumer.close(autocommit=False)
            group.wait_empty()

        def test_records(kshim, kshim_topic):
            with pytest.raises(TimeoutError, match="did not have 1 record within 0.01 s"):
                kshim.wait_records(kshim_topic, timeout=0.01)
            written = kshim.produce(kshim_topic, "coffee", None, key="k", headers={"a": b"b"})
            assert [record.offset for record in written] == [0, 1]
            first, second = kshim.wait_records(kshim_topic, 2)
            assert (first.value, second.value, first.key, first.headers) == (b"coffee", None, b"k", (("a", b"b"),))
            with pytest.raises(LookupError, match="there is no topic nothing"):
                kshim.records("nothing")
            with pytest.raises(LookupError, match="has the partitions 0 to 0, and no 7"):
                kshim.produce(kshim_topic, "coffee", partition=7)

        @pytest.mark.kshim(topics={"orders": 1})
        def test_topics_and_groups_of_other_tests_are_gone(kshim, kshim_noproc, kshim_proc):
            assert kshim.records("orders") == []
            assert kshim.group_ids() == []
            assert kshim_noproc.bootstrap_servers == kshim_proc.bootstrap_servers == kshim.bootstrap_servers

        def test_a_group_that_does_not_come(kshim):
            with pytest.raises(TimeoutError, match="group billing was not stable within 0.01 s: it is Dead"):
                kshim.group("billing").wait_stable(timeout=0.01)

        @pytest.mark.trio
        async def test_asynchronous_waits(kshim_async):
            assert (await kshim_async.group("billing").wait_empty()).members == ()
"""

SKIPPED = """
        import pytest
        import trio

        def test_clock(kshim):
            kshim.clock.advance(46)

        def test_faults(kshim):
            kshim.faults.on("Heartbeat").hang().once()

        def test_nodes(kshim):
            kshim.stop_node(1)

        def test_explain(kshim):
            kshim.group("billing").explain()

        @pytest.mark.kshim_fault(on="Heartbeat", do="hang", when="once")
        def test_marked_fault(kshim):
            pass

        @pytest.mark.kshim(brokers=3)
        def test_marked_brokers(kshim):
            pass

        @pytest.mark.trio
        async def test_in_a_task(kshim_async):
            async with trio.open_nursery():
                kshim_async.group("billing").rebalances
"""
REASONS = [
    "kshim.clock",
    "kshim.faults",
    "kshim.stop_node",
    "kshim.group(...).explain",
    "@pytest.mark.kshim_fault",
    "@pytest.mark.kshim(brokers=...)",
    "kshim.group(...).rebalances",
]


@pytest.fixture
def elsewhere() -> Iterator[Kshim]:
    with Kshim(2) as found:
        yield found


def test_tests_run_on_a_kafka_elsewhere(run: Run, elsewhere: Kshim, pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nfilterwarnings = ignore:(read|open)_text:DeprecationWarning")
    result = run(TESTS, "--kafka-real", elsewhere.bootstrap_servers, "-W", "default")
    result.assert_outcomes(passed=5)
    result.stdout.fnmatch_lines(f"kshim: tests run on the Kafka at {elsewhere.bootstrap_servers}")
    assert elsewhere.group_ids() == []
    assert elsewhere.call(lambda: [topic.name for topic in elsewhere.cluster.topics if topic.name[0] != "_"]) == []


def test_what_needs_kshim_is_skipped_with_the_reason(run: Run, elsewhere: Kshim) -> None:
    result = run(SKIPPED, "--kafka-real", elsewhere.bootstrap_servers, "-rs")
    result.assert_outcomes(skipped=len(REASONS))
    found = result.stdout.str()
    for what in REASONS:
        assert f"{what} needs kshim: this run is on the Kafka at {elsewhere.bootstrap_servers}" in found


def test_groups_that_were_there_before_are_left_alone(run: Run, elsewhere: Kshim) -> None:
    from tests.testing.members import member

    elsewhere.create_topic("orders")
    with member(elsewhere) as ann:
        ann.join()
        ann.sync({ann.member_id: (0,)})
        ann.commit("orders", 0, 7)
        ann.leave()
    result = run(
        """
        import pytest

        def test_it(kshim):
            assert kshim.group("billing").offsets == {("orders", 0): 7}

        @pytest.mark.kshim(topics={"orders": 1})
        def test_a_topic_that_is_there(kshim):
            pass
        """,
        "--kafka-real",
        elsewhere.bootstrap_servers,
    )
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines("*TOPIC_ALREADY_EXISTS*")
    assert elsewhere.offsets("billing") == {("orders", 0): 7}
    assert elsewhere.records("orders") == []


def test_a_kafka_that_does_not_answer_is_an_error(run: Run) -> None:
    result = run("def test_it(kshim): pass", "--kafka-real", "127.0.0.1:1")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines("*ConnectionError: 127.0.0.1:1: cannot connect to 127.0.0.1:1*")


def test_a_fixture_of_brokers_elsewhere_needs_an_address(run: Run, elsewhere: Kshim) -> None:
    result = run(
        f"""
        from kshim.pytest_plugin import factories

        there = factories.kshim_noproc("{elsewhere.bootstrap_servers}")
        kafka = factories.kshim("there")

        def test_with_one(kafka):
            assert kafka.group_ids() == []

        def test_without(kshim_noproc):
            pass
        """
    )
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines("*kshim_noproc needs an address: --kafka-real HOST:PORT*")


@pytest.mark.kafka
def test_tests_run_on_kafka(run: Run, real_kafka: RealKafka, pytester: pytest.Pytester) -> None:
    source = TESTS.replace("assert kshim.group_ids() == []", "kshim.group_ids()")
    pytester.makeini("[pytest]\nfilterwarnings = ignore:(read|open)_text:DeprecationWarning")
    run(source, "--kafka-real", real_kafka.bootstrap, "-W", "default").assert_outcomes(passed=5)
    run(SKIPPED, "--kafka-real", real_kafka.bootstrap).assert_outcomes(skipped=len(REASONS))
