"""What fails a test, and what the report of a failed test has."""

from __future__ import annotations

import pytest

from tests.pytest_plugin.conftest import Run

HEARTBEAT = """
        from kshim.tools.client import Client
        from kshim_protocol.messages.heartbeat import HeartbeatRequest

        def heartbeat(kshim):
            host, port = kshim.bootstrap_servers.split(":")
            client = Client(host, int(port), client_id="ann")
            answer = client.ask(HeartbeatRequest(group_id="billing", generation_id=1, member_id="m"), 4)
            client.close()
            return answer.error_code
"""


def test_a_fault_of_a_marker_is_armed_and_must_fire(run: Run) -> None:
    result = run(
        HEARTBEAT
        + """
        import pytest

        ERROR = {"on": "Heartbeat", "do": {"error": "COORDINATOR_LOAD_IN_PROGRESS"}, "when": {"times": 1}}

        @pytest.mark.kshim_fault(**ERROR, match={"group": "billing"})
        def test_that_it_fires(kshim):
            assert heartbeat(kshim) == 14
            assert heartbeat(kshim) == 25

        @pytest.mark.kshim_fault(**ERROR, match={"group": "shipping"})
        def test_that_it_does_not(kshim):
            assert heartbeat(kshim) == 25

        @pytest.mark.kshim_fault(**ERROR, must_fire=False)
        def test_that_it_need_not(kshim):
            pass

        @pytest.mark.kshim_fault(**ERROR)
        def test_without_brokers():
            pass

        @pytest.mark.kshim_fault(**ERROR)
        @pytest.mark.kshim(brokers=2)
        def test_on_brokers_of_its_own(kshim):
            assert kshim.faults.all
            kshim.faults.on("Fetch").hang()
        """
    )
    result.assert_outcomes(passed=2, failed=3)
    result.stdout.fnmatch_lines(
        [
            "*Heartbeat: error COORDINATOR_LOAD_IN_PROGRESS*never fired: 1 Heartbeat request came with *",
            "*@pytest.mark.kshim_fault needs a test that uses the fixture kshim, or one that is made with it*",
            "*never fired: no Heartbeat request came*",
            'faults.on("Fetch").hang(...) was never armed*',
        ]
    )


def test_faults_that_a_test_sets_itself_need_not_fire(run: Run) -> None:
    run(
        """
        def test_it(kshim):
            kshim.faults.on("Heartbeat").hang().always()
        """
    ).assert_outcomes(passed=1)


def test_a_failed_test_reports_groups_faults_and_log(run: Run) -> None:
    result = run(
        """
        from tests.testing.members import member

        def have_a_member(kshim):
            with member(kshim) as ann:
                ann.join()
                ann.sync({ann.member_id: (0,)})
                kshim.faults.on("Heartbeat").error("COORDINATOR_LOAD_IN_PROGRESS").once()
                ann.heartbeat()
                ann.leave()
            kshim.call(lambda: None)

        def test_first(kshim, kshim_async):
            have_a_member(kshim)
            assert False, "as planned"

        def test_second(kshim_proc):
            assert kshim_proc.group_ids() == ["billing"]
            assert False, "as planned"

        def test_third(kshim):
            have_a_member(kshim)
        """
    )
    result.assert_outcomes(passed=1, failed=2)
    found = result.stdout.str()
    first, _, second = found.partition("_ test_second _")
    assert first.count("- kshim group billing -") == 1
    result.stdout.fnmatch_lines(
        [
            "*- kshim group billing -*",
            "What happened to group billing:",
            "*rebalance_completed*generation 1*",
            "*- kshim faults that fired -*",
            "Heartbeat: error COORDINATOR_LOAD_IN_PROGRESS*on Heartbeat v4 of ann at 127.0.0.1*",
            "*- kshim log -*",
            "* INFO *Injected fault: *",
        ]
    )
    assert "- kshim group billing -" in second, "the brokers of the run are reported, too"
    assert "Injected fault" not in second, "the log begins with the test"


def test_a_failed_test_leaves_pages_of_its_groups_in_the_cache_of_pytest(run: Run, pytester: pytest.Pytester) -> None:
    test = """
        from tests.testing.members import member

        def test_it(kshim):
            with member(kshim, group_id="billing/eu") as ann:
                ann.join()
                ann.sync({ann.member_id: (0,)})
            assert False, "as planned"
        """
    result = run(test)
    (page,) = pytester.path.glob(".pytest_cache/d/kshim/test_a_failed_test_leaves_pages*/billing_eu-*.html")
    result.stdout.fnmatch_lines(["*- kshim pages, to be opened in a browser -*", str(page)])
    html = page.read_text()
    assert "billing/eu" in html
    assert "<svg class='lanes'" in html
    (page.parent / "of an earlier run.html").write_text("")
    run(test, "-p", "no:cacheprovider").assert_outcomes(failed=1)
    run(test)
    assert list(page.parent.iterdir()) == [page]


def test_a_defect_of_kshim_fails_the_test_during_which_it_came(run: Run) -> None:
    result = run(
        """
        def test_with_a_defect(kshim):
            def fail():
                kshim.cluster.report(ZeroDivisionError("planted"), None)
            kshim.call(fail)

        def test_after_it(kshim):
            assert kshim.defects == []
        """
    )
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["ZeroDivisionError: planted", "*- kshim log -*"])


@pytest.mark.parametrize("how", ["pytest.skip('no')", "pytest.xfail('no')", "assert False"])
def test_a_test_that_has_not_passed_is_not_judged_again(run: Run, how: str) -> None:
    result = run(
        f"""
        import pytest

        @pytest.mark.kshim_fault(on="Heartbeat", do="hang", when="once")
        def test_it(kshim):
            kshim.faults.on("Heartbeat").hang()
            {how}
        """
    )
    assert result.parseoutcomes().get("errors", 0) == 0
    assert sum(result.parseoutcomes().values()) == 1


def test_a_marker_on_a_test_without_brokers_fails_it(run: Run) -> None:
    result = run(
        """
        import pytest

        @pytest.mark.kshim(brokers=3)
        def test_without_brokers():
            pass

        @pytest.mark.kshim(brokers=3)
        def test_that_gets_them_later(request):
            assert len(request.getfixturevalue("kshim").live) == 3

        @pytest.mark.kshim(topics={"orders": 1})
        def test_with_a_fixture_that_is_made_with_them(kshim_topic):
            pass

        @pytest.mark.kshim(brokers=2)
        class TestAll:
            def test_without_brokers(self):
                pass
        """
    )
    result.assert_outcomes(passed=3, failed=1)
    result.stdout.fnmatch_lines(["*@pytest.mark.kshim needs a test that uses the fixture kshim, or one*"])


def test_a_traceback_ends_at_the_call_of_the_test(run: Run) -> None:
    source = """
        import asyncio

        def wait(group):
            group.wait_stable(timeout=0.01)

        def test_wait(kshim):
            wait(kshim.group("billing"))

        def test_call(kshim):
            kshim.move("orders", 0, 1)

        def test_chain(kshim):
            kshim.faults.on("Heartbeat").once()

        def test_async(kshim_async):
            asyncio.run(kshim_async.group("billing").wait_stable(timeout=0.01))

        def test_own(kshim):
            kshim.call(lambda: 1 / 0)
        """
    result = run(source)
    result.assert_outcomes(failed=5)
    found = result.stdout.str()
    for module in ("shim/kshim", "concurrent", "asyncio/"):
        assert module not in found
    result.stdout.fnmatch_lines(
        [
            "test_*.py:4: TimeoutError",
            "*>*kshim.move(*",
            "test_*.py:10: LookupError",
            "test_*.py:13: AttributeError",
            "test_*.py:16: TimeoutError",
            "*>*1 / 0*",
            "test_*.py:19: ZeroDivisionError",
        ]
    )
    assert "testing/group.py" in run(source, "--full-trace", "-k", "wait").stdout.str()


def test_the_traceback_of_what_kshim_did_not_raise_on_purpose_is_whole(run: Run) -> None:
    result = run(
        """
        def test_it(kshim, monkeypatch):
            monkeypatch.setattr(kshim.brokers, "cluster", None)
            try:
                kshim.move("orders", 0, 1)
            finally:
                monkeypatch.undo()
        """
    )
    assert "testing/brokers.py" in result.stdout.str()
