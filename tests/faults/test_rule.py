"""A rule that cannot be is refused with a sentence that says how to write it; any other comes back from its document."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kshim.faults.codes import codes_of
from kshim.faults.document import document_of_rule, rule_from_document, rules_from_toml
from kshim.faults.entries import api_kinds
from kshim.faults.rule import (
    ACTIONS,
    APPEND,
    ONLY_FOR,
    SECONDS,
    Action,
    InvalidRule,
    Match,
    Rule,
    Trigger,
    new_rule,
)
from kshim_protocol.apis import API_TABLE, api_named

APIS = sorted(api.name for api in API_TABLE.values())
TEXTS = st.text(min_size=1, max_size=20)


@st.composite
def matches(draw: st.DrawFn, api: str) -> Match:
    kinds = {"topic", "partition"} if api == APPEND else api_kinds(api)
    fields: dict[str, Any] = {}
    for kind in sorted(kinds - {"version", "partition"}):
        fields[kind] = draw(st.none() | TEXTS)
    if "partition" in kinds:
        fields["partition"] = draw(st.none() | st.integers(0, 1000))
    if "version" in kinds and api != "*":
        known = api_named(api)
        version = draw(st.integers(known.min_version, known.max_version))
        fields["version"] = draw(st.sampled_from([None, f"{version}", f"0-{version}", f"{version}+"]))
    return Match(api, **fields, broker=draw(st.none() | st.integers(0, 9)))


@st.composite
def actions(draw: st.DrawFn, api: str) -> Action:
    names = [name for name in ACTIONS if api in ONLY_FOR.get(name, (api,))]
    if api == APPEND:
        names = ["disk_full", "slow_fsync"]
    elif api == "*":
        names.remove("error")
    else:
        names = [name for name in names if name != "throttle" or _has_throttle(api)]
    name = draw(st.sampled_from(names))
    kind = ACTIONS[name]
    if name == "error":
        level = draw(st.sampled_from(sorted(codes_of(api))))
        return Action(
            name,
            draw(st.sampled_from(codes_of(api)[level])),
            draw(st.sampled_from([None, None if level == "request" else level])),
        )
    if name == "disconnect":
        return Action(name, draw(st.sampled_from(["before", "after"])))
    if not kind.value:
        return Action(name)
    option = draw(st.sampled_from(kind.choices)) if kind.choices else None
    if kind.value == SECONDS:
        return Action(name, draw(st.integers(1, 100) | st.floats(0.001, 100)), option)
    return Action(name, draw(st.integers(1, 0x7FFFFFFF)), option)


def _has_throttle(api: str) -> bool:
    return any(row.name == "throttle_time_ms" for row in api_named(api).response_class().info.rows)


TRIGGERS = st.one_of(
    st.just(Trigger("once")),
    st.just(Trigger("always")),
    st.tuples(st.sampled_from(["times", "nth"]), st.integers(1, 1000)).map(lambda pair: Trigger(*pair)),
    st.builds(
        lambda probability, seed: Trigger("probability", probability, seed),
        st.floats(0.001, 1) | st.just(1),
        st.integers(),
    ),
)


@st.composite
def rules(draw: st.DrawFn) -> Rule:
    api = draw(st.sampled_from([*APIS, APPEND, "*"]))
    name = draw(st.none() | TEXTS.filter(str.strip))
    return new_rule(draw(matches(api)), draw(actions(api)), draw(TRIGGERS), name)


def toml_of(value: Any) -> str:
    """A value as TOML, with tables inline."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {toml_of(each)}" for key, each in value.items()) + "}"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return '"' + "".join(f"\\U{ord(letter):08X}" for letter in value) + '"'
    return repr(value)


@given(rules())
def test_a_rule_comes_back_from_its_document(rule: Rule) -> None:
    assert rule_from_document(document_of_rule(rule)) == rule


@given(rules().filter(lambda rule: not any("\ud800" <= letter <= "\udfff" for letter in str(rule))))
def test_a_rule_comes_back_from_toml(rule: Rule) -> None:
    document = document_of_rule(rule)
    if abs(rule.trigger.seed or 0) >= 1 << 63:  # which TOML need not hold
        document["when"]["seed"] = 7
    text = "[[fault]]\n" + "".join(f"{key} = {toml_of(value)}\n" for key, value in document.items())
    assert rules_from_toml(text) == [rule_from_document(document)]


@settings(max_examples=40)
@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.dictionaries(st.sampled_from(["on", "match", "do", "when", "name", "error", "hang", "once", "group"]), inner)))  # fmt: skip
def test_any_other_document_is_refused_with_a_sentence(document: object) -> None:
    with suppress(InvalidRule):
        rule_from_document(document)


HANG = {"do": "hang", "when": "once"}


@pytest.mark.parametrize(
    ("document", "sentence"),
    [
        ("Heartbeat", "a fault must be a table such as"),
        ({"do": "hang", "when": "once"}, 'needs "on": the API'),
        ({"on": "Heartbeat", "when": "once"}, 'needs "do": what happens, one of error, delay'),
        ({"on": "Heartbeat", "do": "hang"}, 'needs "when": which of the requests'),
        ({"on": "Heartbeat", **HANG, "for": "g"}, 'a fault has no "for"; there are on, match'),
        ({"on": "Heartbeet", **HANG}, 'there is no API "Heartbeet"; did you mean Heartbeat?'),
        ({"on": "offset_commit", **HANG}, "did you mean OffsetCommit?"),
        ({"on": 12, **HANG}, "name an API as Kafka does"),
        ({"on": "Heartbeat", "match": {"topic": "t"}, **HANG}, "Heartbeat requests have no topic to match; there are version"),
        ({"on": "Produce", "match": {"group": "g"}, **HANG}, "Produce requests have no group to match"),
        ({"on": "Produce", "match": {"partition": -1}, **HANG}, "partition must be an integer from 0 on, not -1"),
        ({"on": "Produce", "match": {"partition": True}, **HANG}, "partition must be an integer"),
        ({"on": "Produce", "match": {"topic": ""}, **HANG}, "topic must be a text or a pattern"),
        ({"on": "Produce", "match": {"version": "new"}, **HANG}, 'version must be a number or a range such as "5"'),
        ({"on": "Produce", "match": {"version": 99}, **HANG}, "Produce has the versions 3 to 13, not 99"),
        ({"on": "Produce", "match": {"offset": 1}, **HANG}, '"match" has no "offset"; there are version, group'),
        ({"on": "Produce", "match": "t", **HANG}, '"match" must be a table'),
        ({"on": "Heartbeat", "do": {"error": "OFFSET_OUT_OF_RANGE"}, "when": "once"},
         "Heartbeat does not answer OFFSET_OUT_OF_RANGE; it answers COORDINATOR_LOAD_IN_PROGRESS, "),
        ({"on": "Heartbeat", "do": {"error": "TOO_LATE"}, "when": "once"}, 'there is no error "TOO_LATE" in Kafka; Heartbeat answers'),
        ({"on": "Heartbeat", "do": {"error": "NONE"}, "when": "once"}, "NONE is no error"),
        ({"on": "Fetch", "do": {"error": "OFFSET_OUT_OF_RANGE", "level": "top"}, "when": "once"},
         "Fetch does not answer OFFSET_OUT_OF_RANGE at the level top; it answers top: "),
        ({"on": "Fetch", "do": {"error": "OFFSET_OUT_OF_RANGE", "level": "group"}, "when": "once"}, "no errors at the level group"),
        ({"on": "Fetch", "do": {"error": "OFFSET_OUT_OF_RANGE", "level": "all"}, "when": "once"}, 'level must be "top" or "group"'),
        ({"on": "*", "do": {"error": "NOT_COORDINATOR"}, "when": "once"}, "an error needs the name of an API"),
        ({"on": "Append", "do": "hang", "when": "once"}, "only disk_full or slow_fsync can happen"),
        ({"on": "Append", "match": {"group": "g"}, "do": "disk_full", "when": "once"}, "an append has no group to match"),
        ({"on": "Fetch", "do": "disk_full", "when": "once"}, "disk_full is for Append, Produce"),
        ({"on": "Produce", "do": "stale_generation", "when": "once"}, "stale_generation is for JoinGroup"),
        ({"on": "SaslHandshake", "do": {"throttle": 1}, "when": "once"}, "SaslHandshake has no throttle_time_ms"),
        ({"on": "Heartbeat", "do": {"delay": 0}, "when": "once"}, "delay needs a number of seconds above 0, not 0"),
        ({"on": "Heartbeat", "do": "delay", "when": "once"}, "delay needs a number of seconds above 0"),
        ({"on": "Heartbeat", "do": {"delay": 1, "when": "late"}, "when": "once"}, 'when must be "after" or "before"'),
        ({"on": "Heartbeat", "do": {"hang": 5}, "when": "once"}, "hang takes no value, not 5"),
        ({"on": "Heartbeat", "do": {"hang": True, "when": "x"}, "when": "once"}, "nothing else may stand there"),
        ({"on": "Heartbeat", "do": {"hang": True, "corrupt": True}, "when": "once"}, "says both hang and corrupt"),
        ({"on": "Heartbeat", "do": {}, "when": "once"}, '"do" says nothing; it needs'),
        ({"on": "Heartbeat", "do": 5, "when": "once"}, '"do" must be a name or a table'),
        ({"on": "Heartbeat", "do": {"disconnect": "now"}, "when": "once"}, 'disconnect needs "before" or "after"'),
        ({"on": "Heartbeat", "do": {"throttle": 0.5}, "when": "once"}, "throttle needs a number of milliseconds"),
        ({"on": "Heartbeat", "do": "hang", "when": "twice"}, '"when" says twice; it needs which of the requests'),
        ({"on": "Heartbeat", "do": "hang", "when": {"times": 0}}, "times needs an integer from 1 on, not 0"),
        ({"on": "Heartbeat", "do": "hang", "when": {"once": 1}}, "once takes no value"),
        ({"on": "Heartbeat", "do": "hang", "when": {"probability": 0.5}}, "probability needs a seed"),
        ({"on": "Heartbeat", "do": "hang", "when": {"probability": 5, "seed": 1}}, "above 0 and up to 1, not 5"),
        ({"on": "Heartbeat", "do": "hang", "when": {"times": 2, "seed": 1}}, 'has no "seed"'),
        ({"on": "Heartbeat", "match": {"nth": 2}, "do": "hang", "when": {"times": 2}}, "nth in the match leaves one request"),
        ({"on": "Heartbeat", "do": "hang", "when": "once", "name": " "}, "name must be a text"),
    ],
)  # fmt: skip
def test_misuse_is_refused_with_what_would_be_right(document: object, sentence: str) -> None:
    with pytest.raises(InvalidRule, match=re.escape(sentence)):
        rule_from_document(document)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("on =", "not TOML: "),
        ("", "must hold tables headed [[fault]], one for each rule; it has nothing of the kind"),
        ("[[faults]]\non = 'x'", "it has faults"),
        ("[[fault]]\non = 'Heartbeat'\ndo = 'hang'\nwhen = 'once'\n[[fault]]\non = 'Nothing'", 'fault 2: a fault needs "do"'),
    ],
)  # fmt: skip
def test_a_file_that_is_wrong_is_refused_with_the_place(text: str, sentence: str) -> None:
    with pytest.raises(InvalidRule, match=re.escape(sentence)):
        rules_from_toml(text)
