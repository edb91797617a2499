"""Answers in a form that both brokers must agree on."""

from __future__ import annotations

import dataclasses
import re
import struct
from collections.abc import Callable, Iterator
from typing import Any

from kshim_protocol.apis import API_TABLE
from kshim_protocol.codec import codec
from kshim_protocol.rows import Rows

Tree = Any
"""Dicts, lists and plain values."""

API_VERSIONS = 18

# Kafka fills these from hash maps, or from futures in the order in which they happen to be done.
_UNORDERED = frozenset(
    {
        "JoinGroupResponse.members",
        "DescribeGroupsResponse.groups",
        "DescribedGroup.members",
        "ListGroupsResponse.groups",
        "DeleteGroupsResponse.results",
        "OffsetCommitResponse.topics",
        "OffsetCommitResponseTopic.partitions",
        "OffsetFetchResponse.topics",
        "OffsetFetchResponse.groups",
        "OffsetFetchResponseGroup.topics",
        "OffsetFetchResponseTopic.partitions",
        "OffsetFetchResponseTopics.partitions",
        "OffsetDeleteResponse.topics",
        "ConsumerGroupDescribeResponse.groups",
        "Assignment.topic_partitions",
        "TopicPartitions.partitions",
        "Member.subscribed_topic_names",
        "OffsetDeleteResponseTopic.partitions",
    }
)

_MEMBER_ID = re.compile(r"(.*)-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.DOTALL)


_SHORT_ID = re.compile(r"[A-Za-z0-9_-]{22}")
"""Of a member of the new protocol that brought none."""

_REFUSED_ID = re.compile(r"(?<=^Static member )[A-Za-z0-9_-]{22}(?= with instance id )")
"""Of a member that is refused with an id that the broker drew for it: it is named in the message only."""


class Malformed(Exception):
    """An answer that is not what the API's table says."""


def parse_answer(frame: bytes, *, api_key: int, version: int, correlation_id: int) -> Any:
    """The typed response in a frame. Raises Malformed, also for the wrong correlation id and for bytes left over."""
    api = API_TABLE[api_key]
    at = 5 if api.is_flexible(version) and api_key != API_VERSIONS else 4
    if len(frame) < at or struct.unpack_from(">i", frame)[0] != correlation_id:
        raise Malformed(f"not the answer to request {correlation_id}: {frame[:16].hex()}")
    try:
        response, end = codec(api.response_class(), version).parse(frame, at)
    except Exception as error:
        raise Malformed(f"{error}: {frame.hex()}") from error
    if end != len(frame):
        raise Malformed(f"{len(frame) - end} bytes left over after {response}")
    return response


def id_prefix(member_id: str) -> str:
    """A member id without its UUID."""
    match = _MEMBER_ID.fullmatch(member_id)
    if match is None and _SHORT_ID.fullmatch(member_id):
        return "short"
    return match[1] if match else f"not an id of a member: {member_id}"


def without_refused_id(message: str) -> str:
    """An error message without the id that was drawn for who is refused."""
    return _REFUSED_ID.sub("<? short>", message)


def tree_of(value: Any, rename: Callable[[str, str], str | None], name_topic: Callable[[bytes], str]) -> Tree:
    """The plain form of a response.

    `rename` gets the name of a field and its text, and returns what to write there. `name_topic` names topic ids.
    """
    return _tree("", value, rename, name_topic)


def _tree(field: str, value: Any, rename: Callable[[str, str], str | None], name_topic: Callable[[bytes], str]) -> Tree:
    if isinstance(value, str):
        return rename(field, value)
    if isinstance(value, bytes):
        return name_topic(value) if field == "topic_id" else value
    if isinstance(value, tuple | Rows):
        return [_tree(field, item, rename, name_topic) for item in value]
    if dataclasses.is_dataclass(value):
        name = type(value).__name__
        tree = {}
        for inner in dataclasses.fields(value):
            item = _tree(inner.name, getattr(value, inner.name), rename, name_topic)
            if f"{name}.{inner.name}" in _UNORDERED and item is not None:
                item = sorted(item, key=repr)
            tree[inner.name] = item
        return tree
    return value


def differing_paths(left: Tree, right: Tree, path: str = "") -> Iterator[str]:
    """Where two trees differ, e.g. `members[1].metadata`. Lists of unequal length differ as a whole."""
    if isinstance(left, dict) and isinstance(right, dict) and left.keys() == right.keys():
        for key in left:
            yield from differing_paths(left[key], right[key], f"{path}.{key}" if path else key)
    elif isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        for index, (one, other) in enumerate(zip(left, right, strict=True)):
            yield from differing_paths(one, other, f"{path}[{index}]")
    elif left != right or type(left) is not type(right):
        yield path


def error_codes(tree: Tree) -> Iterator[int]:
    """All error codes of an answer, those of its parts included."""
    if isinstance(tree, dict):
        if "error_code" in tree:
            yield tree["error_code"]
        for value in tree.values():
            yield from error_codes(value)
    elif isinstance(tree, list):
        for item in tree:
            yield from error_codes(item)
