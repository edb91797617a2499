"""ApiVersions: what this broker speaks, the same for every client, and the levels of the cluster's features."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from kshim.broker.features import SUPPORTED, Features
from kshim.broker.request import PendingReply, answered, answered_alike, handles
from kshim.coordinator.step import RequestContext, Step
from kshim_protocol.apis import API_TABLE
from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

if TYPE_CHECKING:
    from kshim.broker.node import Node


API_VERSIONS_KEY = 18
PRODUCE_KEY = 0
_LEVEL_0_SINCE = 4
_SUPPORTED_FEATURES = tuple(
    SupportedFeatureKey(name=name, min_version=lowest, max_version=highest)
    for name, (lowest, highest) in SUPPORTED.items()
)
_NAME_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")


@handles(ApiVersionsRequest)
def api_versions(node: Node, request: ApiVersionsRequest, context: RequestContext, ticket: PendingReply) -> Step:
    """List the APIs and the features.

    A feature of level 0 is not finalized; versions before 4 do not show which features are supported from level 0 on
    (checked live on 4.4).
    """
    software = f"{request.client_software_name} {request.client_software_version}".strip() or None
    node.cluster.client_activity.introduced(ticket.connection.client, software, context.now)
    refusal = _refusal(node, request, context.api_version)
    if refusal is not None:
        return answered(ticket, refusal)
    features = node.cluster.features
    return answered_alike(ticket, (features.epoch, features.levels), lambda: _answer(features, context.api_version))


def _refusal(node: Node, request: ApiVersionsRequest, version: int) -> ApiVersionsResponse | None:
    if version >= 3 and not (
        is_software_name(request.client_software_name) and is_software_name(request.client_software_version)
    ):
        return request.error_response(ErrorCode.INVALID_REQUEST, version)
    if version >= 5:
        # KIP-1242: both ids or none; each alone is refused by a live 4.4.
        if (request.cluster_id is None) != (request.node_id == -1):
            return request.error_response(ErrorCode.INVALID_REQUEST, version)
        if request.cluster_id is not None and (request.cluster_id, request.node_id) != (
            node.cluster.cluster_id,
            node.node_id,
        ):
            return request.error_response(ErrorCode.REBOOTSTRAP_REQUIRED, version)
    return None


def _answer(features: Features, version: int) -> ApiVersionsResponse:
    return ApiVersionsResponse(
        error_code=ErrorCode.NONE,
        api_keys=listed_versions(),
        supported_features=_SUPPORTED_FEATURES if version >= _LEVEL_0_SINCE else (),
        finalized_features_epoch=features.epoch,
        finalized_features=tuple(
            FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
            for name, level in features.levels.items()
            if level > 0
        ),
    )


def unsupported_version() -> ApiVersionsResponse:
    """The v0 response to an unknown version of ApiVersions (KIP-511): only the versions to retry with."""
    api = API_TABLE[API_VERSIONS_KEY]
    return ApiVersionsResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION,
        api_keys=(ApiVersion(api_key=api.key, min_version=api.min_version, max_version=api.max_version),),
    )


@cache
def listed_versions() -> tuple[ApiVersion, ...]:
    """Every API served, by key.

    Produce is listed from 0 though it starts at 3, as Kafka does: librdkafka takes a missing 0 for a missing feature.
    """
    return tuple(
        ApiVersion(
            api_key=key,
            min_version=0 if key == PRODUCE_KEY else api.min_version,
            max_version=api.max_version,
        )
        for key, api in sorted(API_TABLE.items())
    )


def is_software_name(name: str) -> bool:
    """Whether it follows KIP-511: letters, digits, '-' and '.', the last two not at the ends.

    >>> is_software_name("kafka-python"), is_software_name("-x"), is_software_name("")
    (True, False, False)
    """
    return (
        name[:1] in _NAME_CHARACTERS
        and name[-1:] in _NAME_CHARACTERS
        and _NAME_CHARACTERS.issuperset(name.replace("-", "").replace(".", ""))
    )
