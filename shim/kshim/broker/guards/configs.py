"""Configurations: each resource by what it belongs to."""

from __future__ import annotations

from typing import Any, Final

from kshim.broker.guards.guard import WORDS, Call, changed, guards
from kshim.coordinator.step import Step
from kshim.security.authorizer.model import CLUSTER_NAME, Operation, ResourceType
from kshim_protocol.errors import ErrorCode

_KINDS: Final = {
    2: (ResourceType.TOPIC, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    32: (ResourceType.GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED),
}
"""ConfigResource.Type -> what its names are; any other kind (broker, logger, client metrics) is the cluster's."""
_CLUSTER: Final = (ResourceType.CLUSTER, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


@guards("DescribeConfigs")
def describe_configs(call: Call) -> Step:
    """DESCRIBE_CONFIGS on each resource."""
    return _each(call, Operation.DESCRIBE_CONFIGS, "results")


@guards("AlterConfigs", "IncrementalAlterConfigs")
def alter_configs(call: Call) -> Step:
    """ALTER_CONFIGS on each resource."""
    return _each(call, Operation.ALTER_CONFIGS, "responses")


def _each(call: Call, operation: Operation, answers: str) -> Step:
    allowed = []
    refused: list[Any] = []
    for row in call.request.resources:
        resource_type, error = _KINDS.get(row.resource_type, _CLUSTER)
        name = CLUSTER_NAME if resource_type is ResourceType.CLUSTER else row.resource_name
        if call.caller.may(operation, resource_type, name):
            allowed.append(row)
        else:
            refusal = changed(call.request, resources=(row,)).error_response(error, call.version, WORDS[error])
            refused.extend(getattr(refusal, answers))
    if not refused:
        return call.proceed()
    return call.proceed(
        changed(call.request, resources=tuple(allowed)),
        lambda response: changed(response, **{answers: (*getattr(response, answers), *refused)}),
    )


@guards("ListConfigResources")
def list_config_resources(call: Call) -> Step:
    """DESCRIBE_CONFIGS on the cluster."""
    if call.caller.may(Operation.DESCRIBE_CONFIGS, ResourceType.CLUSTER):
        return call.proceed()
    return call.refuse(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
