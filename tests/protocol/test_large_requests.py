"""What one request may hold, and that a large one which is malformed is not read a second time, slowly."""

from __future__ import annotations

import pytest

from kshim_protocol.codec import MAX_EXPLAINED_BYTES, Codec, codec
from kshim_protocol.frame import (
    MAX_REQUEST_ELEMENTS,
    MAX_SECTION_TAGS,
    ProtocolError,
    build_request_frame,
    parse_request_header,
)
from kshim_protocol.messages.delete_groups import DeleteGroupsRequest
from kshim_protocol.messages.list_offsets import ListOffsetsRequest
from kshim_protocol.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseBroker
from kshim_protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic


def names_of(count: int) -> DeleteGroupsRequest:
    return DeleteGroupsRequest(groups_names=("",) * count)


@pytest.mark.parametrize("version", [0, 2])
def test_a_request_holds_so_many_elements_and_no_more(version: int) -> None:
    tested = codec(DeleteGroupsRequest, version)
    most = tested.build(names_of(MAX_REQUEST_ELEMENTS))
    assert tested.parse(most)[0] == names_of(MAX_REQUEST_ELEMENTS)
    for parse in (tested.parse, tested.parse_interpreted):
        with pytest.raises(ProtocolError, match="more"):
            parse(tested.build(names_of(MAX_REQUEST_ELEMENTS + 1)))


def test_elements_count_together_however_they_are_nested() -> None:
    tested = codec(OffsetFetchRequest, 7)
    topics = MAX_REQUEST_ELEMENTS // 100
    for partitions, is_fine in ((99, True), (100, False)):
        topic = OffsetFetchRequestTopic(name="t", partition_indexes=tuple(range(partitions)))
        data = tested.build(OffsetFetchRequest(group_id="g", topics=(topic,) * topics))
        if is_fine:
            assert len((tested.parse(data)[0].topics or ())[-1].partition_indexes) == 99
        else:
            with pytest.raises(ProtocolError, match="more elements"):
                tested.parse(data)


def test_answers_are_not_bounded() -> None:
    tested = codec(MetadataResponse, 0)
    brokers = (MetadataResponseBroker(node_id=1, host="", port=1),) * (MAX_REQUEST_ELEMENTS + 1)
    assert len(tested.parse(tested.build(MetadataResponse(brokers=brokers, topics=())))[0].brokers) == len(brokers)


def tags(count: int) -> bytes:
    """A tagged section of that many empty ones, all unknown."""
    return varint(count) + b"\x63\x00" * count


def varint(number: int) -> bytes:
    return bytes((number & 0x7F | 0x80, number >> 7 & 0x7F | 0x80, number >> 14))


def test_a_struct_holds_so_many_tagged_fields_and_no_more() -> None:
    tested = codec(DeleteGroupsRequest, 2)
    plain = tested.build(DeleteGroupsRequest(groups_names=()))[:-1]
    assert len(tested.parse(plain + tags(MAX_SECTION_TAGS))[0].unknown_tagged_fields) == MAX_SECTION_TAGS
    for parse in (tested.parse, tested.parse_interpreted):
        with pytest.raises(ProtocolError, match="10001 tags"):
            parse(plain + tags(MAX_SECTION_TAGS + 1))


def test_tagged_fields_count_as_elements() -> None:
    tested = codec(ListOffsetsRequest, 6)
    topic = b"\x02t" + b"\x01" + tags(MAX_SECTION_TAGS)
    data = b"\xff\xff\xff\xff\x00" + bytes((27,)) + topic * 26 + b"\x00"
    with pytest.raises(ProtocolError, match="more elements or tagged fields"):
        tested.parse(data)


def test_so_does_a_header() -> None:
    frame = build_request_frame(18, 3, 1, None, b"", flexible=True)[4:-1]
    assert parse_request_header(frame + tags(1_000), flexible=True).body_at == len(frame) + 3 + 2 * 1_000
    with pytest.raises(ProtocolError, match="10001 tags"):
        parse_request_header(frame + tags(MAX_SECTION_TAGS + 1), flexible=True)


def test_malformed_text_in_a_large_request_is_replaced_without_the_slow_parser(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tested: Codec[MetadataRequest] = Codec(MetadataRequest, 1)
    count = MAX_EXPLAINED_BYTES // 2
    data = count.to_bytes(4, "big") + b"\0\1a" * (count - 1) + b"\0\1\xff"
    expected = tested.parse_interpreted(data)

    def never(*_: object) -> None:
        raise AssertionError("parsed slowly")

    monkeypatch.setattr("kshim_protocol.wire.interpreted_parse", never)
    assert tested.parse(data) == expected
    assert (expected[0].topics or ())[-1].name == "\ufffd"
    with pytest.raises(ProtocolError, match="too large to say where"):
        tested.parse(data[:-1])
