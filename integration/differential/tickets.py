"""One request on both brokers: the bytes that each is sent, and the answers in a form that can be compared."""

from __future__ import annotations

from typing import Any

from integration.differential.brokers import Target
from integration.differential.canonical import (
    Malformed,
    Tree,
    differing_paths,
    id_prefix,
    parse_answer,
    tree_of,
    without_refused_id,
)
from integration.differential.model import LONG_MS, GroupModel
from integration.differential.requests import UNKNOWN_TOPIC_ID, topic_symbol, translate
from integration.differential.steps import Step
from integration.differential.wire import Answer, Line
from kshim_protocol.apis import API_TABLE
from kshim_protocol.codec import codec
from kshim_protocol.frame import build_request_frame
from kshim_protocol.schema import Request

Trees = dict[str, Tree | None]
"""The answer of each broker, by its name: None where there is none, a text where it closed the connection."""


class Side:
    """One broker as a sequence sees it: the ids it gave out and a connection to look through."""

    def __init__(self, target: Target) -> None:
        self.name = target.name
        self.address = target.address
        self.ids: dict[str, str] = {}
        self.symbols: dict[str, str] = {}
        self.topic_ids = {topic_symbol(name): topic_id for name, topic_id in target.topic_ids.items()}
        self.topic_ids[topic_symbol("missing")] = UNKNOWN_TOPIC_ID
        self.topic_names = {topic_id: symbol.decode() for symbol, topic_id in self.topic_ids.items()}
        self.probe = Line(target.address)

    def name_member(self, member_id: str, number: int) -> None:
        """Give a member id that appears for the first time its symbol."""
        if member_id and member_id not in self.symbols:
            symbol = f"<M{number} {id_prefix(member_id)}>"
            self.symbols[member_id] = symbol
            self.ids[symbol] = member_id

    def tree(self, response: Any, *, is_damaged: bool) -> Tree:
        """The answer with symbols for ids. A damaged request may be answered with what is left of an id."""
        rename = self._rename_damaged if is_damaged else self._rename
        tree = tree_of(response, rename, lambda topic_id: self._name_topic(topic_id, is_damaged=is_damaged))
        for entry in [tree, *tree.get("coordinators", ())]:
            if (entry.get("host"), entry.get("port")) == self.address:
                entry.update(host="self", port="self", node_id="self")
        return tree

    def _rename(self, field: str, text: str) -> str:
        if field == "error_message":
            for drawn, name in self.symbols.items():
                text = text.replace(drawn, name)
            return without_refused_id(text)
        symbol = self.symbols.get(text)
        if symbol is None and field in ("member_id", "leader") and id_prefix(text)[:3] != "not":
            return f"<? {id_prefix(text)}>"
        return text if symbol is None else symbol

    def _rename_damaged(self, field: str, text: str) -> str:
        is_unknown_id = field == "member_id" and text not in self.symbols
        return "<? damaged>" if is_unknown_id else self._rename(field, text)

    def _name_topic(self, topic_id: bytes, *, is_damaged: bool) -> str:
        return self.topic_names.get(topic_id, "<? damaged>" if is_damaged else topic_id.hex())


class Ticket:
    """A request that was sent to both brokers, and what each made of it so far."""

    def __init__(self, number: int, step: Step, request: Any, version: int, group: GroupModel) -> None:
        self.number = number
        self.step = step
        self.request = request
        self.api = API_TABLE[request.info.api_key]
        self.version = version
        self.group = group
        self.lines: dict[str, Line] = {}
        self.answers: dict[str, Answer] = {}
        self._frames: dict[str, bytes] = {}

    @property
    def actor(self) -> str:
        """Who sent it, for people."""
        group = "" if self.group.name in ("g1", "") else f"{self.group.name}."
        return f"{group}{self.step.slot or '?'}"

    @property
    def header_version(self) -> int:
        """The version its header claims, which the body need not have."""
        version: int = self.step.options.get("header_version", self.version)
        return version

    def make_frame(self, side: Side) -> bool:
        """Make the bytes for one broker. False: a damage that cannot be done, or that would start a timer unseen."""
        request = translate(self.request, side.ids, side.topic_ids)
        options = self.step.options
        body: bytes | None = codec(type(request), self.version).build(request)
        if "damage" in options and body is not None:
            body = _damaged(body, options["damage"])
        if body is None or ("damage" in options and _is_time_bomb(type(request), self.version, body)):
            return False
        flexible = self.api.is_flexible(self.header_version)
        client = options.get("client", self.step.slot or "admin")
        key, number = self.api.key, self.number
        self._frames[side.name] = build_request_frame(key, self.header_version, number, client, body, flexible=flexible)
        return True

    def send(self, side: Side) -> None:
        """Send it to one broker."""
        self.lines[side.name].send(self._frames[side.name])

    def response(self, side: Side) -> Any:
        """The typed answer of one broker. None: it closed the connection. Raises Malformed."""
        frame = self.answers[side.name].frame
        if frame is None:
            return None
        return parse_answer(frame, api_key=self.api.key, version=self.header_version, correlation_id=self.number)

    def tree(self, side: Side) -> Tree | None:
        """The answer of one broker with symbols for ids."""
        if side.name not in self.answers:
            return None
        try:
            response = self.response(side)
        except Malformed as error:
            return {"malformed answer": f"{side.name}: {error}"}
        if response is None:
            return "closed the connection"
        return side.tree(response, is_damaged="damage" in self.step.options)


def differences(trees: Trees) -> list[str]:
    """Where the two answers differ; "*" when one of them is none."""
    left, right = trees.values()
    if isinstance(left, dict) and isinstance(right, dict):
        return list(differing_paths(left, right))
    return [] if left == right else ["*"]


def who_joined(joins: list[Ticket], sides: tuple[Side, ...]) -> tuple[dict[str, str], dict[str, dict[str, Any]]]:
    """(broker -> the leader it names, member -> options for its further requests); empty when not all were let in."""
    leaders: dict[str, str] = {}
    options: dict[str, dict[str, Any]] = {}
    for ticket in joins:
        for side in sides:
            tree = ticket.tree(side)
            if not isinstance(tree, dict) or tree["error_code"]:
                return {}, {}
            leaders[side.name] = tree["leader"]
            options[tree["member_id"]] = {
                "v": 3,
                "id": tree["member_id"],
                "generation": tree["generation_id"],
                "instance": ticket.request.group_instance_id,
            }
    return leaders, options


def _damaged(body: bytes, damage: list[Any]) -> bytes | None:
    """A body that was cut short, lengthened or changed; None when it is too short for that.

    Bits are flipped and not overwritten, so that an id, which each broker chooses by itself, is damaged on both.
    "tag" puts an unknown tagged field where the last, empty, list of tagged fields was, which is no damage at all.
    """
    kind, at, *rest = damage
    if kind == "append":
        return body + bytes.fromhex(at)
    if kind == "replace":
        return bytes.fromhex(at)
    if kind == "tag":
        return body[:-1] + bytes.fromhex(at) if body.endswith(b"\0") else None
    if at >= len(body):
        return None
    if kind == "cut":
        return body[:at]
    poke = bytes.fromhex(rest[0])
    there = body[at : at + len(poke)].ljust(len(poke), b"\0")
    changed = bytes(old ^ new for old, new in zip(there, poke, strict=True))
    return body[:at] + changed + body[at + len(poke) :]


def _is_time_bomb(cls: type[Request[Any]], version: int, body: bytes) -> bool:
    """Whether a damaged request is still one with a short timeout that nobody would wait for."""
    try:
        request, _ = codec(cls, version).parse(body)
    except Exception:
        return False
    timeouts = [getattr(request, "session_timeout_ms", LONG_MS), getattr(request, "rebalance_timeout_ms", LONG_MS)]
    return any(timeout < LONG_MS for timeout in timeouts)
