"""Frames captured between real clients and Kafka 4.4.0 are read as Kafka reads them and built again byte for byte."""

from __future__ import annotations

from typing import Any

import pytest

from kshim_protocol.apis import API_TABLE
from kshim_protocol.codec import codec
from kshim_protocol.frame import build_request_frame, build_response_frame, parse_request_header
from tests.protocol import golden

API_VERSIONS = 18
NOT_SPOKEN = {24, 25, 26, 28}
"""APIs in the samples that this broker does not have (transactions)."""

SAMPLES = [sample for sample in golden.load("wire.json")["samples"] if sample["apiKey"] not in NOT_SPOKEN]
REQUESTS = [sample for sample in SAMPLES if sample["direction"] == "request"]
RESPONSES = [sample for sample in SAMPLES if sample["direction"] == "response"]


def names(samples: list[dict[str, Any]]) -> list[str]:
    return [f"{sample['api']}-v{sample['version']}-{n}" for n, sample in enumerate(samples)]


@pytest.mark.parametrize("sample", REQUESTS, ids=names(REQUESTS))
def test_a_captured_request_is_read_and_built_again(sample: dict[str, Any]) -> None:
    frame = bytes.fromhex(sample["hex"])
    api, version = API_TABLE[sample["apiKey"]], sample["version"]
    header = parse_request_header(frame, flexible=api.is_flexible(version))
    assert (header.api_key, header.api_version) == (api.key, version)
    tested = codec(api.request_class(), version)
    request, end = tested.parse(frame, header.body_at)
    assert end == len(frame)
    assert golden.as_decoded(request, sample["decoded"]) == sample["decoded"]
    for body in (tested.build(request), tested.build_interpreted(request)):
        again = build_request_frame(
            api.key, version, header.correlation_id, header.client_id, body, flexible=api.is_flexible(version)
        )
        assert again == len(frame).to_bytes(4) + frame


@pytest.mark.parametrize("sample", RESPONSES, ids=names(RESPONSES))
def test_a_captured_response_is_read_and_built_again(sample: dict[str, Any]) -> None:
    frame = bytes.fromhex(sample["hex"])
    api, version = API_TABLE[sample["apiKey"]], sample["version"]
    has_tags = api.is_flexible(version) and api.key != API_VERSIONS
    correlation_id = int.from_bytes(frame[:4])
    tested = codec(api.response_class(), version)
    response, end = tested.parse(frame, 5 if has_tags else 4)
    assert end == len(frame)
    assert golden.as_decoded(response, sample["decoded"]) == sample["decoded"]
    for body in (tested.build(response), tested.build_interpreted(response)):
        assert build_response_frame(correlation_id, body, flexible=has_tags) == len(frame).to_bytes(4) + frame


def test_the_samples_cover_every_group_api() -> None:
    covered = {sample["api"] for sample in SAMPLES}
    assert covered >= {
        "ApiVersions", "DeleteGroups", "DescribeGroups", "FindCoordinator", "Heartbeat", "InitProducerId", "JoinGroup",
        "LeaveGroup", "ListGroups", "Metadata", "OffsetCommit", "OffsetFetch", "SyncGroup",
    }  # fmt: skip
