"""ApiVersions lists what is served and answers versions from the future. Facts were checked on a live Kafka 4.4."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import pytest

from kshim.broker.client_activity import ConnectedClient
from kshim.broker.connection import ANONYMOUS, ConnectionClosing
from kshim.config.listeners import SecurityProtocol
from kshim_protocol.apis import API_TABLE
from kshim_protocol.codec import codec
from kshim_protocol.errors import ErrorCode
from kshim_protocol.frame import build_request_frame
from kshim_protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from tests.broker.harness import CLUSTER_ID, NodeUnderTest, a_node


def a_request(
    name: str = "kshim-tests", version: str = "1.0", cluster_id: str | None = None, node_id: int = -1
) -> ApiVersionsRequest:
    return ApiVersionsRequest(
        client_software_name=name, client_software_version=version, cluster_id=cluster_id, node_id=node_id
    )


@pytest.mark.parametrize("version", range(6))
def test_every_version_lists_every_api_by_key(version: int) -> None:
    request = a_request() if version >= 3 else ApiVersionsRequest()
    reply = a_node().client().ask(request, version)
    assert reply.error_code == ErrorCode.NONE
    assert [api.api_key for api in reply.api_keys] == sorted(API_TABLE)
    assert reply.throttle_time_ms == 0


def test_ranges_are_those_of_the_registry_but_produce_is_listed_from_zero() -> None:
    listed = {api.api_key: (api.min_version, api.max_version) for api in a_node().client().ask(a_request()).api_keys}
    assert listed.pop(0) == (0, 13)
    assert listed == {key: (api.min_version, api.max_version) for key, api in API_TABLE.items() if key != 0}


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("", "1"),
        ("a", ""),
        ("a b", "1"),
        ("a!", "1"),
        ("-a", "1"),
        ("a-", "1"),
        ("a.", "1"),
        ("a_b", "1"),
        ("ä", "1"),
        ("a", "1\n"),
    ],
)
def test_a_malformed_name_or_version_of_the_client_is_refused(name: str, version: str) -> None:
    reply = a_node().client().ask(a_request(name, version), 3)
    assert (reply.error_code, reply.api_keys) == (ErrorCode.INVALID_REQUEST, ())


def test_names_with_dots_and_hyphens_inside_are_accepted() -> None:
    reply = a_node().client().ask(a_request("a.b-c", "1-2.3"), 3)
    assert reply.error_code == ErrorCode.NONE


@pytest.mark.parametrize(
    ("cluster_id", "node_id", "error"),
    [
        (None, -1, ErrorCode.NONE),
        (CLUSTER_ID, 1, ErrorCode.NONE),
        ("another", 1, ErrorCode.REBOOTSTRAP_REQUIRED),
        (CLUSTER_ID, 2, ErrorCode.REBOOTSTRAP_REQUIRED),
        (CLUSTER_ID, -2, ErrorCode.REBOOTSTRAP_REQUIRED),
        (CLUSTER_ID, -1, ErrorCode.INVALID_REQUEST),
        ("", -1, ErrorCode.INVALID_REQUEST),
        (None, 1, ErrorCode.INVALID_REQUEST),
    ],
)
def test_version_5_checks_whom_the_client_wanted_to_reach(
    cluster_id: str | None, node_id: int, error: ErrorCode
) -> None:
    assert a_node().client().ask(a_request(cluster_id=cluster_id, node_id=node_id), 5).error_code == error


class RawClient:
    """A connection whose replies stay bytes. Implements `Connection`."""

    client_host = "/127.0.0.1"
    client_port = 40_000
    listener_name = "PLAINTEXT"
    security_protocol: SecurityProtocol = "PLAINTEXT"
    principal = ANONYMOUS
    is_authenticated = True
    is_closed = False

    def __init__(self, node: NodeUnderTest) -> None:
        self.frames: list[bytes | None] = []
        self.client = ConnectedClient()
        self.node = node

    def send(self, frame: bytes) -> None:
        self.node.node.route(frame, self, self.node.now, self.node.real_ms)

    def reply(self, frame: bytes | None, rest: Sequence[bytes] = ()) -> None:
        self.frames.append(frame)

    def hang_up(self, reason: str) -> None:
        raise AssertionError(reason)


@pytest.mark.parametrize("version", [6, 99, 32767])
def test_a_version_of_the_future_is_answered_in_version_0_with_what_to_retry(version: int) -> None:
    client = RawClient(a_node())
    client.send(build_request_frame(18, version, 77, "c", b"\xff\xff\xff", flexible=True)[4:])
    (frame,) = client.frames
    assert frame is not None
    size, correlation_id = struct.unpack_from(">ii", frame)
    assert (size, correlation_id) == (len(frame) - 4, 77)
    reply, end = codec(ApiVersionsResponse, 0).parse(frame, 8)
    assert end == len(frame)
    assert reply.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert reply.api_keys == (ApiVersion(api_key=18, min_version=0, max_version=5),)


def test_a_version_of_the_future_without_tagged_fields_in_its_header_closes_the_connection() -> None:
    client = RawClient(a_node())
    with pytest.raises(ConnectionClosing):
        client.send(build_request_frame(18, 99, 1, "c", b"", flexible=False)[4:])
    assert client.frames == []


def test_a_negative_version_is_answered_too() -> None:
    client = RawClient(a_node())
    client.send(build_request_frame(18, -1, 1, "c", b"", flexible=False)[4:])
    assert len(client.frames) == 1
