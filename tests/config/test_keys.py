"""Names, types, defaults and allowed values of the keys are those of Kafka's own classes."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import pytest

from integration.support.jvm import Jvm
from kshim.config.ignored_keys import IGNORED_KEYS
from kshim.config.keys import BROKER_KEYS, TOPIC_KEYS
from kshim.config.security_keys import SECURITY_KEYS
from tests.docs.differences_page import DATA

pytestmark = pytest.mark.java

OTHER_DEFAULTS = {entry["key"]: entry.get("kafka") for entry in DATA["default"]}
"""Kafka's, by key."""
OTHER_RULES = {"group.initial.rebalance.delay.ms": "Kafka accepts a negative delay"}
FREE_TEXT = ("non-", "partitionId")
"""Validators that say something about texts, which have no rule here."""


class Facts(NamedTuple):
    """What Kafka says of a key, in our words."""

    type: str
    default: str | None
    rule: str


def test_the_brokers_keys_are_kafkas(jvm: Jvm) -> None:
    theirs = facts_of(jvm, jvm.classes.org.apache.kafka.server.config.AbstractKafkaConfig.CONFIG_DEF)
    keys = BROKER_KEYS | IGNORED_KEYS | SECURITY_KEYS
    ours = {key.name: Facts(key.type, key.default, key.rule) for key in keys.values()}
    assert ours.keys() == theirs.keys()
    differing = {name: theirs[name].default for name in ours if ours[name].default != theirs[name].default}
    assert differing == OTHER_DEFAULTS
    assert {name for name in ours if ours[name].rule != theirs[name].rule} == set(OTHER_RULES)
    assert {name for name in ours if ours[name].type != theirs[name].type} == set()


def test_the_topics_keys_are_kafkas(jvm: Jvm) -> None:
    theirs = facts_of(jvm, jvm.classes.org.apache.kafka.storage.internals.log.LogConfig.configDefCopy())
    assert {key.name: Facts(key.type, key.default, key.rule) for key in TOPIC_KEYS.values()} == theirs


def test_the_broker_keys_behind_topic_keys_are_kafkas(jvm: Jvm) -> None:
    synonyms = jvm.classes.org.apache.kafka.server.config.ServerTopicConfigSynonyms
    theirs = dict(synonyms.TOPIC_CONFIG_SYNONYMS)
    assert {key.name: key.synonym for key in TOPIC_KEYS.values() if key.synonym} == theirs


def facts_of(jvm: Jvm, definition: Any) -> dict[str, Facts]:
    """The keys that Kafka does not call internal."""
    from py4j.java_gateway import get_field

    as_text = jvm.classes.org.apache.kafka.common.config.ConfigDef.convertToString
    facts = {}
    for name, key in dict(definition.configKeys()).items():
        if not get_field(key, "internalConfig"):
            kind = get_field(key, "type")
            default = as_text(get_field(key, "defaultValue"), kind) if key.hasDefault() else None
            facts[name] = Facts(kind.toString().lower(), default, rule_of(get_field(key, "validator")))
    return facts


def rule_of(validator: Any) -> str:
    """Kafka's `[1,...,9] or -1`, `[0,...]`, `[a, b]` as `-1|1..9`, `0+`, `a|b`."""
    text = "" if validator is None else str(validator.toString()).removeprefix("(case insensitive) ")
    if not text or any(word in text for word in FREE_TEXT):
        return ""
    ranged, _, other = text.partition(" or ")
    if match := re.fullmatch(r"\[(-?[\d.]+?),\.\.\.(?:,(-?[\d.]+))?\]", ranged):
        rule = f"{match[1]}..{match[2]}" if match[2] else f"{match[1]}+"
    else:
        rule = ranged[1:-1].replace(", ", "|")
    return f"{other}|{rule}" if other else rule
