"""What `kshim ctl` can do: a table from words to requests."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from typing import Any, Final, NamedTuple


class Argument(NamedTuple):
    """One argument of a command. `place` says where its value goes: path, query or body.

    A name with `--` is an option, which is left out of the request unless it is given.
    """

    name: str
    help: str
    place: str = "path"
    type: Callable[[str], Any] = str
    is_repeated: bool = False
    choices: tuple[str, ...] | None = None
    metavar: str | None = None

    @property
    def field(self) -> str:
        """Its name in requests."""
        return self.name.removeprefix("--").replace("-", "_")


class Command(NamedTuple):
    """One command: `words` are what the user writes, `method` and `path` what is asked for.

    `rows` is the list of the answer that is shown as a table with `columns`; without it every field is a line.
    """

    words: str
    help: str
    method: str
    path: str
    arguments: tuple[Argument, ...] = ()
    rows: str | None = None
    columns: tuple[str, ...] = ()
    text: tuple[str, ...] = ()
    """Fields that are shown as they are, one after the other."""
    examples: str | None = None
    """The end of its help, as it is."""


def pair(text: str) -> tuple[str, str]:
    """`KEY=VALUE`."""
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise argparse.ArgumentTypeError(f"{text!r} is not KEY=VALUE")
    return key, value


def rule(text: str) -> Any:
    """A rule as JSON, or `@FILE` with it."""
    try:
        if text.startswith("@"):
            with open(text[1:], encoding="utf-8") as file:
                text = file.read()
        found = json.loads(text)
    except (OSError, ValueError) as error:
        raise argparse.ArgumentTypeError(f"{text[:80]!r} is neither JSON nor @FILE with it: {error}") from None
    if not isinstance(found, dict):
        raise argparse.ArgumentTypeError(f"{text[:80]!r} is not a JSON object")
    return found


_FAULT_EXAMPLES: Final = """\
Examples:

    kshim ctl fault set '{"on": "Heartbeat", "do": {"error": "NOT_COORDINATOR"}, "when": {"times": 2}}'
    kshim ctl fault set '{"on": "OffsetCommit", "match": {"group": "billing"}, "do": "drop_reply", "when": "once"}'
    kshim ctl fault set '{"on": "Fetch", "match": {"topic": "orders"}, "do": {"delay": 1.5}, "when": "always"}'
    kshim ctl fault set @rule.json"""

_TOPIC: Final = Argument("topic", "name of a topic")
_GROUP: Final = Argument("group", "id of a group")
_NODE: Final = Argument("node", "id of a broker", type=int)
_FAULT: Final = Argument("fault", "id of a fault, such as fault-1")
_TO: Final = Argument("node", "id of the broker that is to lead", "body", int)
_STATES: Final = ("Stable", "Empty", "PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling", "Dead")
_MEMBERS: Final = ("member_id", "client_id", "host", "instance_id", "is_leader", "assignment")
_NODES: Final = ("node", "host", "port", "is_live", "leads")
_REBALANCES: Final = ("epoch", "why", "who", "from_generation", "to_generation", "duration_ms", "outcome")
_FAULTS: Final = ("fault_id", "rule", "is_over", "matched_count", "fired_count")
_RECORDS: Final = ("partition", "offset", "timestamp_ms", "key", "value")

# fmt: off
COMMANDS: Final = (
    Command("health", "check whether the process answers", "GET", "/health"),
    Command("ready", "check whether the brokers accept connections and all coordinators are loaded", "GET", "/ready"),
    Command("reset", "start anew with the topics and faults of the start, and nothing else", "POST", "/v1/reset"),
    Command("metrics", "print the metrics in Prometheus' format", "GET", "/metrics"),
    Command("topic list", "list the topics", "GET", "/v1/topics", rows="topics", columns=("name", "partitions", "is_internal")),
    Command("topic create", "create a topic", "POST", "/v1/topics", (
        Argument("name", "name of the topic", "body"),
        Argument("--partitions", "number of partitions (default: 1)", "body", int, metavar="N"),
        Argument("--config", "a configuration key; may be repeated", "body", pair, is_repeated=True, metavar="KEY=VALUE"),
    ), "partitions", ("partition", "leader", "start_offset", "end_offset")),
    Command("topic describe", "show the partitions of a topic", "GET", "/v1/topics/{topic}", (_TOPIC,),
            "partitions", ("partition", "leader", "start_offset", "end_offset")),
    Command("topic delete", "delete a topic", "DELETE", "/v1/topics/{topic}", (_TOPIC,)),
    Command("topic produce", "write one record", "POST", "/v1/topics/{topic}/records", (
        _TOPIC,
        Argument("value", "value of the record", "record"),
        Argument("--key", "key of the record", "record", metavar="KEY"),
        Argument("--partition", "partition (default: by the key)", "record", int, metavar="N"),
    ), "records", ("partition", "offset", "timestamp_ms")),
    Command("topic records", "show records of one partition", "GET", "/v1/topics/{topic}/records", (
        _TOPIC,
        Argument("--partition", "partition (default: 0)", "query", int, metavar="N"),
        Argument("--offset", "first offset (default: the start)", "query", int, metavar="N"),
        Argument("--limit", "how many at most (default: 100)", "query", int, metavar="N"),
        Argument("--isolation", "which records (default: read_committed)", "query", choices=("read_committed", "read_uncommitted")),
    ), "records", _RECORDS),
    Command("topic move", "have another broker lead a partition", "POST", "/v1/topics/{topic}/partitions/{partition}/leader", (
        _TOPIC, Argument("partition", "number of the partition", type=int), _TO)),
    Command("group list", "list the groups", "GET", "/v1/groups", rows="groups",
            columns=("group_id", "state", "generation", "protocol", "members")),
    Command("group describe", "show the members of a group", "GET", "/v1/groups/{group}", (_GROUP,), "members", _MEMBERS),
    Command("group offsets", "show the committed offsets and lag of a group", "GET", "/v1/groups/{group}", (_GROUP,),
            "offsets", ("topic", "partition", "committed", "lag")),
    Command("group rebalances", "list the rebalances of a group", "GET", "/v1/groups/{group}/rebalances", (
        _GROUP, Argument("--limit", "how many of the newest (default: 100)", "query", int, metavar="N")),
        "rebalances", _REBALANCES),
    Command("group explain", "say what happened to a group", "GET", "/v1/groups/{group}/explain", (_GROUP,),
            text=("explanation", "timeline")),
    Command("group wait", "wait until a group is as the options say", "GET", "/v1/groups/{group}/wait", (
        _GROUP,
        Argument("--state", "state of the group", "query", choices=_STATES),
        Argument("--members", "number of members", "query", int, metavar="N"),
        Argument("--generation", "this generation or a later one", "query", int, metavar="N"),
        Argument("--assigned", "client, instance or member id of a member with an assignment", "query", metavar="NAME"),
        Argument("--topic", "with --offset: topic of a committed offset", "query", metavar="TOPIC"),
        Argument("--partition", "with --offset: its partition (default: 0)", "query", int, metavar="N"),
        Argument("--offset", "this committed offset or a later one", "query", int, metavar="N"),
        Argument("--timeout", "seconds to wait at most (default: 10)", "query", float, metavar="SECONDS"),
    ), "members", _MEMBERS),
    Command("group rebalance", "begin a rebalance", "POST", "/v1/groups/{group}/rebalance", (
        _GROUP, Argument("--reason", "reason for the history", "body", metavar="TEXT"))),
    Command("group expel", "remove a member", "POST", "/v1/groups/{group}/expel", (
        _GROUP, Argument("member", "member, instance or client id", "body"),
        Argument("--reason", "reason for the history", "body", metavar="TEXT"))),
    Command("group expire", "end the session of a member", "POST", "/v1/groups/{group}/expire", (
        _GROUP, Argument("member", "member, instance or client id", "body"))),
    Command("group fence", "give the place of a static member to another", "POST", "/v1/groups/{group}/fence", (
        _GROUP, Argument("instance_id", "group.instance.id of the member", "body"))),
    Command("group move", "have another broker coordinate a group", "POST", "/v1/groups/{group}/coordinator", (_GROUP, _TO)),
    Command("fault set", "set a fault", "POST", "/v1/faults", (
        Argument("rule", "the rule as JSON, or @FILE with it", "whole", rule),), examples=_FAULT_EXAMPLES),
    Command("fault list", "list the faults", "GET", "/v1/faults", rows="faults", columns=_FAULTS),
    Command("fault describe", "show when a fault fired, and on what", "GET", "/v1/faults/{fault}", (_FAULT,),
            "fired", ("number", "at_ms", "text")),
    Command("fault cancel", "cancel a fault", "DELETE", "/v1/faults/{fault}", (_FAULT,)),
    Command("fault clear", "cancel and forget all faults", "DELETE", "/v1/faults"),
    Command("fault assert-used", "fail unless every fault has fired", "POST", "/v1/faults/assert-used"),
    Command("clock show", "show the brokers' clock", "GET", "/v1/clock"),
    Command("clock advance", "move the brokers' clock ahead", "POST", "/v1/clock/advance", (
        Argument("seconds", "by how many seconds", "body", float),
        Argument("--keep-alive", "member, client or instance id whose session does not expire, with * for any text; may be repeated",
                 "body", is_repeated=True, metavar="MEMBER"),), "fired", ("at", "kind", "key")),
    Command("history", "show what happened to groups", "GET", "/v1/history", (
        Argument("--group", "only this group", "query", metavar="GROUP"),
        Argument("--after", "only events after this number", "query", int, metavar="N")),
        "events", ("ts_ms", "group", "type", "reason", "state_to", "to_generation")),
    Command("node list", "list the brokers", "GET", "/v1/nodes", rows="nodes", columns=_NODES),
    *(Command(f"node {verb}", f"{verb} a broker", "POST", f"/v1/nodes/{{node}}/{verb}", (_NODE,), "nodes", _NODES)
      for verb in ("stop", "start", "kill", "restart")),
)
# fmt: on
