"""The declared classes: dataclasses to their users, checked when they are declared."""

from __future__ import annotations

import copy
import dataclasses
import pickle

import pytest
from hypothesis import given

from kshim_protocol.codec import codec
from kshim_protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kshim_protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kshim_protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kshim_protocol.schema import Request, Struct, array, int32, message, string, struct, version_range
from tests.protocol.strategies import messages

HEARTBEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")


def test_rows_without_a_default_are_required_and_all_are_keywords() -> None:
    with pytest.raises(TypeError, match="missing 1 required keyword-only argument: 'member_id'"):
        HeartbeatRequest(group_id="g", generation_id=1)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="positional"):
        HeartbeatRequest("g", 1, "m")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="unexpected keyword argument 'group'"):
        HeartbeatRequest(group="g", group_id="g", generation_id=1, member_id="m")  # type: ignore[call-arg]


def test_objects_have_slots_only() -> None:
    assert not hasattr(HEARTBEAT, "__dict__")
    with pytest.raises(AttributeError):
        HEARTBEAT.generation = 3  # type: ignore[attr-defined]


def test_repr_is_the_call_that_makes_the_object() -> None:
    text = repr(HEARTBEAT)
    assert text == "HeartbeatRequest(group_id='g', generation_id=1, member_id='m', group_instance_id=None)"
    assert eval(text) == HEARTBEAT


def test_objects_are_equal_by_rows_and_tags() -> None:
    assert HeartbeatRequest(group_id="g", generation_id=1, member_id="m") == HEARTBEAT
    assert HeartbeatRequest(group_id="g", generation_id=2, member_id="m") != HEARTBEAT
    tagged = copy.copy(HEARTBEAT)
    tagged.unknown_tagged_fields = ((9, b""),)
    assert tagged != HEARTBEAT
    assert HEARTBEAT != "HeartbeatRequest"
    with pytest.raises(TypeError, match="unhashable"):
        hash(HEARTBEAT)


def test_dataclass_functions_work() -> None:
    assert dataclasses.is_dataclass(HEARTBEAT)
    assert [field.name for field in dataclasses.fields(HEARTBEAT)] == [
        "group_id",
        "generation_id",
        "member_id",
        "group_instance_id",
        "unknown_tagged_fields",
    ]
    assert dataclasses.replace(HEARTBEAT, generation_id=2).generation_id == 2
    assert dataclasses.replace(HEARTBEAT, generation_id=1) == HEARTBEAT
    assert dataclasses.asdict(MetadataRequest(topics=(MetadataRequestTopic(name="t"),)))["topics"] == (
        {"topic_id": bytes(16), "name": "t", "unknown_tagged_fields": ()},
    )


@given(messages(JoinGroupRequest, 9))
def test_objects_are_copied_and_pickled(request: JoinGroupRequest) -> None:
    assert copy.copy(request) == request
    assert copy.deepcopy(request) == request
    assert pickle.loads(pickle.dumps(request)) == request


def test_a_parsed_object_can_be_replaced_like_a_made_one() -> None:
    tested = codec(HeartbeatRequest, 4)
    parsed, _ = tested.parse(tested.build(HEARTBEAT))
    assert dataclasses.replace(parsed, member_id="n").member_id == "n"


@pytest.mark.parametrize(
    ("text", "expected"), [("3+", (3, 32767)), ("2-5", (2, 5)), ("7", (7, 7)), ("none", (0, -1)), ("0+", (0, 32767))]
)
def test_version_ranges(text: str, expected: tuple[int, int]) -> None:
    assert version_range(text) == expected


def test_a_version_a_message_does_not_have_is_refused() -> None:
    for version in (-1, 5, 100):
        with pytest.raises(ValueError, match=f"HeartbeatRequest has no version {version}"):
            codec(HeartbeatRequest, version)
    with pytest.raises(ValueError, match="JoinGroupRequestProtocol has no version 0"):
        codec(JoinGroupRequestProtocol, 0)


def test_a_codec_is_made_once() -> None:
    assert codec(HeartbeatResponse, 4) is codec(HeartbeatResponse, 4)
    assert codec(HeartbeatResponse, 4) is not codec(HeartbeatResponse, 3)


def test_a_field_that_is_no_row_is_refused_when_declared() -> None:
    with pytest.raises(TypeError, match=r"Odd\.count is no row"):

        @struct
        class Odd(Struct):
            count: int = 7


def test_a_class_without_the_base_is_refused_when_declared() -> None:
    with pytest.raises(TypeError, match="Plain must derive from Struct or Request"):

        @struct
        class Plain:
            count: int = int32("0+")


def test_a_message_of_ones_own_is_declared_parsed_and_built() -> None:
    @struct
    class Line(Struct):
        text: str = string("0+")

    @message(versions="0-1", flexible="1+")
    class Poem(Struct):
        lines: tuple[Line, ...] = array(Line, "0+")
        stars: int = int32("1+", default=-1, ignorable=True)

    poem = Poem(lines=(Line(text="a"), Line(text="b")))
    assert codec(Poem, 0).build(poem) == b"\0\0\0\x02\0\x01a\0\x01b"
    assert codec(Poem, 1).build(poem) == b"\x03\x02a\0\x02b\0\xff\xff\xff\xff\0"
    assert codec(Poem, 0).parse(codec(Poem, 0).build(poem)) == (poem, 10)


def test_requests_know_their_base() -> None:
    assert issubclass(HeartbeatRequest, Request)
    assert not issubclass(HeartbeatResponse, Request)
