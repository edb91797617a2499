"""Text of more than 32,767 bytes does not travel, in compact form neither: Java's readers refuse it."""

from __future__ import annotations

import pytest

from kshim_protocol.codec import codec
from kshim_protocol.frame import BuildError, ProtocolError
from kshim_protocol.messages.heartbeat import HeartbeatRequest
from kshim_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kshim_protocol.messages.sync_group import SyncGroupResponse


def a_heartbeat(group_id: str) -> HeartbeatRequest:
    return HeartbeatRequest(group_id=group_id, generation_id=1, member_id="m")


@pytest.mark.parametrize("version", [3, 4])
def test_the_longest_text_travels(version: int) -> None:
    request = a_heartbeat("g" * 32_767)
    data = codec(HeartbeatRequest, version).build(request)
    assert data == codec(HeartbeatRequest, version).build_interpreted(request)
    assert codec(HeartbeatRequest, version).parse(data) == (request, len(data))
    assert codec(HeartbeatRequest, version).parse_interpreted(data) == (request, len(data))


@pytest.mark.parametrize("version", [3, 4])
@pytest.mark.parametrize("text", ["g" * 32_768, "é" * 16_384])
def test_longer_text_is_not_built(version: int, text: str) -> None:
    for build in (codec(HeartbeatRequest, version).build, codec(HeartbeatRequest, version).build_interpreted):
        with pytest.raises(BuildError, match="group_id"):
            build(a_heartbeat(text))


@pytest.mark.parametrize("version", [7, 9])
@pytest.mark.parametrize("text", ["g" * 32_768, "é" * 16_384])
def test_longer_text_that_may_be_null_is_not_built_inside_an_array(version: int, text: str) -> None:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=0, committed_metadata=text)
    topic = OffsetCommitRequestTopic(name="t", partitions=(partition,))
    request = OffsetCommitRequest(group_id="g", member_id="m", topics=(topic,))
    for build in (codec(OffsetCommitRequest, version).build, codec(OffsetCommitRequest, version).build_interpreted):
        with pytest.raises(BuildError, match="committed_metadata"):
            build(request)


def test_longer_text_is_not_read() -> None:
    short = codec(HeartbeatRequest, 4).build(a_heartbeat("g"))
    data = b"\x81\x80\x02" + b"g" * 32_768 + short[2:]
    for parse in (codec(HeartbeatRequest, 4).parse, codec(HeartbeatRequest, 4).parse_interpreted):
        with pytest.raises(ProtocolError, match="text of 32768 bytes") as caught:
            parse(data)
        assert (caught.value.field, caught.value.offset) == ("group_id", 0)


def test_bytes_may_be_longer() -> None:
    response = SyncGroupResponse(error_code=0, assignment=b"a" * 100_000)
    data = codec(SyncGroupResponse, 5).build(response)
    assert codec(SyncGroupResponse, 5).parse(data) == (response, len(data))
