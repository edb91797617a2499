"""The behaviours as data, the command of the program, and what is chosen."""

from __future__ import annotations

import io

import pytest

from kshim.faults.document import rule_from_document
from kshim.tools.conform_client.acts import ACTS
from kshim.tools.conform_client.model import Behaviour, BehaviourError, load_behaviours, parse_behaviours
from kshim.tools.conform_client.program import CommandProblem, command_words
from kshim.tools.conform_client.run import UnknownName, print_behaviours, run_conform_client, select

BEHAVIOURS = load_behaviours()
HEAD = '[[behaviour]]\nname = "b"\ntitle = "T"\nsource = "KIP-1"\n'


def test_names_are_unique_and_all_is_filled_in() -> None:
    assert len({behaviour.name for behaviour in BEHAVIOURS}) == len(BEHAVIOURS)
    assert [behaviour.name for behaviour in BEHAVIOURS if "{" in f"{behaviour.name}{behaviour.title}"] == []


@pytest.mark.parametrize("behaviour", BEHAVIOURS, ids=[behaviour.name for behaviour in BEHAVIOURS])
def test_each_fault_is_a_rule_and_each_act_is_known(behaviour: Behaviour) -> None:
    if behaviour.fault is not None:
        assert rule_from_document(behaviour.fault).api == behaviour.needs
    assert not behaviour.act or behaviour.act in ACTS


def test_a_table_with_errors_is_one_behaviour_an_error() -> None:
    text = HEAD.replace('"b"', '"join-{error-name}"') + 'errors = ["NOT_COORDINATOR", "REBALANCE_IN_PROGRESS"]\n'
    text += 'fault = { on = "JoinGroup", do = { error = "{error}" }, when = "once" }\n'
    first, second = parse_behaviours("join", text)
    assert (first.name, second.name) == ("join-not-coordinator", "join-rebalance-in-progress")
    assert second.fault == {"on": "JoinGroup", "do": {"error": "REBALANCE_IN_PROGRESS"}, "when": "once"}
    assert (second.error, second.needs) == ("REBALANCE_IN_PROGRESS", "JoinGroup")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("behaviour = 1 2", "join: "),
        ('[[behaviour]]\nname = "b"\n', "join: b: source, title is missing"),
        (HEAD + "with_in = 3\n", "join: b: unknown keys with_in"),
        (HEAD + 'ends = "somehow"\n', "ends is one of 'recovers', 'recovers or exits', 'exits', not 'somehow'"),
        (HEAD + 'checks = ["is nice"]\n', "unknown checks is nice"),
        (HEAD + 'act = "second member"\nfault = { on = "JoinGroup" }\n', "has both a fault and an act"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(text: str, problem: str) -> None:
    with pytest.raises(BehaviourError) as raised:
        parse_behaviours("join", text)
    assert problem in str(raised.value)


def test_placeholders_are_filled_in_word_by_word_and_other_braces_are_kept() -> None:
    values = {"bootstrap": "a:1,b:2", "topic": "my topic"}
    words = command_words('prog \'{"servers": "{bootstrap}"}\' --topic={topic} ${HOME} {{other}}', values)
    assert words == ["prog", '{"servers": "a:1,b:2"}', "--topic=my topic", "${HOME}", "{other}"]


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        ("", "the command is empty"),
        ("python 'consumer.py", "cannot be split into words: No closing quotation"),
        (
            "python consumer.py {bootstrap} {topc}",
            "{topc} in --command is not a placeholder: there are {bootstrap}, {topic}, {group}, {instance}. If it is a text "
            "of the command itself, double its braces: {{topc}}",
        ),
        ("no-such-program-here x", "no-such-program-here is not a program that can be found"),
    ],
)
def test_a_command_that_cannot_be_run_is_refused(command: str, problem: str) -> None:
    with pytest.raises(CommandProblem) as raised:
        run_conform_client(command, stream=io.StringIO())
    assert problem in str(raised.value)


def test_behaviours_are_chosen_by_suite_and_name() -> None:
    chosen = select(BEHAVIOURS, ["sync"], ["coordinator-moves"])
    assert {behaviour.suite for behaviour in chosen} == {"sync", "coordinator"}
    assert [behaviour.name for behaviour in chosen if behaviour.suite == "coordinator"] == ["coordinator-moves"]
    assert select(BEHAVIOURS, [], []) == BEHAVIOURS


def test_unknown_names_are_told_with_those_there_are() -> None:
    with pytest.raises(UnknownName, match="unknown suite dance; the suites are plain, find-coordinator, join"):
        select(BEHAVIOURS, ["dance"], [])
    with pytest.raises(UnknownName, match="unknown behaviour dance; the behaviours are consumes-and-commits, "):
        select(BEHAVIOURS, [], ["dance"])


def test_the_list_says_what_is_expected_and_where_kafka_says_so() -> None:
    stream = io.StringIO()
    assert print_behaviours(names=["join-delayed"], stream=stream) == 0
    assert stream.getvalue().splitlines() == [
        "join",
        "  join-delayed",
        "    Waits for the answer to JoinGroup when the others of the group take ten seconds.",
        "    Expected: commits records of every partition that come after it is over, within 20 s; does not ask again before "
        "it is answered.",
        "    KIP-62; AbstractCoordinator: JoinGroup waits for the rebalance timeout and JOIN_GROUP_TIMEOUT_LAPSE",
    ]
