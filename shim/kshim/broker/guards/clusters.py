"""The cluster as a whole: coordinators, access rules, credentials, reassignments, quotas."""

from __future__ import annotations

from typing import Any, Final

from kshim.broker.authorized_operations import NOT_ASKED
from kshim.broker.guards.guard import WORDS, Call, changed, guards
from kshim.broker.guards.topics import cluster_operations
from kshim.coordinator.step import Step
from kshim.security.authorizer.model import CLUSTER_NAME, Operation, ResourceType
from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.find_coordinator import FindCoordinatorResponse

CLUSTER = ResourceType.CLUSTER

_KEY_TYPES: Final = {
    0: (Operation.DESCRIBE, ResourceType.GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED),
    1: (Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
    2: (Operation.CLUSTER_ACTION, CLUSTER, ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
}
"""FindCoordinator's key types: group, transaction, share."""


@guards("FindCoordinator")
def find_coordinator(call: Call) -> Step:
    """DESCRIBE on each group or transactional id."""
    request = call.request
    kind = _KEY_TYPES.get(request.key_type)
    if kind is None:  # the handler says that there is no such type
        return call.proceed()
    operation, resource_type, error = kind

    def may(key: str) -> bool:
        return call.caller.may(operation, resource_type, CLUSTER_NAME if resource_type is CLUSTER else key)

    if call.version < 4:
        return call.proceed() if may(request.key) else call.refuse(error)
    allowed = tuple(key for key in request.coordinator_keys if may(key))
    refused = tuple(key for key in request.coordinator_keys if key not in allowed)
    if not refused:
        return call.proceed()
    rows = changed(request, coordinator_keys=refused).error_response(error, call.version, WORDS[error]).coordinators
    if not allowed:
        return call.answer(FindCoordinatorResponse(coordinators=rows))
    return call.proceed(
        changed(request, coordinator_keys=allowed),
        lambda response: changed(response, coordinators=(*response.coordinators, *rows)),
    )


@guards("DescribeCluster")
def telling_operations(call: Call) -> Step:
    """For all clients; the operations allowed on the cluster are shown to callers that may DESCRIBE it."""

    def merge(response: Any) -> Any:
        if response.cluster_authorized_operations == NOT_ASKED:
            return response
        return changed(response, cluster_authorized_operations=cluster_operations(call))

    return call.proceed(merge=merge)


def _whole(call: Call, operation: Operation) -> Step:
    if call.caller.may(operation, CLUSTER):
        return call.proceed()
    return call.refuse(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


@guards("DescribeAcls", "DescribeUserScramCredentials", "DescribeLogDirs", "ListPartitionReassignments")
def describing(call: Call) -> Step:
    """DESCRIBE on the cluster."""
    return _whole(call, Operation.DESCRIBE)


@guards("CreateAcls", "DeleteAcls", "AlterUserScramCredentials", "ElectLeaders", "AlterPartitionReassignments")
def alter_cluster(call: Call) -> Step:
    """ALTER on the cluster."""
    return _whole(call, Operation.ALTER)


@guards("WriteTxnMarkers")
def acting_as_broker(call: Call) -> Step:
    """CLUSTER_ACTION on the cluster, or ALTER, as for administrators who abort a hanging transaction."""
    if call.caller.may(Operation.ALTER, CLUSTER):
        return call.proceed()
    return _whole(call, Operation.CLUSTER_ACTION)


@guards("AlterClientQuotas")
def altering_configs(call: Call) -> Step:
    """ALTER_CONFIGS on the cluster."""
    return _whole(call, Operation.ALTER_CONFIGS)


@guards("DescribeClientQuotas")
def describing_configs(call: Call) -> Step:
    """DESCRIBE_CONFIGS on the cluster."""
    return _whole(call, Operation.DESCRIBE_CONFIGS)
