"""Pages as HTML: what they answer, for any names, and without anything from elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from html.parser import HTMLParser
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kshim.page import ROWS_SHOWN, GroupNow, GroupRow, Site, group_page, group_text, groups_page, message_page
from kshim.page.files import script, style
from kshim.page.html import SCRIPT, STYLE
from tests.page.groups import CLUSTER, HOSTILE, MINUTE, START, a_turn, an_incident, billing

VOID = {"meta", "link", "input", "br"}


class Read(HTMLParser):
    """A page as a browser sees it: its elements, and the text of each that has an id."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, str] = {}
        self._open: list[tuple[str, str | None]] = []
        self.feed(html)
        self.close()
        assert not self._open, self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append((tag, dict(attrs).get("id")))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop()[0] == tag, tag

    def handle_data(self, data: str) -> None:
        for element_id in {element_id for _, element_id in self._open} - {None}:
            self.texts[element_id or ""] = self.texts.get(element_id or "", "") + data

    def all(self, tag: str, **wanted: str) -> list[dict[str, str | None]]:
        return [found for name, found in self.attributes if name == tag and wanted.items() <= found.items()]


def group(
    found: GroupNow | None = None, cluster: Site = CLUSTER, *, rebalance: int | None = None, at_ms: int | None = None
) -> Read:
    return Read(group_page(cluster, found or billing(), rebalance=rebalance, at_ms=at_ms))


def row(name: str = "billing", **others: object) -> GroupRow:
    fields = {
        "state": "Stable", "is_rebalancing": False, "since_ms": START, "member_count": 2, "rebalance_count": 3, "lag": 12,
        "what": "a session expired", "who": "bill-2@10.0.0.2",
    } | others  # fmt: skip
    return GroupRow(name, **fields)  # type: ignore[arg-type]


def groups(rows: Sequence[GroupRow], search: str = "", *, count: int | None = None, cluster: Site = CLUSTER) -> Read:
    shown = groups_page(
        cluster, list(rows)[:ROWS_SHOWN], search=search, group_count=count or len(rows), found_count=len(rows)
    )
    return Read(shown)


QUESTIONS = {
    "is anything wrong now?": "Stable",
    "which pod, on which host?": "\u2691 bill-2@10.0.0.2",
    "since when?": "2026-11-18 11:09:55Z",
    "what happened to it?": "bill-2@10.0.0.2 was killed or crashed: it ended without leaving the group.",
    "how sure is that?": "93% sure, observed",
    "what else may it have been?": "paused (7%)",
    "what speaks for it?": "for: its connection was reset, without LeaveGroup",
    "what speaks against it?": "against: another client of that host goes on",
    "what do I change?": "a lower session.timeout.ms notices it sooner",
    "how often?": "3 rebalances",
    "whom did the others wait for, and how long?": "last to join: bill-2@10.0.0.2 after 40.0 s",
    "JOIN or SYNC?": "JOIN 40.0 s, SYNC 80 ms",
    "which partitions stood still?": "no living owner",
    "who has which partition?": "orders 0-1",
    "is the group behind?": "lag 12,348",
    "and where?": "lag 12,345",
    "who joined?": "bill-3 joined",
    "is it still true?": "Read at",
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_the_page_of_a_group_answers(question: str) -> None:
    read = group()
    shown = " ".join(read.texts.values())
    page = group_page(CLUSTER, billing())
    assert QUESTIONS[question] in shown or QUESTIONS[question] in page


def test_the_worst_incident_is_said_first_and_the_others_can_be_opened() -> None:
    read = group()
    assert "killed" in read.texts["why"]
    others = read.texts["others"]
    assert others.startswith("1 other incident: slow_poll bill-2@10.0.0.2, 2026-11-18 11:07:40Z"), others


def test_a_rebalance_has_an_address_and_shows_its_own_cause() -> None:
    read = group(rebalance=2)
    assert "Rebalance 2" in read.texts["turn"]
    assert "slow_poll" in read.texts["why"]
    assert "Close-up of rebalance 2" in read.texts["lanes"]
    assert read.all("tr", id="turn-2")[0].get("aria-current") == "true"


def test_the_card_of_a_rebalance_says_how_long_it_took_and_when_it_was() -> None:
    shown = group(rebalance=2).texts["turn"]
    assert shown.startswith("The rebalance took 40.1 sRebalance 2, 2026-11-18 11:07:40Z to 2026-11-18 11:08:20Z")
    turn = a_turn(4, START + 19 * MINUTE, outcome=None, ended_ms=None, joined_ms=None, phases=())
    shown = group(billing(turns=[*billing().turns, turn]), rebalance=4).texts["turn"]
    assert "The rebalance has taken 1m 00s, and goes on" in shown


def test_the_time_of_the_page_is_in_its_header() -> None:
    for read in (group(), groups([row()])):
        assert read.texts["now"] == "Now 2026-11-18 11:26:40Z"


def test_each_partition_has_its_owner_beside_its_name() -> None:
    page = group_page(CLUSTER, billing())
    for place, owner in (("orders-1", "bill-1@10.0.0.1"), ("orders-2", "bill-3@10.0.0.3")):
        lane = page.partition(f">{place}<title>")[2]
        assert f">{owner}<title>" in lane[:250]
    before = group_page(CLUSTER, billing(), rebalance=2)
    assert ">bill-2@10.0.0.2<title>" in before.partition(">orders-1<title>")[2][:250]


def test_a_time_leads_to_the_rebalance_of_that_time() -> None:
    assert "Rebalance 2" in group(at_ms=START + MINUTE + 20_000).texts["turn"]
    assert "Rebalance 3" in group(at_ms=START + 60 * MINUTE).texts["turn"]


def test_a_rebalance_that_is_no_longer_known_says_so_and_shows_the_group() -> None:
    read = group(rebalance=99)
    assert "Rebalance 99 is not known" in read.texts["main"]
    assert "killed" in read.texts["why"]


def test_a_rebalance_that_is_open_is_named_with_its_beginning() -> None:
    turn = a_turn(4, START + 19 * MINUTE, outcome=None, ended_ms=None, joined_ms=None, phases=())
    read = group(billing(turns=[*billing().turns, turn], state="PreparingRebalance"))
    assert "rebalancing since 2026-11-18 11:25:40Z" in read.texts["main"]
    assert "still open" in read.texts["turns"]


def test_a_group_of_which_nothing_is_known_says_so() -> None:
    read = group(billing(turns=[], facts=[], incidents=[], owners=[], members=[], offsets=[], commits={}))
    assert "Nothing has disturbed this group, as far as is known." in read.texts["why"]
    assert "Nothing to draw" in read.texts["lanes"]
    assert "lag unknown" in read.texts["main"]


def test_of_an_unknown_cause_the_best_guess_stands_beside_it() -> None:
    guess = [{"cause": "killed", "confidence": 0.67, "evidence": []}]
    incident = an_incident(cause="unknown", subject="clients", confidence=0.13, advice=None, alternatives=guess)
    assert "unknown perhaps killed (67%), observed" in group(billing(incidents=[incident])).texts["why"]


def test_as_text_it_says_what_matters_in_some_lines() -> None:
    lines = group_text(billing(), rebalance=2).splitlines()
    assert lines[0] == "Group billing is Stable, 2026-11-18 11:26:40Z"
    assert lines[1:4] == [
        "slow_poll (97%, observed), 2026-11-18 11:07:40Z",
        "bill-2@10.0.0.2 did not call poll() in time while it processed records.",
        "What to change: Raise max.poll.interval.ms above the time of the slowest batch, or lower max.poll.records.",
    ]


def test_a_file_of_it_needs_nothing_else() -> None:
    read = Read(group_page(CLUSTER, billing(), css=style()))
    assert not {"script", "link", "button", "form"} & set(read.tags)
    assert "style" in read.tags


# The list


def test_a_row_says_state_members_rebalances_lag_and_why() -> None:
    shown = groups([row(is_rebalancing=True, state="PreparingRebalance", lag=12_345)]).texts["groups"]
    for part in (
        "billing",
        "PreparingRebalance",
        "2",
        "3",
        "12,345",
        "20 min ago",
        "bill-2@10.0.0.2",
        "a session expired",
    ):
        assert part in shown


def test_who_stands_on_a_line_of_its_own() -> None:
    shown = groups_page(CLUSTER, [row()], group_count=1)
    assert "<b>bill-2@10.0.0.2</b><br>a session expired" in shown


def test_of_more_groups_than_are_shown_the_others_are_counted() -> None:
    read = groups([row(f"g{number}") for number in range(500)])
    assert len(read.all("tr")) == ROWS_SHOWN + 1
    assert "and 300 more" in read.texts["main"]
    assert "500 groups" in read.texts["main"]


def test_a_search_says_how_many_it_found() -> None:
    assert "3 groups, 0 rebalances running; 1 match \u201cbill\u201d" in groups([row()], "bill", count=3).texts["main"]
    assert "No group has \u201cx\u201d in its name." in groups([], "x", count=3).texts["main"]


def test_without_groups_the_page_says_how_one_appears() -> None:
    assert "As soon as a consumer" in groups([]).texts["main"]


def test_a_problem_of_the_cluster_is_on_every_page() -> None:
    cluster = CLUSTER._replace(problem="the brokers are starting")
    for read in (groups([], cluster=cluster), group(cluster=cluster), Read(message_page(cluster, "t", "m"))):
        assert "the brokers are starting" in read.texts["main"]


# Names, and what browsers are allowed


@settings(max_examples=15, deadline=None)
@given(st.one_of(st.text(min_size=1), st.just(HOSTILE), st.just("x" * 32_767)))
@example(HOSTILE)
@example("\u05d0" * 32_767)
def test_no_name_makes_an_element_or_an_attribute(name: str) -> None:
    for hostile, plain in (
        (group_page(CLUSTER, billing(name)), group_page(CLUSTER, billing())),
        (
            groups_page(CLUSTER, [row(name, who=name, what=name)], group_count=1),
            groups_page(CLUSTER, [row()], group_count=1),
        ),
        (message_page(CLUSTER, name, name), message_page(CLUSTER, "g", "g")),
    ):
        read, wanted = Read(hostile), Read(plain)
        assert read.tags == wanted.tags
        assert [(tag, list(found)) for tag, found in read.attributes] == [
            (tag, list(found)) for tag, found in wanted.attributes
        ]
        assert len(hostile) < 3 * len(plain) + 15 * 3 * 9 * 32_767 * (len(name) > 10_000)


@settings(max_examples=15, deadline=None)
@given(st.text(min_size=1))
def test_links_and_buttons_name_the_group_whatever_its_name_is(name: str) -> None:
    read = group(billing(name))
    links = [found["href"] for found in read.all("a") if "rebalance=" in (found.get("href") or "")]
    assert links
    assert {parse_qs(urlsplit(link).query)["group"][0] for link in links if link} == {name}


def test_nothing_is_loaded_from_elsewhere_and_nothing_is_inline() -> None:
    for read in (group(), group(rebalance=2), groups([row()])):
        links = [
            value for _, found in read.attributes for key, value in found.items() if key in ("href", "src", "action")
        ]
        assert all(link and link.startswith(("/page", "data:,")) for link in links), links
        assert [found["src"] for found in read.all("script")] == [SCRIPT]
        assert [found["href"] for found in read.all("link", rel="stylesheet")] == [STYLE]
        assert not [key for _, found in read.attributes for key in found if key == "style" or key.startswith("on")]


def test_without_the_control_interface_there_are_no_buttons_that_act() -> None:
    assert [found for found in group().all("button") if "data-post" in found]
    read = group(cluster=CLUSTER._replace(can_act=False))
    assert not [found for found in read.all("button") if "data-post" in found or "data-delete" in found]


def test_ids_are_unique_and_every_table_has_heads_with_words() -> None:
    for read in (group(rebalance=2), groups([row(), row("other")])):
        ids = [found["id"] for _, found in read.attributes if "id" in found]
        assert len(ids) == len(set(ids))


def test_script_and_style_are_small() -> None:
    assert len(script()) + len(style()) < 30_000
