"""The interactive `kshim top`: a list of groups, and one group with its swim lanes. The only module that uses textual."""

from __future__ import annotations

import time
from collections.abc import Iterable
from threading import Lock
from typing import ClassVar

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.coordinate import Coordinate
from textual.events import Resize
from textual.screen import Screen
from textual.widgets import DataTable, Footer, Input, Static

from kshim.drawing import Cell, characters
from kshim.drawing.svg import clock
from kshim.page import ROWS_SHOWN, GroupNow, GroupRow, group_picture, group_text
from kshim.tools.screen import fit
from kshim.tools.top.pages import Watched
from kshim.tools.top.picture import duration
from kshim.wording import counted, escaped

_HEADS = (("GROUP", 19), ("STATE", 11), ("MEM", 4), ("REBAL", 5), ("LAG", 6), ("SINCE", 6), ("WHY", 13))
"""What fits into 80 columns; on a wider terminal the first and the last column have what is left."""
_STYLES = {
    "culprit": "bold red",
    "waiting": "yellow",
    "syncing": "blue",
    "quiet": "dim",
    "calm": "green",
    "head": "bold",
}
_ARROWS = [Binding("up,k", "up", "Up", show=False), Binding("down,j", "down", "Down", show=False)]


class TopApp(App[None]):
    """Groups, those with something wrong first; Enter opens one. `watched` has been looked at once."""

    CSS = """
    #head, #problem { height: auto; } #problem { color: red; display: none; } #problem.is-there { display: block; }
    #groups { height: 1fr; } #why { height: 5; border-top: solid $panel; } #search { display: none; } #search.is-open { display: block; }
    """
    TITLE = "kshim top"
    AUTO_FOCUS = "#groups"  # not the search that is hidden, which would take the first keys
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "open", "Open the group", priority=True),
        Binding("slash", "search", "Search"),
        Binding("escape", "leave_search", "Show all", show=False),
        Binding("r", "look", "Look now"),
        Binding("q", "quit", "Quit"),
        *_ARROWS,
    ]
    _OF_THE_LIST = frozenset({"open", "search", "leave_search", "up", "down"})

    def __init__(self, watched: Watched, *, interval_s: float) -> None:
        super().__init__()
        self.watched = watched
        self._interval_s = interval_s
        self._looking = Lock()
        self._rows: list[GroupRow] = []

    def compose(self) -> ComposeResult:
        yield Static(id="head")
        yield Static(id="problem")
        yield Input(placeholder="part of a group's name; Enter keeps it, Escape shows all", id="search")
        yield DataTable[Text](id="groups", cursor_type="row", cell_padding=1)
        yield Static(id="why")
        yield Footer()

    def on_mount(self) -> None:
        self._show()
        self.set_interval(self._interval_s, self.action_look)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Keys of the list do nothing while a group is shown, and Enter ends a search where that is typed."""
        if action in self._OF_THE_LIST and isinstance(self.screen, GroupScreen):
            return False
        return action != "open" or isinstance(self.focused, DataTable)

    def action_look(self) -> None:
        """Look anew, in a thread: a broker may take its time."""
        self.run_worker(self._look, thread=True)

    def _look(self) -> None:
        if self._looking.acquire(blocking=False):
            try:
                self.watched.look(int(time.time() * 1_000))
            finally:
                self._looking.release()
            self.call_from_thread(self._looked)

    def _looked(self) -> None:
        self._show()
        if isinstance(self.screen, GroupScreen):
            self.screen.read()

    def on_resize(self, _event: Resize) -> None:
        self._show()

    def _show(self) -> None:
        table = self.screen_stack[0].query_one("#groups", DataTable)
        words = self.screen_stack[0].query_one("#search", Input).value
        chosen = self._chosen()
        found, count = self.watched.rows(words)
        self._rows = found[:ROWS_SHOWN]
        site = self.watched.cluster(None)
        busy = sum(row.is_rebalancing for row in found)
        head = f"kshim top  {site.title}  {clock(site.now_ms)} UTC  {counted(count, 'group')}, {busy} rebalancing"
        if len(found) > ROWS_SHOWN:
            head += f"; {ROWS_SHOWN} shown, / finds others"
        self.screen_stack[0].query_one("#head", Static).update(
            Text(head, style="bold", no_wrap=True, overflow="ellipsis")
        )
        problem = self.screen_stack[0].query_one("#problem", Static)
        problem.update(Text(site.problem or ""))
        problem.set_class(site.problem is not None, "is-there")
        widths = _widths(self.size.width)
        table.clear(columns=True)
        for (name, _), width in zip(_HEADS, widths, strict=True):
            table.add_column(name, width=width)
        for row in self._rows:
            table.add_row(*_cells(row, widths, site.now_ms))
        names = [row.name for row in self._rows]
        if chosen in names:
            table.cursor_coordinate = Coordinate(names.index(chosen), 0)
        self._show_why()

    def _chosen(self) -> str | None:
        """The group below the cursor."""
        place = self.screen_stack[0].query_one("#groups", DataTable).cursor_row
        return self._rows[place].name if 0 <= place < len(self._rows) else None

    def on_data_table_row_highlighted(self) -> None:
        self._show_why()

    def _show_why(self) -> None:
        row = next((each for each in self._rows if each.name == self._chosen()), None)
        text = Text("No group yet: as soon as a consumer with a group.id subscribes, its group appears here.", "dim")
        if row is not None:
            text = Text.assemble((escaped(row.name), "bold"), f"  {escaped(row.who)}  " if row.who else "  ")
            text.append(escaped(row.what or "Nothing has disturbed it since this was started."))
        self.screen_stack[0].query_one("#why", Static).update(text)

    def on_data_table_row_selected(self) -> None:
        name = self._chosen()
        if name is not None:
            self.push_screen(GroupScreen(self.watched, name))

    def action_search(self) -> None:
        """Ask for a part of a name."""
        search = self.query_one("#search", Input)
        search.add_class("is-open")
        search.focus()

    def on_input_changed(self) -> None:
        self._show()

    def on_input_submitted(self) -> None:
        self.query_one(DataTable).focus()

    def action_leave_search(self) -> None:
        """Show all groups again."""
        search = self.query_one("#search", Input)
        search.value = ""
        search.remove_class("is-open")
        self.query_one(DataTable).focus()

    def action_open(self) -> None:
        """Open the group below the cursor, as Enter does in the table."""
        self.on_data_table_row_selected()

    def action_up(self) -> None:
        self.query_one(DataTable).action_cursor_up()

    def action_down(self) -> None:
        self.query_one(DataTable).action_cursor_down()


class GroupScreen(Screen[None]):
    """One group: what happened to it, who was responsible, and its swim lanes."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,left,backspace", "app.pop_screen", "Back"),
        *_ARROWS,
    ]

    def __init__(self, watched: Watched, name: str) -> None:
        super().__init__()
        self._watched = watched
        self._group_name = name
        self._group: GroupNow | None = None

    def compose(self) -> ComposeResult:
        with VerticalScroll(id="group"):
            yield Static("Reading ...", id="said")
            yield Static(id="lanes")
        yield Footer()

    def on_mount(self) -> None:
        self.query_one(VerticalScroll).focus()
        self.read()

    def read(self) -> None:
        """Read the group as of the last look, in a thread."""
        self.run_worker(self._read, thread=True, exclusive=True)

    def _read(self) -> None:
        group = self._watched.group(self._group_name)
        self.app.call_from_thread(self._show, group)

    def on_resize(self, _event: Resize) -> None:
        if self._group is not None:
            self._show(self._group)

    def _show(self, group: GroupNow | None) -> None:
        if not self.is_attached:
            return
        said = self.query_one("#said", Static)
        if group is None:
            said.update(f"{escaped(self._group_name)} is no longer there. Escape leads back to the list.")
            return
        self._group = group
        first, *rest = group_text(group).splitlines()
        problem = self._watched.cluster(self._group_name).problem
        lines = [Text(problem, "red")] if problem else []
        lines += [Text(first, "bold"), *map(Text, rest), Text()]
        said.update(Text("\n").join(lines))
        width = self.size.width - 2  # the scroll bar
        self.query_one("#lanes", Static).update(_text(characters(group_picture(group), width)))

    def action_up(self) -> None:
        self.query_one(VerticalScroll).scroll_up()

    def action_down(self) -> None:
        self.query_one(VerticalScroll).scroll_down()


def _text(lines: Iterable[Iterable[Cell]]) -> Text:
    return Text("\n").join(
        Text.assemble(*((cell.text, _STYLES.get(cell.tone, "")) for cell in line), no_wrap=True) for line in lines
    )


def _widths(width: int) -> list[int]:
    widths = [least for _, least in _HEADS]
    more = max(
        width - sum(widths) - 2 * len(widths) - 2, 0
    )  # a cell has a space on either side, and there is a scroll bar
    first = min(more // 2, 40)
    widths[0] += first
    widths[-1] += more - first
    return widths


def _cells(row: GroupRow, widths: list[int], now_ms: int) -> list[Text]:
    name, what = fit(row.name, widths[0]), fit(row.what or "-", widths[-1])
    numbers = (row.member_count, row.rebalance_count, row.lag)
    since = "-" if row.since_ms is None else duration(now_ms - row.since_ms)
    colour = "yellow" if row.is_rebalancing else "green" if row.state == "Stable" else "dim"
    return [
        Text(name, no_wrap=True),
        Text(fit(row.state.removesuffix("Rebalance"), widths[1]), colour, no_wrap=True),
        *(
            Text("-" if each is None else str(each), justify="right")
            for each, width in zip(numbers, widths[2:], strict=False)
        ),
        Text(since, justify="right"),
        Text(what, no_wrap=True),
    ]
