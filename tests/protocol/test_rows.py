"""Arrays of structs that stay bytes: the same values as from structs, in every version, whatever a client sends."""

from __future__ import annotations

import pickle
from collections.abc import Sequence

import pytest

from kshim_protocol.codec import codec
from kshim_protocol.frame import BuildError
from kshim_protocol.messages.metadata import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic
from kshim_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kshim_protocol.rows import WORTH_ROWS, Layout, Rows, layout_of

VERSIONS = range(2, 11)
ANSWERS = (
    OffsetCommitResponsePartition(partition_index=3, error_code=0),
    OffsetCommitResponsePartition(partition_index=-1, error_code=16),
)


def request(version: int, *metadata: str | None, **options: object) -> OffsetCommitRequest:
    partitions = tuple(
        OffsetCommitRequestPartition(
            partition_index=index,
            committed_offset=1 << 40,
            committed_metadata=text,
            **options,  # type: ignore[arg-type]
        )
        for index, text in enumerate(metadata)
    )
    topic = (
        OffsetCommitRequestTopic(topic_id=b"t" * 16, partitions=partitions)
        if version >= 10
        else OffsetCommitRequestTopic(name="orders", partitions=partitions)
    )
    return OffsetCommitRequest(group_id="g", member_id="m", topics=(topic,))


def received(version: int, sent: OffsetCommitRequest) -> Sequence[OffsetCommitRequestPartition]:
    own = codec(OffsetCommitRequest, version)
    parsed, end = own.parse(own.build(sent))
    assert end == len(own.build(sent))
    assert parsed == sent
    assert own.build(parsed) == own.build(sent)
    assert own.build_interpreted(parsed) == own.build(sent)
    return parsed.topics[0].partitions


@pytest.mark.parametrize("text", [None, ""])
@pytest.mark.parametrize("version", VERSIONS)
def test_what_has_no_text_stays_bytes_and_reads_as_the_structs_it_is(version: int, text: str | None) -> None:
    sent = request(version, *[text] * WORTH_ROWS)
    found = received(version, sent)
    assert isinstance(found, Rows)
    partitions = sent.topics[0].partitions
    assert (len(found), found[1], found[-1:]) == (WORTH_ROWS, partitions[1], partitions[-1:])
    assert list(found) == list(sent.topics[0].partitions)
    assert repr(found) == repr(sent.topics[0].partitions)
    assert pickle.loads(pickle.dumps(found)) == sent.topics[0].partitions


@pytest.mark.parametrize("version", VERSIONS)
def test_a_few_are_structs_at_once(version: int) -> None:
    assert isinstance(received(version, request(version, *[""] * (WORTH_ROWS - 1))), tuple)


@pytest.mark.parametrize("metadata", [("", None), ("", "text"), ("text", ""), ("\x00", ""), ("", "x" * 300)])
@pytest.mark.parametrize("version", VERSIONS)
def test_what_has_text_of_its_own_is_read_struct_by_struct(version: int, metadata: tuple[str | None, ...]) -> None:
    assert isinstance(received(version, request(version, *[""] * WORTH_ROWS, *metadata)), tuple)
    assert isinstance(received(version, request(version, *metadata, *[""] * WORTH_ROWS)), tuple)


def test_no_struct_at_all_is_an_empty_tuple() -> None:
    assert received(8, request(8)) == ()


def test_unknown_tags_of_a_struct_are_kept() -> None:
    own = codec(OffsetCommitRequest, 8)
    sent = request(8, *[""] * WORTH_ROWS, unknown_tagged_fields=((5, b"new"),))
    found = own.parse(own.build_interpreted(sent))[0]
    assert [each.unknown_tagged_fields for each in found.topics[0].partitions] == [((5, b"new"),)] * WORTH_ROWS


def response(partitions: Sequence[OffsetCommitResponsePartition]) -> OffsetCommitResponse:
    return OffsetCommitResponse(topics=(OffsetCommitResponseTopic(name="orders", partitions=partitions),))


@pytest.mark.parametrize("version", range(2, 10))
def test_bytes_of_one_layout_are_built_into_an_answer_of_any_version(version: int) -> None:
    flexible: Layout[OffsetCommitResponsePartition] = layout_of(OffsetCommitResponsePartition, 8, is_flexible=True)
    rows = Rows(flexible, 2, b"\0\0\0\3\0\0\0" + b"\xff\xff\xff\xff\0\x10\0")
    own = codec(OffsetCommitResponse, version)
    assert own.build(response(rows)) == own.build(response(ANSWERS)) == own.build_interpreted(response(rows))


def test_versions_in_which_a_struct_travels_alike_have_one_layout() -> None:
    layouts = {layout_of(OffsetCommitRequestPartition, version, is_flexible=version >= 8) for version in VERSIONS}
    assert [(layout.names[2:], layout.cls) for layout in sorted(layouts, key=lambda each: len(each.names))] == [
        (("committed_metadata",), OffsetCommitRequestPartition),
        (("committed_leader_epoch", "committed_metadata"), OffsetCommitRequestPartition),
        (("committed_leader_epoch", "committed_metadata"), OffsetCommitRequestPartition),
    ]


def test_bytes_that_hold_something_else_are_a_defect() -> None:
    layout = layout_of(OffsetCommitResponsePartition, 8, is_flexible=True)
    with pytest.raises(AssertionError, match="holds no OffsetCommitResponsePartition"):
        list(Rows(layout, 2, b"\0\0\0\3\0\0\0"))


@pytest.mark.parametrize("version", range(14))
def test_an_answer_of_bytes_made_struct_by_struct_is_that_of_the_structs(version: int) -> None:
    partitions = tuple(
        MetadataResponsePartition(
            error_code=0, partition_index=index, leader_id=1, leader_epoch=3, replica_nodes=(1, 2), isr_nodes=(1,)
        )
        for index in range(3)
    )
    topics = [MetadataResponseTopic(error_code=0, name=name, partitions=partitions) for name in ("a", "long" * 40)]
    layout = layout_of(MetadataResponseTopic, version, is_flexible=version >= 9)
    own = codec(MetadataResponse, version)
    as_bytes = MetadataResponse(brokers=(), topics=layout.rows_of(topics))
    assert own.build(as_bytes) == own.build(MetadataResponse(brokers=(), topics=topics))
    assert own.build(as_bytes) == own.build_interpreted(as_bytes)
    for other in range(14):  # bytes of one version are never sent in another that writes the structs inside differently
        told = MetadataResponse(brokers=(), topics=tuple(as_bytes.topics))
        assert codec(MetadataResponse, other).build(as_bytes) == codec(MetadataResponse, other).build(told)


def test_a_struct_that_cannot_travel_is_refused_by_its_name() -> None:
    layout = layout_of(OffsetCommitResponsePartition, 9, is_flexible=True)
    with pytest.raises(BuildError, match=r"OffsetCommitResponsePartition v\d+: error_code"):
        layout.build(OffsetCommitResponsePartition(partition_index=1, error_code=1 << 20))
