"""A rule: which requests it is for (`Match`), what happens to them (`Action`), and to which of them (`Trigger`).

All three are plain values, compared by value; `document.py` reads and writes them as TOML and JSON.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kshim.faults.codes import check_error
from kshim.faults.entries import ANY, EVERY_API, EVERY_TOPIC, Entry, api_kinds
from kshim_protocol.apis import API_TABLE, api_named
from kshim_protocol.errors import ErrorCode

if TYPE_CHECKING:
    from kshim.faults.request import FaultableRequest

APPEND: Final = "Append"
"""Stands for an API: every batch that is about to be appended to a log, whoever asked for it."""
OVERSIZE_BYTES: Final = 200_000_000
"""The size that an oversized frame claims by default: beyond what librdkafka accepts (100 MB)."""
MAX_SECONDS: Final = 86_400.0


class InvalidRule(ValueError):
    """A rule that cannot be. `str(error)` says how to write it."""


class Match(NamedTuple):
    """Which requests a rule is for. None: any. Texts are patterns with `*`, `?` and `[...]`.

    `api` is Kafka's name, `*` for every API but those of the authentication, or `Append`. `version` is a number or a range: "5", "3-5", "8+".
    `broker` is the node id of the broker that was asked, `listener` the name of its listener. `nth`: of the requests that match
    otherwise only this one, counted from 1.
    """

    api: str
    version: str | None = None
    group: str | None = None
    client_id: str | None = None
    member_id: str | None = None
    group_instance_id: str | None = None
    transactional_id: str | None = None
    topic: str | None = None
    partition: int | None = None
    broker: int | None = None
    listener: str | None = None
    nth: int | None = None

    def mismatch(self, request: FaultableRequest) -> str | None:
        """Why a request of the same API is not one of these, None if it is."""
        if self.version is not None and not _in_range(request.version, self.version):
            return f"version {request.version}, not {self.version}"
        for what, wanted, found in (
            ("group", self.group, request.groups),
            ("client_id", self.client_id, (request.client_id or "",)),
            ("member_id", self.member_id, request.member_ids),
            ("group_instance_id", self.group_instance_id, request.instance_ids),
            ("transactional_id", self.transactional_id, request.transactional_ids),
            ("listener", self.listener, (request.listener,)),
        ):
            if wanted is not None and not any(fnmatchcase(name, wanted) for name in found):
                return f"{what} {_listed(found)}{_not(wanted)}"
        if self.broker is not None and request.broker != self.broker:
            return f"broker {request.broker}, not {self.broker}"
        if self.names_entries and not any(map(self.takes, request.entries)):
            names = [entry.text() for entry in request.entries]
            return f"topic and partition {_listed(names)}, not {self._wanted_entry()}"
        return None

    @property
    def names_entries(self) -> bool:
        """Whether it is for a part of what a request names."""
        return self.topic is not None or self.partition is not None

    @property
    def nearest_kinds(self) -> tuple[str, ...]:
        """What of a request it names, from the nearest up: an error belongs there, if it can."""
        kinds = (
            ("member", self.member_id is not None),
            ("partition", self.names_entries),
            ("topic", self.topic is not None),
            ("group", self.group is not None),
        )
        return tuple(kind for kind, is_named in kinds if is_named)

    def takes(self, entry: Entry) -> bool:
        """Whether the rule is for this part of a request."""
        return (self.topic is None or entry.topic is not None) and self.covers(entry)

    def covers(self, entry: Entry) -> bool:
        """The same, where an entry without a topic or a partition stands for all that it holds."""
        for wanted, found in ((self.group, entry.group), (self.topic, entry.topic), (self.member_id, entry.member)):
            if wanted is not None and found not in (None, EVERY_TOPIC) and not fnmatchcase(str(found), wanted):
                return False
        return self.partition is None or entry.partition in (self.partition, ANY, None)

    def _wanted_entry(self) -> str:
        return Entry(None, self.topic, self.partition).text()


class Action(NamedTuple):
    """What happens to a request. `value` and `option` as the table ACTIONS has them."""

    name: str
    value: str | float | int | None = None
    option: str | None = None

    def __str__(self) -> str:
        return " ".join(str(part) for part in self if part is not None)


class ActionKind(NamedTuple):
    """What can be said of an action. `value` is what it needs ("" for nothing), `option` a further key."""

    value: str = ""
    default: str | float | int | None = None
    option: str = ""
    choices: tuple[str, ...] = ()
    """Of the option; the first is the default."""


SECONDS: Final = "a number of seconds above 0"
ACTIONS: Final[dict[str, ActionKind]] = {
    "error": ActionKind("an error code", option="level", choices=("", "top", "group", "topic", "partition", "member")),
    "delay": ActionKind(SECONDS, option="when", choices=("after", "before")),
    "hang": ActionKind(),
    "drop_reply": ActionKind(),
    "disconnect": ActionKind('"before" or "after"', default="before"),
    "throttle": ActionKind("a number of milliseconds from 1 to 2147483647"),
    "truncate": ActionKind(),
    "corrupt": ActionKind(),
    "oversize": ActionKind("a number of bytes from 1 to 2147483647", default=OVERSIZE_BYTES),
    "stale_generation": ActionKind(),
    "not_coordinator": ActionKind(),
    "loading": ActionKind(SECONDS),
    "disk_full": ActionKind(),
    "slow_fsync": ActionKind(SECONDS),
}
OF_APPENDS: Final = ("disk_full", "slow_fsync")
"""Actions on what a request appends."""
_GENERATIONS: Final = ("JoinGroup", "SyncGroup", "Heartbeat", "OffsetCommit", "TxnOffsetCommit")
_OF_COORDINATORS: Final = (
    *_GENERATIONS,
    "LeaveGroup",
    "OffsetFetch",
    "OffsetDelete",
    "DescribeGroups",
    "DeleteGroups",
    "AddPartitionsToTxn",
    "AddOffsetsToTxn",
    "EndTxn",
    "InitProducerId",
)
WRITING: Final = (
    "Produce",
    "OffsetCommit",
    "TxnOffsetCommit",
    "OffsetDelete",
    "JoinGroup",
    "SyncGroup",
    "LeaveGroup",
    "DeleteGroups",
    "InitProducerId",
    "AddPartitionsToTxn",
    "AddOffsetsToTxn",
    "EndTxn",
    "WriteTxnMarkers",
)
"""APIs whose handlers append to a log."""
ONLY_FOR: Final[dict[str, tuple[str, ...]]] = {
    "stale_generation": _GENERATIONS,
    "not_coordinator": _OF_COORDINATORS,
    "loading": _OF_COORDINATORS,
    "disk_full": (APPEND, *WRITING),
    "slow_fsync": (APPEND, *WRITING),
}
"""Actions that make sense for some APIs only."""


class Trigger(NamedTuple):
    """Which of the matching requests a rule acts on: `name` is a key of TRIGGERS."""

    name: str
    value: float | int | None = None
    seed: int | None = None

    def __str__(self) -> str:
        value = "" if self.value is None else f"({self.value})"
        return f"{self.name}{value}"


TRIGGERS: Final[dict[str, str]] = {
    "once": "the first one",
    "times": "the first n",
    "nth": "the n-th only",
    "always": "each one, until cancelled",
    "probability": "each with this probability, from 0 to 1, drawn from a seed",
}


class Rule(NamedTuple):
    """One fault: to the requests of `match`, `action` happens when `trigger` says so."""

    match: Match
    action: Action
    trigger: Trigger
    name: str

    @property
    def api(self) -> str:
        """The API it is for; see `Match.api`."""
        return self.match.api


def new_rule(match: Match, action: Action, trigger: Trigger, name: Any = None) -> Rule:
    """A rule after all checks. Raises InvalidRule."""
    check_match(match)
    action = checked_action(match, action)
    check_trigger(trigger)
    if match.nth is not None and trigger.name not in ("once", "always"):
        raise InvalidRule(
            f"nth in the match leaves one request, so {trigger.name} says nothing: trigger once, or always"
        )
    if name is not None and (not isinstance(name, str) or not name.strip()):
        raise InvalidRule(f"name must be a text that is not empty{_not(name)}")
    return Rule(match, action, trigger, name or f"{match.api}: {action}")


def check_match(match: Match) -> None:
    """Raises InvalidRule."""
    names = [api.name for api in API_TABLE.values()]
    api = match.api
    if not isinstance(api, str):
        raise InvalidRule(f'name an API as Kafka does, such as "OffsetCommit", or "*" for every one{_not(api)}')
    if api not in (*names, EVERY_API, APPEND):
        close = get_close_matches(api, [*names, APPEND], 1) or get_close_matches(api.title().replace("_", ""), names, 1)
        hint = f"; did you mean {close[0]}?" if close else f": {', '.join((*names, APPEND))}, or * for every one"
        raise InvalidRule(f"there is no API {shown(api)}{hint}")
    for what in ("group", "client_id", "member_id", "group_instance_id", "transactional_id", "topic", "listener"):
        value = getattr(match, what)
        if value is not None and (not isinstance(value, str) or not value):
            raise InvalidRule(f'{what} must be a text or a pattern such as "billing-*"{_not(value)}')
    for what, least in (("partition", 0), ("broker", 0), ("nth", 1)):
        value = getattr(match, what)
        if value is not None and (not _is_integer(value) or value < least):
            raise InvalidRule(f"{what} must be an integer from {least} on{_not(value)}")
    if match.version is not None:
        _check_version(api, match.version)
    _check_keys(match)


def _check_keys(match: Match) -> None:
    """What the requests of an API do not have cannot be matched."""
    kinds = _APPEND_KEYS if match.api == APPEND else api_kinds(match.api)
    for what in Match._fields[1:]:
        if what not in ("broker", "nth") and getattr(match, what) is not None and what not in kinds:
            known = ", ".join((*(kind for kind in Match._fields[1:] if kind in kinds), "broker", "nth"))
            subject = "an append has" if match.api == APPEND else f"{match.api} requests have"
            raise InvalidRule(f"{subject} no {what} to match; there are {known}")


_APPEND_KEYS: Final = frozenset({"topic", "partition"})


def checked_action(match: Match, action: Action) -> Action:
    """The action with its defaults. Raises InvalidRule."""
    kind = ACTIONS.get(action.name)
    if kind is None:
        raise InvalidRule(f"there is no action {shown(action.name)}: {', '.join(ACTIONS)}")
    value = kind.default if action.value is None else action.value
    if action.name == "error" and _is_integer(value):
        value = next((code.name for code in ErrorCode if code == value), str(value))
    if not kind.value and value is not None:
        raise InvalidRule(f"{action.name} takes no value{_not(value)}")
    if kind.value:
        _check_value(action.name, kind.value, value)
    option = action.option or next(filter(None, kind.choices[:1]), None)
    if option is not None and option not in kind.choices:
        choices = " or ".join(f'"{choice}"' for choice in kind.choices if choice)
        raise InvalidRule(f"{action.name}: {kind.option or 'an option'} must be {choices or 'left out'}{_not(option)}")
    api = match.api
    if api == APPEND and action.name not in OF_APPENDS:
        raise InvalidRule(f"to an append only {' or '.join(OF_APPENDS)} can happen, not {action.name}")
    if action.name in ONLY_FOR and api not in ONLY_FOR[action.name]:
        raise InvalidRule(f"{action.name} is for {', '.join(ONLY_FOR[action.name])}, not for {api}")
    if action.name == "error":
        if api == EVERY_API:
            raise InvalidRule("an error needs the name of an API, as each API has its own error codes; not *")
        try:
            check_error(api, str(value), option)
        except ValueError as error:
            raise InvalidRule(str(error)) from None
    if action.name == "throttle" and api != EVERY_API and not _has_throttle_time(api):
        raise InvalidRule(f"the response of {api} has no throttle_time_ms")
    return Action(action.name, value, option)


def _check_value(action: str, needed: str, value: Any) -> None:
    if needed == SECONDS:
        is_right = isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= MAX_SECONDS
    elif action == "error":
        is_right = isinstance(value, str)
    elif action == "disconnect":
        is_right = value in ("before", "after")
    else:
        is_right = _is_integer(value) and 1 <= value <= 0x7FFFFFFF
    if not is_right:
        raise InvalidRule(f"{action} needs {needed}{_not(value)}")


def check_trigger(trigger: Trigger) -> None:
    """Raises InvalidRule."""
    name, value, seed = trigger
    if name not in TRIGGERS:
        raise InvalidRule(f"there is no trigger {shown(name)}: {', '.join(TRIGGERS)}")
    if name in ("times", "nth"):
        if not _is_integer(value) or value is None or value < 1:
            raise InvalidRule(f"{name} needs an integer from 1 on{_not(value)}")
    elif name == "probability":
        if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value <= 1:
            raise InvalidRule(f"probability needs a number above 0 and up to 1{_not(value)}")
        if not _is_integer(seed):
            raise InvalidRule(f"probability needs a seed, an integer, so that a run can be repeated{_not(seed)}")
    elif value is not None:
        raise InvalidRule(f"{name} takes no value{_not(value)}")
    if seed is not None and name != "probability":
        raise InvalidRule(f"only probability has a seed, {name} has none")


def _check_version(api: str, text: Any) -> None:
    if not isinstance(text, str) or _range(text) is None:
        raise InvalidRule(f'version must be a number or a range such as "5", "3-5" or "8+"{_not(text)}')
    if api in (EVERY_API, APPEND):
        return
    known = api_named(api)
    if not any(_in_range(version, text) for version in range(known.min_version, known.max_version + 1)):
        raise InvalidRule(f"{api} has the versions {known.min_version} to {known.max_version}, not {text}")


def _range(text: str) -> tuple[int, int] | None:
    first, dash, last = text.removesuffix("+").partition("-")
    if not first.isascii() or not first.isdigit() or (dash and (not last.isascii() or not last.isdigit())):
        return None
    if text.endswith("+"):
        return None if dash else (int(first), 0x7FFF)
    return int(first), int(last or first)


def _in_range(version: int, text: str) -> bool:
    bounds = _range(text)
    return bounds is not None and bounds[0] <= version <= bounds[1]


def _has_throttle_time(api: str) -> bool:
    return any(row.name == "throttle_time_ms" for row in api_named(api).response_class().info.rows)


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def shown(value: object) -> str:
    """A value as all three forms of a rule write it, as far as there is one way.

    >>> shown("a"), shown(5), shown(True)
    ('"a"', '5', 'true')
    """
    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):
        return repr(value)


def _not(value: object) -> str:
    """The end of a sentence that says what is needed; without a value there is nothing to say."""
    return "" if value is None else f", not {shown(value)}"


def _listed(names: Collection[str]) -> str:
    """
    >>> _listed(["a", "b"]), _listed([])
    ('"a", "b"', 'none')
    """
    parts = [shown(name) for name in list(names)[:3]]
    if len(names) > 3:
        parts.append(f"{len(names) - 3} more")
    return ", ".join(parts) or "none"
