"""A dialogue as lines for a person: who asked for what, and what was answered."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from kshim.tools.conform_client.dialogue import Dialogue, Exchange

MAX_LINES: Final = 24
_SHORT_ID: Final = 24


def lines_of(dialogue: Dialogue, *, since_s: float = 0.0) -> list[str]:
    """What was said about the group; the same thing said again is one line with a count. The end, if it is long."""
    lines: list[str] = []
    before, count = "", 0
    for exchange in dialogue.since(since_s, *_REQUESTS):
        text = _text(exchange)
        if text == before:
            count += 1
            continue
        if count:
            lines.append(f"{'':>9} the same {count} more times" if count > 1 else f"{'':>9} the same again")
        lines.append(f"{exchange.at_s:7.2f} s {text}")
        before, count = text, 0
    if count:
        lines.append(f"{'':>9} the same {count} more times" if count > 1 else f"{'':>9} the same again")
    if len(lines) > MAX_LINES:
        half = MAX_LINES // 2
        lines = [*lines[:half], f"{'':>9} ... {len(lines) - MAX_LINES} lines ...", *lines[-half:]]
    return lines


def _text(exchange: Exchange) -> str:
    request = _REQUESTS[exchange.api](exchange.request)
    fault = " (injected)" if exchange.fault else ""
    return f"broker {exchange.node_id}: {exchange.api} v{exchange.version} {request} -> {_answer(exchange)}{fault}"


def _answer(exchange: Exchange) -> str:
    if exchange.is_damaged:
        return "damaged bytes"
    if exchange.answered_s is None:
        return "no answer" if exchange.closed_s is None else "connection closed"
    if exchange.errors:
        return ", ".join(exchange.errors)
    describe = _RESPONSES.get(exchange.api)
    return describe(exchange.response) if describe is not None and exchange.response is not None else "ok"


def _member(request: Any) -> str:
    instance = request.group_instance_id
    return f"member={_short(request.member_id)}{f' instance={instance}' if instance else ''}"


def _short(member_id: str) -> str:
    return repr(member_id if len(member_id) <= _SHORT_ID else f"...{member_id[-_SHORT_ID:]}")


def _generation(request: Any) -> str:
    return f"{_member(request)} generation={request.generation_id}"


def _commit(request: Any) -> str:
    offsets = " ".join(
        f"{each.partition_index}@{each.committed_offset}" for topic in request.topics for each in topic.partitions
    )
    return f"{_member(request)} generation={request.generation_id_or_member_epoch} {offsets}"


def _fetched(response: Any) -> str:
    topics = [topic for group in response.groups for topic in group.topics] or response.topics
    return " ".join(f"{each.partition_index}@{each.committed_offset}" for topic in topics for each in topic.partitions)


def _found(response: Any) -> str:
    node_ids: Iterable[int] = [each.node_id for each in response.coordinators] or [response.node_id]
    return f"broker {', '.join(map(str, node_ids))}"


def _joined(response: Any) -> str:
    leader = "leader" if response.leader == response.member_id else "follower"
    return f"member={_short(response.member_id)} generation={response.generation_id} {leader}"


_REQUESTS: Mapping[str, Callable[[Any], str]] = {
    "FindCoordinator": lambda request: "",
    "JoinGroup": _member,
    "SyncGroup": _generation,
    "Heartbeat": _generation,
    "OffsetFetch": lambda request: "",
    "OffsetCommit": _commit,
    "LeaveGroup": lambda request: "",
}
_RESPONSES: Mapping[str, Callable[[Any], str]] = {
    "FindCoordinator": _found,
    "JoinGroup": _joined,
    "SyncGroup": lambda response: f"{len(response.assignment)} bytes of assignment",
    "OffsetFetch": _fetched,
}
