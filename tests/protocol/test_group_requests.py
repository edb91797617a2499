"""Requests about groups can be built in every version of their API, and arrive as they were meant."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kshim_protocol.apis import api_named
from kshim_protocol.codec import codec
from kshim_protocol.group_requests import (
    Committed,
    GroupMember,
    OffsetsOf,
    find_coordinator,
    for_version,
    leave_group,
    offset_delete,
    offset_fetch,
)
from kshim_protocol.messages.leave_group import MemberIdentity
from kshim_protocol.schema import Request

MEMBER = GroupMember("g", "m-1", 7, "instance")
TOPIC_ID = b"t" * 16

BUILDERS: dict[str, Callable[[int], Request[Any]]] = {
    "JoinGroup": lambda version: MEMBER.join(version, [("range", b"topics")], reason="started"),
    "SyncGroup": lambda version: MEMBER.sync(version, [("m-1", b"all")]),
    "Heartbeat": MEMBER.heartbeat,
    "LeaveGroup": lambda version: MEMBER.leave(version, "closed"),
    "OffsetCommit": lambda version: MEMBER.commit(
        version, [("t", [Committed(0, 5, "text", 3)])], topic_id=lambda _: TOPIC_ID, retention_time_ms=9
    ),
    "OffsetFetch": lambda version: offset_fetch(
        version, [OffsetsOf("g", [("t", [0, 1])], "m-1", 7)], topic_id=lambda _: TOPIC_ID, require_stable=True
    ),
    "OffsetDelete": lambda version: offset_delete("g", [("t", [0])]),
    "FindCoordinator": lambda version: find_coordinator(version, ["g"], 1),
}
CASES = [
    (name, version)
    for name in BUILDERS
    for version in range(api_named(name).min_version, api_named(name).max_version + 1)
]


@pytest.mark.parametrize(("name", "version"), CASES)
def test_a_request_arrives_as_it_was_built_in_every_version(name: str, version: int) -> None:
    request = BUILDERS[name](version)
    own = codec(type(request), version)
    assert own.parse(own.build(request))[0] == request


def test_what_an_old_version_lacks_is_left_out() -> None:
    request = MEMBER.join(0, [("range", b"")], reason="started")
    assert (request.rebalance_timeout_ms, request.group_instance_id, request.reason) == (-1, None, None)


def test_a_newer_version_names_topics_by_id_only() -> None:
    (by_name,) = BUILDERS["OffsetCommit"](9).topics  # type: ignore[attr-defined]
    (by_id,) = BUILDERS["OffsetCommit"](10).topics  # type: ignore[attr-defined]
    assert (by_name.name, by_name.topic_id) == ("t", bytes(16))
    assert (by_id.name, by_id.topic_id) == ("", TOPIC_ID)


def test_old_leave_requests_name_one_member_and_new_ones_a_list() -> None:
    members = [MemberIdentity(member_id="a"), MemberIdentity(member_id="b")]
    assert leave_group(2, "g", members).member_id == "a"
    assert [member.member_id for member in leave_group(3, "g", members).members] == ["a", "b"]


def test_all_offsets_are_asked_for_with_null() -> None:
    assert offset_fetch(2, [OffsetsOf("g", None)]).topics is None
    assert offset_fetch(8, [OffsetsOf("g", None)]).groups[0].topics is None


def test_a_message_that_fits_already_is_copied_as_it_is() -> None:
    request = MEMBER.heartbeat(4)
    assert for_version(request, 4) == request
    assert for_version(request, 4) is not request
