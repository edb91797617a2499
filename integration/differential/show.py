"""Answers as text, near to the notation of the scenarios."""

from __future__ import annotations

import pprint
from collections.abc import Mapping
from typing import Any

from integration.differential.canonical import Tree
from kshim_protocol.errors import ErrorCode

_QUIET = frozenset(
    {"throttle_time_ms", "error_code", "skip_assignment", "protocol_type", "group_instance_id", "unknown_tagged_fields"}
)


def error_name(code: int) -> str:
    """As Kafka spells it."""
    try:
        return ErrorCode(code).name
    except ValueError:
        return str(code)


def show_tree(api: str, tree: Tree | None) -> str:
    """One line for an answer."""
    if tree is None:
        return "no answer"
    if not isinstance(tree, dict):
        return str(tree)
    if "malformed answer" in tree:
        return str(tree)
    error = error_name(tree["error_code"]) if "error_code" in tree else ""
    if api == "JoinGroup" and tree["error_code"] == 0:
        members = ",".join(member["member_id"] for member in tree["members"]) or "-"
        leader, member = tree["leader"], tree["member_id"]
        return f"NONE generation={tree['generation_id']} member={member} leader={leader} members={members}"
    if api == "JoinGroup":
        return f"{error} member={tree['member_id'] or '-'}"
    if api == "Heartbeat":
        return error
    if api == "SyncGroup":
        return f"{error} assignment={_plain(tree['assignment'])}" if tree["error_code"] == 0 else error
    rest = " ".join(f"{key}={_plain(value)}" for key, value in tree.items() if key not in _QUIET)
    return f"{error} {rest}".strip()


def _plain(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace").replace("\0", "\\0") or "-"
    if isinstance(value, dict):
        parts = [
            error_name(item) if key == "error_code" else f"{key}={_plain(item)}"
            for key, item in value.items()
            if key not in _QUIET or (key == "error_code" and item)
        ]
        return "{" + " ".join(parts) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_plain, value)) + "]"
    text = str(value)
    return text if len(text) <= 60 else f"{text[:50]}...({len(text)})"


def show_case(actor: str, api: str, trees: Mapping[str, Tree | None], paths: list[str]) -> str:
    """Both answers in full, and where they differ."""
    lines = [f"{api} of {actor} differs in: {', '.join(paths)}"]
    for name, tree in trees.items():
        lines.append(f"  {name}: {show_tree(api, tree)}")
    for name, tree in trees.items():
        lines.append(f"  {name} in full:")
        lines.append("    " + pprint.pformat(tree, width=116, sort_dicts=False).replace("\n", "\n    "))
    return "\n".join(lines)
