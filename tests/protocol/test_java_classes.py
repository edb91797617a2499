"""Random messages go through Java's own generated classes and come back as the same bytes; error responses are Kafka's."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from kshim_protocol.apis import Api
from kshim_protocol.codec import codec
from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
)
from kshim_protocol.messages.produce import ProduceRequest
from kshim_protocol.schema import Request, Struct, row_is_in
from tests.protocol.catalogue import ALL_APIS, OFFSETS_RECORDS, SHARE_STATE_RECORDS, TRANSACTION_RECORDS, over_versions
from tests.protocol.strategies import messages

pytestmark = pytest.mark.java

few = settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])


class JavaMessages:
    """Kafka's generated message classes, called in the JVM."""

    def __init__(self, jvm: Any) -> None:
        kafka = jvm.classes.org.apache.kafka
        self._group_records = kafka.coordinator.group.generated
        self._transaction_records = kafka.coordinator.transaction.generated
        self._share_records = kafka.coordinator.share.generated
        self._messages = kafka.common.message
        self._requests = kafka.common.requests
        self._protocol = kafka.common.protocol
        self._wrap = jvm.classes.java.nio.ByteBuffer.wrap

    def readable(self, data: bytes) -> Any:
        return self._protocol.ByteBufferAccessor(self._wrap(data))

    def bytes_of(self, message: Any, version: int) -> bytes:
        return bytes(self._protocol.MessageUtil.toByteBufferAccessor(message, version).buffer().array())

    def read_and_written(self, cls: type[Struct], version: int, data: bytes) -> bytes:
        """What Java's class writes after it read `data`."""
        if cls in OFFSETS_RECORDS:
            java_class = getattr(self._group_records, cls.__name__)
        elif cls in TRANSACTION_RECORDS:
            java_class = getattr(self._transaction_records, cls.__name__)
        elif cls in SHARE_STATE_RECORDS:
            java_class = getattr(self._share_records, cls.__name__)
        else:
            suffix = "" if cls.info.api_key is None else "Data"
            java_class = getattr(self._messages, cls.__name__ + suffix)
        return self.bytes_of(java_class(self.readable(data), version), version)

    def error_response(self, key: int, version: int, body: bytes, error: ErrorCode) -> tuple[bytes, str]:
        """(body, text) of the response by which Kafka's request class answers a whole request with `error`."""
        import py4j.java_gateway as py4j

        api = self._protocol.ApiKeys.forId(key)
        parsed = self._requests.AbstractRequest.parseRequest(api, version, self.readable(body))
        exception = self._protocol.Errors.forCode(error.value).exception()
        response = py4j.get_field(parsed, "request").getErrorResponse(0, exception)
        return self.bytes_of(response.data(), version), exception.getMessage()


@pytest.fixture(scope="module")
def java(jvm: Any) -> JavaMessages:
    return JavaMessages(jvm)


@over_versions()
def test_java_reads_what_we_build_and_writes_the_same(cls: type[Struct], version: int, java: JavaMessages) -> None:
    build = codec(cls, version).build

    @few
    @given(messages(cls, version))
    def check(message: Struct) -> None:
        data = build(message)
        assert java.read_and_written(cls, version, data).hex() == data.hex()

    check()


# Where our error response differs from the one Kafka's request class makes by itself, and why.
WITH_A_TEXT = {
    "FindCoordinator",
    "DescribeConfigs",
    "DescribeQuorum",
    "AlterClientQuotas",
    "ReadShareGroupState",
    "WriteShareGroupState",
    "ReadShareGroupStateSummary",
    "DescribeShareGroupOffsets",
    "AlterShareGroupOffsets",
    "DeleteShareGroupOffsets",
}
"""Kafka fills in its own sentence about the error; ours is the caller's."""
ERRORS = (ErrorCode.NOT_COORDINATOR, ErrorCode.UNSUPPORTED_VERSION, ErrorCode.UNKNOWN_SERVER_ERROR)

API_VERSIONS = [(api, version) for api in ALL_APIS for version in range(api.min_version, api.max_version + 1)]


def distinct(message: Any, version: int, place: int = 0) -> Any:
    """The message with no topic, partition, group or key named twice: Kafka merges those."""
    for row in message.info.rows:
        value = getattr(message, row.name)
        if not row_is_in(row, version):
            continue
        if row.type == "array" and value:
            if isinstance(row.element, type):
                value = tuple(distinct(one, version, place) for place, one in enumerate(value))
            else:
                value = tuple(NTH[row.element](place) for place in range(len(value)))
        elif row.name in {"topic", "name", "resource_name", "group_id"} and value is not None:
            value = f"{value}{place}"
        elif row.name in {"partition", "partition_index", "index"}:
            value = place
        elif row.name == "topic_id":
            value = place.to_bytes(16)
        setattr(message, row.name, value)
    if isinstance(message, ProduceRequest):
        return appending(message)
    return message


def appending(request: Any) -> Any:
    """The Produce request with what Kafka takes for granted: acks (0 gets no response), partitions, records."""
    request.acks = 1
    request.topic_data = tuple(topic for topic in request.topic_data if topic.partition_data)
    for topic in request.topic_data:
        for partition in topic.partition_data:
            partition.records = partition.records or b""
    return request


def known_to_kafka(request: Any) -> None:
    """Give requests about access rules and credentials what Kafka's classes insist on."""
    for row in (request, *getattr(request, "creations", ()), *getattr(request, "filters", ())):
        for name, numbers in ACL_NUMBERS.items():
            if hasattr(row, name):
                setattr(row, name, numbers[getattr(row, name) % len(numbers)])
    if type(request).__name__ == "DescribeUserScramCredentialsRequest":
        request.users = request.users or ()  # null makes Kafka's class fail


ACL_NUMBERS = {
    "resource_type": (2, 3, 4, 5, 6),
    "resource_type_filter": (1, 2, 3, 4, 5, 6),
    "resource_pattern_type": (3, 4),
    "pattern_type_filter": (1, 2, 3, 4),
    "operation": tuple(range(1, 13)),
    "permission_type": (1, 2, 3),
}


def in_order(response: Any) -> Any:
    """The Produce response sorted by topic and partition."""
    for topic in response.responses:
        topic.partition_responses = tuple(sorted(topic.partition_responses, key=attrgetter("index")))
    response.responses = tuple(sorted(response.responses, key=attrgetter("name", "topic_id")))
    return response


def markers_of(response: Any) -> dict[int, dict[tuple[str, int], int]]:
    """The error of each partition by producer id: Kafka has one row of each, the last of the request, ours all of them."""
    return {
        marker.producer_id: {
            (topic.name, row.partition_index): row.error_code for topic in marker.topics for row in topic.partitions
        }
        for marker in response.markers
    }


NTH: dict[str, Callable[[int], Any]] = {
    "int8": int,
    "int32": int,
    "int64": int,
    "string": str,
    "uuid": lambda place: place.to_bytes(16),
}


@pytest.mark.parametrize(
    ("api", "version"), API_VERSIONS, ids=[f"{api.name}-v{version}" for api, version in API_VERSIONS]
)
def test_error_responses_are_those_of_kafkas_request_classes(api: Api, version: int, java: JavaMessages) -> None:
    request_codec, response_codec = codec(api.request_class(), version), codec(api.response_class(), version)

    @settings(few, phases=[Phase.generate])
    @given(
        messages(api.request_class(), version).map(lambda request: distinct(request, version)), st.sampled_from(ERRORS)
    )
    def check(request: Request[Any], error: ErrorCode) -> None:
        known_to_kafka(request)
        theirs, text = java.error_response(api.key, version, request_codec.build(request), error)
        if api.name == "JoinGroup":
            # Made by the request class it names nobody; the coordinator, which makes nearly all of them, echoes the id.
            request.member_id = ""  # type: ignore[attr-defined]
        response = request.error_response(error, version, text if api.name in WITH_A_TEXT else None)
        ours, expected = response_codec.parse(response_codec.build(response))[0], response_codec.parse(theirs)[0]
        if api.name == "Produce":  # Kafka's order is a hash map's, ours the request's
            assert in_order(ours) == in_order(expected)
        elif api.name == "WriteTxnMarkers":  # the same
            assert markers_of(ours) == markers_of(expected)
        else:
            assert ours == expected
            assert response_codec.build(response).hex() == theirs.hex()

    check()


def test_users_of_an_error_response_are_in_the_order_of_java(java: JavaMessages) -> None:
    request = AlterUserScramCredentialsRequest(
        deletions=tuple(ScramCredentialDeletion(name=name, mechanism=1) for name in ("\ue6bf", "\U0005f9ec", "a")),
        upsertions=(),
    )
    theirs, _ = java.error_response(51, 0, codec(type(request), 0).build(request), ErrorCode.NOT_COORDINATOR)
    response = request.error_response(ErrorCode.NOT_COORDINATOR, 0)
    assert [result.user for result in response.results] == ["a", "\U0005f9ec", "\ue6bf"]
    assert codec(type(response), 0).build(response).hex() == theirs.hex()
