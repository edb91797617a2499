"""A rule as data: the same in TOML (`kshim serve --faults FILE`) and JSON.

    {"on": "OffsetCommit", "match": {"group": "billing"}, "do": {"error": "NOT_COORDINATOR"}, "when": {"times": 2}}

`do` and `when` may also be a name alone: `"do": "hang"`, `"when": "once"`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kshim.faults.rule import ACTIONS, TRIGGERS, Action, InvalidRule, Match, Rule, Trigger, new_rule, shown

_KEYS: Final = ("on", "match", "do", "when", "name")
_MATCH_KEYS: Final = Match._fields[1:]


def rule_from_document(document: object) -> Rule:
    """The rule that a document describes. Raises InvalidRule."""
    if not isinstance(document, Mapping):
        raise InvalidRule(
            f'a fault must be a table such as {{"on": "Heartbeat", "do": "hang", "when": "once"}}, not {shown(document)}'
        )
    _refuse_unknown("a fault", document, _KEYS)
    for key in ("on", "do", "when"):
        if key not in document:
            raise InvalidRule(f'a fault needs "{key}": {_NEEDED[key]}')
    fields = document.get("match", {})
    if not isinstance(fields, Mapping):
        raise InvalidRule(f'"match" must be a table such as {{"group": "billing"}}, not {shown(fields)}')
    _refuse_unknown('"match"', fields, _MATCH_KEYS)
    fields = {key: str(value) if key == "version" and type(value) is int else value for key, value in fields.items()}
    return new_rule(
        Match(document["on"], **fields), _action(document["do"]), _trigger(document["when"]), document.get("name")
    )


def document_of_rule(rule: Rule) -> dict[str, Any]:
    """The document of a rule, from which `rule_from_document` makes an equal one."""
    kind = ACTIONS[rule.action.name]
    action: dict[str, Any] = {rule.action.name: True if rule.action.value is None else rule.action.value}
    if rule.action.option is not None:
        action[kind.option] = rule.action.option
    trigger: dict[str, Any] = {rule.trigger.name: True if rule.trigger.value is None else rule.trigger.value}
    if rule.trigger.seed is not None:
        trigger["seed"] = rule.trigger.seed
    match = {key: value for key, value in zip(_MATCH_KEYS, rule.match[1:], strict=True) if value is not None}
    return {"on": rule.api, "match": match, "do": action, "when": trigger, "name": rule.name}


def rules_from_toml(text: str) -> list[Rule]:
    """The rules of a file: an array of tables called `fault`. Raises InvalidRule."""
    import tomllib

    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidRule(f"not TOML: {error}") from None
    if set(document) != {"fault"} or not isinstance(document["fault"], list):
        others = ", ".join(sorted(set(document) - {"fault"})) or "nothing of the kind"
        raise InvalidRule(f"the file must hold tables headed [[fault]], one for each rule; it has {others}")
    rules = []
    for number, table in enumerate(document["fault"], 1):
        try:
            rules.append(rule_from_document(table))
        except InvalidRule as error:
            raise InvalidRule(f"fault {number}: {error}") from None
    return rules


_NEEDED: Final = {
    "on": 'the API it is for, such as "OffsetCommit", or "*"',
    "do": f"what happens, one of {', '.join(ACTIONS)}",
    "when": f"which of the requests it happens to, one of {', '.join(TRIGGERS)}",
}


def _action(document: object) -> Action:
    name, value, others = _named("do", document, tuple(ACTIONS))
    kind = ACTIONS[name]
    _refuse_unknown(f'"do" with {name}', others, (kind.option,) if kind.option else ())
    return Action(name, value, others.get(kind.option))


def _trigger(document: object) -> Trigger:
    name, value, others = _named("when", document, tuple(TRIGGERS))
    _refuse_unknown(f'"when" with {name}', others, ("seed",) if name == "probability" else ())
    return Trigger(name, value, others.get("seed"))


def _named(key: str, document: object, names: tuple[str, ...]) -> tuple[str, Any, dict[str, Any]]:
    """The one of `names` that a document has, its value (None for `true`) and what stands beside it."""
    if isinstance(document, str):
        document = {document: True}
    if not isinstance(document, Mapping):
        raise InvalidRule(f'"{key}" must be a name or a table with one, {_NEEDED[key]}; not {shown(document)}')
    there = [name for name in names if name in document]
    if len(there) != 1:
        problem = f"both {' and '.join(there)}" if there else f"{', '.join(map(str, document)) or 'nothing'}"
        raise InvalidRule(f'"{key}" says {problem}; it needs {_NEEDED[key]}')
    value = document[there[0]]
    others = {str(other): setting for other, setting in document.items() if other != there[0]}
    return there[0], None if value is True else value, others


def _refuse_unknown(what: str, document: Mapping[Any, Any], known: tuple[str, ...]) -> None:
    for key in document:
        if key not in known:
            raise InvalidRule(
                f"{what} has no {shown(key)}; {'there are ' + ', '.join(known) if known else 'nothing else may stand there'}"
            )
