"""Reading scenario files: what they say, and what is said of mistakes."""

from __future__ import annotations

import pytest

from kshim.tools.scenario.model import Outcome, Scenario, ScenarioError, Transition, Writes
from kshim.tools.scenario.parse import parse_scenario

HEADER = "# A title\n# and a story\nsuite: join\nrules: one.rule another.rule\nrun: wire 2.5s\n"


def parse(text: str, header: str = HEADER) -> Scenario:
    return parse_scenario("name", header + "\n" + text)


def test_the_header_says_what_is_needed() -> None:
    scenario = parse(
        "list -> NONE\n", HEADER + "config: a.b=1 c.d=2\ntopics: t:3 u:1\ndiffers: Kafka does it otherwise\n"
    )
    assert (scenario.name, scenario.title, scenario.suite) == ("name", "A title", "join")
    assert scenario.rules == ("one.rule", "another.rule")
    assert scenario.config == {"a.b": "1", "c.d": "2"}
    assert scenario.topics == {"t": 3, "u": 1}
    assert scenario.limit_ms == 2500
    assert scenario.differs == "Kafka does it otherwise"


def test_a_virtual_scenario_has_no_limit() -> None:
    assert parse("restart\n", HEADER.replace("wire 2.5s", "virtual")).limit_ms is None


def test_a_step_has_an_actor_options_words_and_an_outcome() -> None:
    (step,) = parse('fetch a all t-0 id="" group="two words"   -> NONE t-0=5 t-0.metadata=-\n').steps
    assert (step.verb, step.actor, step.words) == ("fetch", "a", ("all", "t-0"))
    assert step.options == {"id": "", "group": "two words"}
    assert step.expectation.own == Outcome("NONE", {"t-0": "5", "t-0.metadata": "-"})
    assert step.expectation.released == {}


def test_answers_that_a_step_releases_stand_behind_bars() -> None:
    first, second = parse("join a -> NONE generation=2 | b: NONE members=- | c: X\nadvance 100 -> b: Y\n").steps
    assert first.expectation.own == Outcome("NONE", {"generation": "2"})
    assert first.expectation.released == {"b": Outcome("NONE", {"members": "-"}), "c": Outcome("X", {})}
    assert second.expectation.own is None
    assert second.expectation.released == {"b": Outcome("Y", {})}


def test_parked_is_an_outcome_of_its_own() -> None:
    own = parse("join a -> parked\n").steps[0].expectation.own
    assert own is not None
    assert own.is_parked


def test_what_follows_inside_the_group_is_indented() -> None:
    (step,) = parse(
        "leave a -> NONE\n"
        "    Stable -> PreparingRebalance -> Empty   member-left a\n"
        "    CompletingRebalance -> Stable\n"
        "    writes group-metadata generation=2 members=-\n"
        "    writes offset t-0=5\n"
        "    writes offset-tombstone t-0 batch=1\n"
    ).steps
    assert step.transitions == [
        Transition(("Stable", "PreparingRebalance", "Empty"), "member-left", "a"),
        Transition(("CompletingRebalance", "Stable"), "", ""),
    ]
    assert step.writes == [
        Writes("group-metadata", {"generation": "2", "members": "-"}),
        Writes("offset", {"t-0": "5"}),
        Writes("offset-tombstone", {"batch": "1", "at": "t-0"}),
    ]


def test_another_connection_of_a_client_has_a_name_of_its_own() -> None:
    (step,) = parse("a2 is a\n").steps
    assert (step.verb, step.actor, step.words) == ("is", "a2", ("a",))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("dance a -> NONE", "unknown verb"),
        ("join -> NONE", "join needs an actor"),
        ("join a", "join needs an answer"),
        ("advance 100 -> NONE", "advance is not answered"),
        ("join a -> NONE extra", "an outcome is"),
        ("join a -> NONE | NONE", "names no actor"),
        ('join a id="open -> NONE', "No closing quotation"),
        ("    writes offset t-0=1", "belongs below a step"),
        ("join a -> NONE\n    writes letters", "writes KIND"),
        ("join a -> NONE\n    Stable", "neither"),
        ("restart", "restart cannot be asked of a broker"),
        ("fail-next-append NOT_ENOUGH_REPLICAS", "cannot be asked of a broker"),
    ],
)
def test_a_mistake_is_told_with_its_line(text: str, reason: str) -> None:
    with pytest.raises(ScenarioError, match=reason) as caught:
        parse(text + "\n")
    assert str(caught.value).startswith(f"name:{6 + text.count(chr(10)) + 1}: ")


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        (HEADER.replace("suite: join\n", ""), "the header lacks `suite:`"),
        (HEADER.replace("rules: one.rule another.rule\n", ""), "the header lacks `rules:`"),
        (HEADER.replace("wire 2.5s", "soon"), "run: `virtual` or `wire 2s`, not 'soon'"),
        (HEADER + "config: a\n", "'a' is no KEY=VALUE"),
        ("suite: join\nrules: r\nrun: virtual\n", "a scenario has a title"),
    ],
)
def test_a_header_must_be_whole(header: str, reason: str) -> None:
    with pytest.raises(ScenarioError, match=reason):
        parse("list -> NONE\n", header)


def test_a_scenario_has_steps() -> None:
    with pytest.raises(ScenarioError, match=r"a title .* and steps"):
        parse("")
