"""The cluster as a whole: coordinators, transaction markers, and what may be done with it."""

from __future__ import annotations

from typing import Any, Final

from kshim.broker.authorized_operations import NOT_ASKED
from kshim.broker.guards.guard import Call, Rows, changed, guards
from kshim.broker.guards.topics import cluster_operations
from kshim.coordinator.step import Step
from kshim.security.authorizer.model import CLUSTER_NAME, Operation, ResourceType

_KEY_TYPES: Final = {
    0: (Operation.DESCRIBE, ResourceType.GROUP),
    1: (Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID),
    2: (Operation.CLUSTER_ACTION, ResourceType.CLUSTER),
}
"""FindCoordinator's key types: group, transaction, share."""


@guards("FindCoordinator")
def find_coordinator(call: Call) -> Step:
    """DESCRIBE on each group or transactional id."""
    request = call.request
    if request.key_type not in _KEY_TYPES:  # the handler says that there is no such type
        return call.proceed()
    operation, resource_type = _KEY_TYPES[request.key_type]
    if call.version >= 4:
        return call.split(Rows("coordinator_keys", "coordinators", operation, resource_type))
    return call.proceed_if(
        operation, resource_type, CLUSTER_NAME if resource_type is ResourceType.CLUSTER else request.key
    )


@guards("DescribeCluster")
def describe_cluster(call: Call) -> Step:
    """For all clients; the operations allowed on the cluster are shown to callers that may DESCRIBE it."""

    def merge(response: Any) -> Any:
        if response.cluster_authorized_operations == NOT_ASKED:
            return response
        return changed(response, cluster_authorized_operations=cluster_operations(call))

    return call.proceed(merge=merge)


@guards("UpdateFeatures")
def update_features(call: Call) -> Step:
    """ALTER on the cluster."""
    return call.proceed_if(Operation.ALTER, ResourceType.CLUSTER)


@guards("WriteTxnMarkers")
def write_txn_markers(call: Call) -> Step:
    """CLUSTER_ACTION on the cluster, or ALTER, as for administrators who abort a hanging transaction."""
    if call.may(Operation.ALTER, ResourceType.CLUSTER):
        return call.proceed()
    return call.proceed_if(Operation.CLUSTER_ACTION, ResourceType.CLUSTER)
