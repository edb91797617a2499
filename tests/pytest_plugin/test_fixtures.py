"""The fixtures: which brokers a test gets, and in what state."""

from __future__ import annotations

import pytest

from tests.pytest_plugin.conftest import Run


def test_each_test_has_a_clean_broker_at_the_address_of_the_run(run: Run) -> None:
    run(
        """
        addresses = set()

        def use(kshim, kshim_proc):
            assert kshim.group_ids() == []
            kshim.create_topic("orders")
            kshim.produce("orders", "coffee")
            kshim.faults.on("Heartbeat").hang().always()
            assert kshim.faults.all
            addresses.add(kshim.bootstrap_servers)
            assert addresses == {kshim_proc.bootstrap_servers}

        def test_one(kshim, kshim_proc):
            use(kshim, kshim_proc)

        def test_another(kshim, kshim_proc):
            assert kshim.faults.all == []
            use(kshim, kshim_proc)
        """
    ).assert_outcomes(passed=2)


def test_the_broker_of_the_run_keeps_what_tests_do_without_the_clean_one(run: Run) -> None:
    run(
        """
        def test_one(kshim_proc):
            kshim_proc.create_topic("orders")

        def test_another(kshim_proc):
            assert kshim_proc.records("orders") == []
        """
    ).assert_outcomes(passed=2)


def test_names_of_topics_and_groups_are_unique(run: Run) -> None:
    run(
        """
        import pytest

        names = set()

        @pytest.mark.parametrize("what", ["a/b c", "x" * 300, "ä"])
        def test_names(kshim, kshim_topic, kshim_group, what):
            assert kshim.records(kshim_topic) == []
            assert kshim.group(kshim_group).state == "Dead"
            assert kshim_topic != kshim_group
            assert not names & {kshim_topic, kshim_group}
            names.update({kshim_topic, kshim_group})
        """
    ).assert_outcomes(passed=3)


def test_a_marker_asks_for_other_brokers(run: Run) -> None:
    run(
        """
        import pytest

        pytestmark = pytest.mark.kshim(topics={"orders": 2})

        def test_topics_are_added_to_the_brokers_of_the_run(kshim, kshim_proc):
            assert kshim is kshim_proc
            kshim.produce("orders", "coffee", partition=1)

        @pytest.mark.kshim(brokers=3, topics={"bills": 1})
        def test_other_brokers_are_of_this_test_alone(kshim, kshim_proc):
            assert kshim is not kshim_proc
            assert kshim.live == [1, 2, 3]
            assert kshim.records("orders") == kshim.records("bills") == []

        @pytest.mark.kshim(users={"ann": "secret"}, clock="manual")
        def test_arguments_of_kshim_go_there(kshim):
            assert kshim.client_config("aiokafka")["sasl_plain_username"] == "ann"
            now = kshim.clock.now
            kshim.clock.advance(10)
            assert kshim.clock.now == now + 10
        """
    ).assert_outcomes(passed=3)


@pytest.mark.parametrize(
    ("marker", "problem"),
    [
        ("kshim(3)", "*@pytest.mark.kshim takes keywords only, such as brokers=3*"),
        ("kshim(broker=3)", "*@pytest.mark.kshim has no broker; there are brokers, topics,*"),
        ("kshim(topics=['orders'])", "*topics must be a dict, not ?'orders'?*"),
        ("kshim(brokers=0)", "*brokers must be a number of brokers from 1 to 100, not 0*"),
        ("kshim_fault('Heartbeat')", "*@pytest.mark.kshim_fault takes keywords only*"),
        ("kshim_fault(on='Heartbeat', do='sulk', when='once')", "*InvalidRule*sulk*"),
    ],
)
def test_a_marker_that_cannot_be_used_says_why(run: Run, marker: str, problem: str) -> None:
    result = run(f"import pytest\n@pytest.mark.{marker}\ndef test_it(kshim): pass")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(problem)


def test_factories_make_fixtures_of_other_brokers(run: Run) -> None:
    run(
        """
        from kshim.pytest_plugin import factories

        three_proc = factories.kshim_proc(brokers=3, topics={"orders": 6})
        three = factories.kshim("three_proc")
        three_async = factories.kshim_async("three")
        bills = factories.kshim_topic("three", partitions=2, configs={"cleanup.policy": "compact"})
        strict = factories.kshim(config={"auto.create.topics.enable": "false"})

        def test_three(three, three_proc, bills):
            assert three is three_proc
            assert len(three.live) == 3
            three.produce("orders", "coffee", partition=5)
            three.produce(bills, "b", key="k", partition=1)

        async def check(brokers):
            assert brokers.records("orders") == []
            await brokers.group("g").wait_empty()

        def test_again(three_async):
            import asyncio
            asyncio.run(check(three_async))

        def test_strict(strict, kshim_proc):
            assert strict is not kshim_proc
        """
    ).assert_outcomes(passed=3)


def test_a_factory_names_an_argument_that_there_is_not(run: Run) -> None:
    result = run("from kshim.pytest_plugin import factories\nthree = factories.kshim_proc(broker=3)")
    result.stdout.fnmatch_lines("*factories.kshim_proc has no broker; there are brokers, topics,*")


def test_options_of_pytest_configure_the_brokers_of_the_run(run: Run, pytester: pytest.Pytester) -> None:
    pytester.makeini(
        """
        [pytest]
        kshim_brokers = 2
        kshim_topics =
            orders=4
        kshim_config =
            group.initial.rebalance.delay.ms=5
            message.max.bytes=2000
        """
    )
    source = """
        def test_it(kshim):
            assert len(kshim.live) == {brokers}
            assert kshim.produce("orders", "coffee", partition=3)
            keys = kshim.call(lambda: kshim.cluster.config)
            assert keys.group_initial_rebalance_delay_ms == 5
            assert keys.message_max_bytes == {size}
        """
    run(source.format(brokers=2, size=2000)).assert_outcomes(passed=1)
    options = ("--kshim-brokers=3", "--kshim-config", "message.max.bytes=3000", "--kshim-clock=manual")
    run(source.format(brokers=3, size=3000), *options).assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("option", "problem"),
    [
        ("--kshim-brokers=three", "*kshim_brokers must be a number, not 'three'*"),
        ("--kshim-config=retention", "*kshim_config: 'retention' must have the form NAME=VALUE*"),
        ("--kshim-clock=fast", "*kshim_clock: *'fast'*"),
        ("--kshim-brokers=0", "*kshim_brokers must be a number from 1 to 100, not 0*"),
    ],
)
def test_an_option_that_cannot_be_used_ends_the_run_at_its_start(run: Run, option: str, problem: str) -> None:
    result = run("def test_it(kshim): pass", option)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(problem)


def test_brokers_of_a_fixture_of_ones_own_are_cleaned_too(run: Run) -> None:
    run(
        """
        import pytest
        from kshim.testing import Kshim

        @pytest.fixture(scope="session")
        def kshim_proc():
            with Kshim(2, topics={"orders": 1}) as brokers:
                yield brokers

        def test_one(kshim, kshim_proc):
            assert kshim is kshim_proc
            kshim.produce("orders", "coffee")

        def test_another(kshim):
            assert kshim.records("orders") == []
        """
    ).assert_outcomes(passed=2)


def test_the_log_reaches_nobody_whom_it_would_not_have_reached(run: Run) -> None:
    run(
        """
        import logging

        def test_quiet(kshim, caplog):
            with caplog.at_level(logging.WARNING):
                logging.getLogger("kshim").info("quiet")
            assert caplog.records == []

        def test_loud(kshim, caplog):
            with caplog.at_level(logging.INFO, logger="kshim.server"):
                logging.getLogger("kshim.server").info("loud")
            logging.getLogger("kshim.coordinator").warning("of course")
            assert [record.getMessage() for record in caplog.records] == ["loud", "of course"]

        def test_levels_are_left_alone():
            assert logging.getLogger("kshim").level in (logging.NOTSET, logging.INFO - 1)
        """
    ).assert_outcomes(passed=3)
    import logging

    assert logging.getLogger("kshim").level == logging.NOTSET
