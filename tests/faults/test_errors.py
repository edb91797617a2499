"""Every error code that a rule may name, at every level and in every version, in an answer that clients can read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from kshim.faults.codes import codes_of, level_of
from kshim.faults.entries import ANY, EVERY_TOPIC, SHAPES, Entry, entries_of, error_levels, shape_of
from kshim.faults.refusal import Refusal
from kshim_protocol.apis import API_TABLE, api_named
from kshim_protocol.codec import codec
from kshim_protocol.errors import ErrorCode
from kshim_protocol.schema import Struct
from tests.protocol.strategies import messages

CODE = int(ErrorCode.UNKNOWN_SERVER_ERROR)
CASES = [
    (api, version)
    for api in SHAPES
    for version in (api_named(api).min_version, api_named(api).max_version)
    if shape_of(api, version) is not None
]


def no_name(topic_id: bytes) -> str | None:
    return None


def error_codes(answer: Any) -> Iterator[int]:
    """All error codes in an answer."""
    for row in answer.info.rows:
        value = getattr(answer, row.name)
        if row.name.endswith("error_code"):
            yield value
        elif isinstance(value, tuple) and value and isinstance(value[0], Struct):
            for element in value:
                yield from error_codes(element)


@pytest.mark.parametrize("api", sorted(api.name for api in API_TABLE.values()))
def test_every_code_of_an_api_is_one_of_kafkas_and_stands_at_a_level_that_its_answer_has(api: str) -> None:
    levels = {"request", *error_levels(api)}
    for level, codes in codes_of(api).items():
        assert level in levels
        assert set(codes) <= set(ErrorCode.__members__)


@pytest.mark.parametrize(("api", "version"), CASES)
@settings(max_examples=5)
@given(data=st.data())
def test_an_answer_to_a_request_that_is_refused_entry_by_entry_can_be_sent(
    api: str, version: int, data: st.DataObject
) -> None:
    known = api_named(api)
    shape = shape_of(api, version)
    assert shape is not None
    request = data.draw(messages(known.request_class(), version))
    if hasattr(request, "key_type"):
        request.key_type = 0
    entries = [entry for entry in entries_of(api, version, request, no_name) if entry.topic != EVERY_TOPIC]
    # A partition of this number, which no client asks for, could not be told from all of them.
    assume(len({entry.partition == ANY for entry in entries}) < 2)
    chosen = set(data.draw(st.lists(st.sampled_from(entries)))) if entries else set()

    def is_chosen(entry: Entry) -> bool:
        return entry in chosen or entry._replace(partition=ANY) in chosen

    for level in set(error_levels(api, version)).intersection(shape.kinds[: len(shape.request)]):
        refusal = Refusal(shape, level, version, CODE, is_chosen, no_name)
        answer = refusal.of_all(request, known.response_class())
        reread, _ = codec(known.response_class(), version).parse(codec(known.response_class(), version).build(answer))
        assert set(error_codes(reread)) <= {0, CODE}
        assert (CODE in set(error_codes(reread))) == bool(chosen)
        if shape.reads:
            continue
        rest = refusal.rest_of(request)
        left = [] if rest is None else list(entries_of(api, version, rest, no_name))
        assert [entry for entry in left if entry.topic != EVERY_TOPIC] == [
            each for each in entries if each not in chosen
        ]


@pytest.mark.parametrize(
    ("api", "code", "kinds", "level"),
    [
        ("Fetch", "OFFSET_OUT_OF_RANGE", (), "partition"),
        ("Fetch", "KAFKA_STORAGE_ERROR", (), "top"),
        ("Fetch", "KAFKA_STORAGE_ERROR", ("partition", "topic"), "partition"),
        ("Metadata", "LEADER_NOT_AVAILABLE", (), "topic"),
        ("Metadata", "LEADER_NOT_AVAILABLE", ("partition",), "partition"),
        ("LeaveGroup", "UNKNOWN_MEMBER_ID", (), "top"),
        ("LeaveGroup", "UNKNOWN_MEMBER_ID", ("member",), "member"),
        ("OffsetFetch", "UNSTABLE_OFFSET_COMMIT", ("group",), "top"),
        ("CreateAcls", "SECURITY_DISABLED", (), "request"),
    ],
)
def test_an_error_goes_as_near_as_it_can_to_what_is_matched(
    api: str, code: str, kinds: tuple[str, ...], level: str
) -> None:
    assert level_of(api, code, kinds) == level


def test_an_entry_is_named_as_people_do() -> None:
    assert [Entry(None, "t", 3).text(), Entry("g").text(), Entry(None, "").text()] == ["t-3", "g", "every topic"]
