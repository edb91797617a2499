"""The interactive `kshim top`: keys, a search, and the swim lanes of one group, live, in 80 columns."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing

import pytest
from rich.text import Text
from textual.pilot import Pilot
from textual.widgets import DataTable, Static

from kshim.page import ROWS_SHOWN
from kshim.testing import Kshim
from kshim.tools.logs.broker import BrokerLogs
from kshim.tools.top.app import GroupScreen, TopApp
from kshim.tools.top.pages import Watched
from tests.cli.process import COMMAND, TIMEOUT_S
from tests.tools.peer import Peer

NOW = 1_800_000_000_000
SIZE = (80, 24)
NEVER_S = 10_000.0


@pytest.fixture
def kshim() -> Iterator[Kshim]:
    with Kshim(topics={"orders": 2}, config={"group.initial.rebalance.delay.ms": "0"}, clock="manual") as kshim:
        yield kshim


@pytest.fixture
def address(kshim: Kshim) -> tuple[str, int]:
    host, _, port = kshim.bootstrap_servers.rpartition(":")
    return host, int(port)


@pytest.fixture
def watched(logs: BrokerLogs) -> Watched:
    return Watched(logs, None)


def used(watched: Watched, use: Callable[[TopApp, Pilot[None]], Awaitable[None]]) -> None:
    """Run the application over what has been looked at once, and use it."""

    async def run() -> None:
        watched.look(NOW)
        app = TopApp(watched, interval_s=NEVER_S)
        async with app.run_test(size=SIZE) as pilot:
            await pilot.pause()
            await use(app, pilot)

    asyncio.run(run())


async def settled(app: TopApp, pilot: Pilot[None]) -> None:
    """Whatever was begun in threads is over, and shown."""
    await app.workers.wait_for_complete()
    await pilot.pause()
    await app.workers.wait_for_complete()
    await pilot.pause()


def shown(app: TopApp, name: str) -> str:
    return str(app.screen.query_one(f"#{name}", Static).render())


def cells(app: TopApp) -> list[list[str]]:
    table = app.screen_stack[0].query_one(DataTable)
    rows = (table.get_row_at(place) for place in range(table.row_count))
    return [[cell.plain.strip() for cell in row if isinstance(cell, Text)] for row in rows]


def test_enter_opens_the_swim_lanes_of_a_group_and_escape_leads_back(watched: Watched, one: Peer) -> None:
    one.work()

    async def use(app: TopApp, pilot: Pilot[None]) -> None:
        assert cells(app)[0][:3] == ["billing", "Stable", "1"]
        await pilot.press("enter")
        await settled(app, pilot)
        assert "Group billing is Stable" in shown(app, "said")
        lane = next(line for line in shown(app, "lanes").splitlines() if line.startswith("one@127.0.0.1"))
        assert "▲" in lane or "─" in lane
        await pilot.press("escape")
        assert not isinstance(app.screen, GroupScreen)

    used(watched, use)


def test_a_group_that_is_shown_goes_on_while_it_rebalances(watched: Watched, one: Peer, two: Peer) -> None:
    one.work()

    async def use(app: TopApp, pilot: Pilot[None]) -> None:
        await pilot.press("enter")
        await settled(app, pilot)
        two.send_join()
        while "PreparingRebalance" not in shown(app, "said"):
            await pilot.press("r")
            await settled(app, pilot)
        assert "two@127.0.0.1" in shown(app, "lanes")
        await pilot.press("escape")
        assert cells(app)[0][:3] == ["billing", "Preparing", "2"]

    used(watched, use)


def test_a_search_keeps_the_groups_that_match_and_escape_shows_all(watched: Watched, address: tuple[str, int]) -> None:
    for group in ("billing", "audit"):
        with closing(Peer(address, "one", group)) as peer:
            peer.work()

    async def use(app: TopApp, pilot: Pilot[None]) -> None:
        assert {row[0] for row in cells(app)} == {"billing", "audit"}
        await pilot.press("slash", "a", "u", "enter")
        assert [row[0] for row in cells(app)] == ["audit"]
        await pilot.press("enter")
        await settled(app, pilot)
        assert "Group audit" in shown(app, "said")
        await pilot.press("escape", "escape")
        await pilot.pause()
        assert len(cells(app)) == 2

    used(watched, use)


def test_of_very_many_groups_the_first_are_listed_and_a_search_finds_the_others(
    watched: Watched, address: tuple[str, int]
) -> None:
    for number in range(ROWS_SHOWN + 1):
        with closing(Peer(address, "one", f"group-{number:03}")) as peer:
            peer.commit(1)

    async def use(app: TopApp, pilot: Pilot[None]) -> None:
        assert len(cells(app)) == ROWS_SHOWN
        assert f"{ROWS_SHOWN + 1} groups" in shown(app, "head")
        assert f"{ROWS_SHOWN} shown" in shown(app, "head")
        await pilot.press("slash", "2", "0", "0", "enter")
        assert [row[0] for row in cells(app)] == [f"group-{ROWS_SHOWN}"]

    used(watched, use)


def test_a_broker_that_goes_away_is_said_and_what_was_read_stays(kshim: Kshim, watched: Watched, one: Peer) -> None:
    one.work()

    async def use(app: TopApp, pilot: Pilot[None]) -> None:
        kshim.kill_node(1)
        await pilot.press("r")
        await settled(app, pilot)
        assert "trying again" in shown(app, "problem")
        assert cells(app)[0][0] == "billing"

    used(watched, use)


def test_names_of_any_kind_stand_in_the_list_as_text(watched: Watched, address: tuple[str, int]) -> None:
    with closing(Peer(address, "[bold]x", "[red]not markup\n")) as peer:
        peer.work()

    async def use(app: TopApp, pilot: Pilot[None]) -> None:
        assert cells(app)[0][0].startswith("[red]not markup")
        await pilot.press("enter")
        await settled(app, pilot)
        assert "[red]not markup\\n" in shown(app, "said")
        assert "[bold]x@127.0.0.1" in shown(app, "lanes")

    used(watched, use)


def test_without_groups_it_says_what_will_happen(watched: Watched) -> None:
    async def use(app: TopApp, _pilot: Pilot[None]) -> None:
        assert "as soon as a consumer" in shown(app, "why")

    used(watched, use)


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="there are no pseudo-terminals")
def test_on_a_terminal_it_shows_its_keys_until_q(kshim: Kshim, one: Peer) -> None:
    one.work()
    ours, its = os.openpty()
    arguments = [COMMAND, "top", "--bootstrap-server", kshim.bootstrap_servers, "--interval", "1"]
    environment = os.environ | {"TERM": "xterm-256color", "COLUMNS": "80", "LINES": "24"}
    with subprocess.Popen(arguments, stdin=its, stdout=its, stderr=its, env=environment) as process:
        os.close(its)
        screen = b""
        while b"Quit" not in screen or b"billing" not in screen:
            screen += os.read(ours, 1 << 16)
        os.write(ours, b"q")
        while b"\x1b[?1049l" not in screen:  # the terminal has what it had before
            screen += os.read(ours, 1 << 16)
        assert process.wait(TIMEOUT_S) == 0
    os.close(ours)


def test_without_the_interactive_view_textual_is_not_imported() -> None:
    code = "import sys, kshim.tools.top.run, kshim.cli.main; sys.exit('textual' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=TIMEOUT_S).returncode == 0
