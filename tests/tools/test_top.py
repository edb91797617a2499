"""`kshim top`: what is seen of groups look by look, and what is shown of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kshim.cli.main import main
from kshim.testing import Kshim
from kshim.tools.client import Client
from kshim.tools.logs.broker import BrokerLogs
from kshim.tools.screen import render
from kshim.tools.top.picture import draw
from kshim.tools.top.run import as_json
from kshim.tools.top.watch import LastCause, Row, View, Watch
from kshim.wording import columns
from kshim_protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tests.cli.process import TIMEOUT_S, hearing_ctrl_c
from tests.tools.peer import MINUTE, SESSION_MS, Peer

NOW = 1_800_000_000_000
_WITHOUT_TEXTUAL = (
    "import sys; sys.modules['textual'] = None; from kshim.cli.main import main; sys.exit(main(sys.argv[1:]))"
)


@pytest.fixture
def kshim() -> Iterator[Kshim]:
    with Kshim(topics={"orders": 2}, config={"group.initial.rebalance.delay.ms": "0"}, clock="manual") as kshim:
        yield kshim


@pytest.fixture
def address(kshim: Kshim) -> tuple[str, int]:
    host, _, port = kshim.bootstrap_servers.rpartition(":")
    return host, int(port)


def rebalancing(watch: Watch, now_ms: int) -> Row:
    """The row of the only group, as soon as it rebalances."""
    while True:
        (row,) = watch.look(now_ms).rows
        if row.is_rebalancing:
            return row


@pytest.mark.parametrize("groups", [None, frozenset({"billing"})])
def test_a_stable_group_has_its_members_and_its_generation(
    groups: frozenset[str] | None, logs: BrokerLogs, one: Peer
) -> None:
    one.work()
    (row,) = Watch(logs, groups).look(NOW).rows
    assert (row.group, row.group_type, row.state, row.unstable_ms) == ("billing", "classic", "Stable", None)
    assert (row.member_count, row.generation, row.rebalance_count) == (1, 1, 0)


def test_a_rebalance_shows_who_is_new_and_how_long_it_has_been_going_on(logs: BrokerLogs, one: Peer, two: Peer) -> None:
    one.work()
    watch = Watch(logs, None)
    watch.look(NOW)
    two.send_join()
    assert rebalancing(watch, NOW).joined == ("two@127.0.0.1",)
    (row,) = watch.look(NOW + MINUTE).rows
    assert (row.state, row.member_count) == ("PreparingRebalance", 2)
    assert MINUTE - SESSION_MS < (row.unstable_ms or 0) <= MINUTE  # since the answer that said so


def test_who_has_left_is_missing_until_the_group_is_stable_again(logs: BrokerLogs, one: Peer, two: Peer) -> None:
    one.work()
    watch = Watch(logs, None)
    watch.look(NOW)
    two.send_join()
    rebalancing(watch, NOW)
    one.leave()
    two.sync(two.joined())
    (row,) = watch.look(NOW).rows
    assert (row.state, row.missing, row.generation, row.rebalance_count) == ("Stable", (), 2, 1)
    three = Peer(logs.nodes()[0], "three")
    three.send_join()
    rebalancing(watch, NOW)
    two.leave()
    assert "two@127.0.0.1" in rebalancing(watch, NOW).missing
    three.client.close()


def test_lag_and_its_change_come_from_commits_and_the_ends_of_partitions(
    kshim: Kshim, logs: BrokerLogs, one: Peer
) -> None:
    one.work()
    for _ in range(5):
        kshim.produce("orders", b"order", partition=0)
    one.commit(2)
    watch = Watch(logs, None)
    (before,) = watch.look(NOW).rows
    kshim.produce("orders", b"order", partition=0)
    (after,) = watch.look(NOW).rows
    assert (before.lag, before.lag_change) == (3, None)
    assert (after.lag, after.lag_change) == (4, 1)


def heartbeat(client: Client, member_id: str, epoch: int, **others: object) -> int:
    """The epoch that the member has after it."""
    request = ConsumerGroupHeartbeatRequest(group_id="epochs", member_id=member_id, member_epoch=epoch, **others)  # type: ignore[arg-type]
    answer = client.ask(request, 1)
    assert answer.error_code == 0
    return int(answer.member_epoch)


@pytest.mark.parametrize("groups", [None, frozenset({"epochs"})])
def test_a_group_of_the_new_protocol_waits_for_those_that_have_to_give_up_partitions(
    groups: frozenset[str] | None, kshim: Kshim, address: tuple[str, int], logs: BrokerLogs
) -> None:
    joining = {"rebalance_timeout_ms": MINUTE, "subscribed_topic_names": ("orders",), "topic_partitions": ()}
    with (
        closing(Client(*address, client_id="slow")) as slow,
        closing(Client(*address, client_id="new")) as new,
    ):
        heartbeat(slow, "A" * 22, 0, **joining)
        watch = Watch(logs, groups)
        (before,) = watch.look(NOW).rows
        epoch = heartbeat(new, "B" * 22, 0, **joining)
        row = rebalancing(watch, NOW)
        assert (row.state, row.missing) == ("Assigning", ())
        kshim.clock.advance(2)  # assignments are computed once a second
        heartbeat(new, "B" * 22, epoch)
        row = rebalancing(watch, NOW)
    assert (row.group_type, row.member_count, row.missing) == ("consumer", 2, ("slow@127.0.0.1",))
    assert row.generation is not None
    assert before.generation is not None
    assert row.rebalance_count == row.generation - before.generation > 0


def test_what_happened_between_two_looks_is_counted(
    address: tuple[str, int], logs: BrokerLogs, one: Peer, two: Peer
) -> None:
    joining = {"rebalance_timeout_ms": MINUTE, "subscribed_topic_names": ("orders",), "topic_partitions": ()}
    one.work()
    with closing(Client(*address, client_id="first")) as client:
        heartbeat(client, "A" * 22, 0, **joining)
        watch = Watch(logs, None)
        before = {row.group: row.generation or 0 for row in watch.look(NOW).rows}
        heartbeat(client, "A" * 22, -1)
        epoch = heartbeat(client, "B" * 22, 0, **joining)
        one.leave()
        two.work()
        after = {row.group: row for row in watch.look(NOW).rows}
    assert after["epochs"].rebalance_count == epoch - before["epochs"] > 0
    assert (after["billing"].state, after["billing"].rebalance_count) == ("Stable", two.generation_id - 1)


def test_groups_that_rebalance_come_first(logs: BrokerLogs, address: tuple[str, int], one: Peer, two: Peer) -> None:
    one.work()
    with closing(Peer(address, "other", "accounting")) as other:
        other.work()
        watch = Watch(logs, None)
        assert [row.group for row in watch.look(NOW).rows] == ["accounting", "billing"]
        two.send_join()
        while not (rows := watch.look(NOW).rows)[0].is_rebalancing:
            pass
        assert [row.group for row in rows] == ["billing", "accounting"]


# As a command


def test_a_pipe_gets_one_table(kshim: Kshim, one: Peer, capsys: pytest.CaptureFixture[str]) -> None:
    one.work()
    assert main(["top", "--bootstrap-server", kshim.bootstrap_servers]) == 0
    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    (line,) = (line for line in shown.splitlines() if line.startswith("billing"))
    assert line.split()[:4] == ["billing", "Stable", "-", "1"]
    assert "LAST INCIDENTS" in shown


def test_json_is_one_object_with_groups_and_incidents(
    kshim: Kshim, one: Peer, capsys: pytest.CaptureFixture[str]
) -> None:
    one.work()
    arguments = ["top", "--bootstrap-server", kshim.bootstrap_servers, "--group", "billing", "--output", "json"]
    assert main(arguments) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["version"], found["left_out"]) == (1, 0)
    assert [row["group"] for row in found["groups"]] == ["billing"]
    assert found["groups"][0]["last_cause"]["cause"] == found["incidents"][-1]["cause"] == "one_by_one_start"


def test_where_no_broker_is_there_is_nothing_to_show(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["top", "--bootstrap-server", "127.0.0.1:1", "--once"]) == 3
    assert "127.0.0.1:1" in capsys.readouterr().err


def test_it_needs_to_know_a_broker(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["top"]) == 2
    assert "--bootstrap-server" in capsys.readouterr().err


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="there are no pseudo-terminals")
def test_without_textual_it_draws_on_a_terminal_until_ctrl_c_and_gives_the_cursor_back(kshim: Kshim, one: Peer) -> None:
    one.work()
    ours, its = os.openpty()
    command = [sys.executable, "-c", _WITHOUT_TEXTUAL, "top"]
    arguments = [*command, "--bootstrap-server", kshim.bootstrap_servers, "--interval", "1"]
    with hearing_ctrl_c():
        top = subprocess.Popen(arguments, stdout=its, stderr=subprocess.PIPE, env=os.environ | {"TERM": "xterm"})
    with top as process:
        os.close(its)
        shown = b""
        while shown.count(b"kshim top") < 2:  # drawn again, over the first picture
            shown += os.read(ours, 1 << 16)
        process.send_signal(signal.SIGINT)
        while b"\x1b[?25h" not in shown:
            shown += os.read(ours, 1 << 16)
        assert process.wait(TIMEOUT_S) == 0
    os.close(ours)
    assert b"billing" in shown
    assert b"A\r" in shown
    assert b"kshim[top]" in shown


# What is shown

ROW = Row("billing", "classic", "Stable", False, None, 3, 7, 0, (), (), None, None, None, None)


def texts(*rows: Row, room: int | None = None, problem: str | None = None) -> list[str]:
    lines = draw(View(NOW, list(rows), [], 0), "broker:9092", room=room, problem=problem)
    return [render(line, 200, is_coloured=False) for line in lines]


def test_a_line_says_what_is_wrong() -> None:
    row = ROW._replace(
        state="PreparingRebalance",
        is_rebalancing=True,
        unstable_ms=63_000,
        rebalance_count=4,
        missing=("one@h", "two@h", "three@h", "four@h"),
        lag=1_200,
        lag_change=300,
        last_cause=LastCause("killed", 0.93, False, NOW - 4_000),
    )
    assert texts(row)[-1].split() == [
        "billing",
        "PreparingRebalance",
        "1m03s",
        "3",
        "7",
        "4",
        "1200",
        "(+300)",
        "killed",
        "93%,",
        "4s",
        "ago",
        "without",
        "one@h,",
        "two@h,",
        "three@h",
        "and",
        "1",
        "more",
    ]


def test_a_guess_has_a_question_mark() -> None:
    row = ROW._replace(last_cause=LastCause("scale_up", 0.8, True, NOW))
    assert "scale_up? 80%, 0s ago" in texts(row)[-1]


def test_what_has_no_room_is_counted() -> None:
    shown = texts(*(ROW._replace(group=f"g{number}") for number in range(100)), room=10)
    assert len(shown) <= 10
    assert shown[-1].startswith("and 9")


def test_a_cluster_that_cannot_be_reached_is_said_above_the_last_table() -> None:
    assert texts(ROW, problem="no answer; trying again")[1] == "no answer; trying again"


@given(st.lists(st.text(), max_size=5), st.text(), st.integers(1, 120))
def test_groups_and_members_of_any_name_take_one_line_each(groups: list[str], who: str, width: int) -> None:
    rows = [ROW._replace(group=name, missing=(who,)) for name in groups]
    lines = [render(line, width, is_coloured=False) for line in draw(View(NOW, rows, [], 0), "broker:9092", room=40)]
    assert len(lines) == len(groups) + 3
    assert all(line.isprintable() and columns(line) <= width for line in lines)


@given(st.text())
def test_json_holds_any_name(name: str) -> None:
    shown = json.dumps(as_json(View(NOW, [ROW._replace(group=name)], [], 0)))
    assert json.loads(shown)["groups"][0]["group"] == name
