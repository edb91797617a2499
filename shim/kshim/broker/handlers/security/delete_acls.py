"""DeleteAcls: removes the access rules that match filters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kshim.broker.handlers.security.acl_requests import DISABLED, check_known, wanted_by
from kshim.broker.request import answered, handles
from kshim.coordinator.step import RequestContext, Step, Ticket
from kshim.security.authorizer.model import AclRule
from kshim.storage.log import LogError
from kshim_protocol.errors import ErrorCode, KafkaError
from kshim_protocol.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)

if TYPE_CHECKING:
    from kshim.broker.node import Node


@handles(DeleteAclsRequest)
def delete_acls(node: Node, request: DeleteAclsRequest, context: RequestContext, ticket: Ticket) -> Step:
    """Remove them all at once; a rule that two filters match is named by the first."""
    authorizer = node.cluster.authorizer
    if authorizer is None:
        raise KafkaError(*DISABLED)
    gone: set[AclRule] = set()
    results = []
    for wanted in [wanted_by(row) for row in request.filters]:
        try:
            check_known(wanted)
        except KafkaError as error:
            results.append(DeleteAclsFilterResult(error_code=error.code, error_message=error.message, matching_acls=()))
            continue
        found = [rule for rule in authorizer.rules.all if rule not in gone and wanted.matches(rule)]
        gone.update(found)
        results.append(
            DeleteAclsFilterResult(
                error_code=ErrorCode.NONE, error_message="", matching_acls=tuple(_removed(rule) for rule in found)
            )
        )
    try:
        if gone:
            authorizer.change(remove=gone)
    except LogError as error:
        node.cluster.report(error, request)
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR) from None
    return answered(ticket, DeleteAclsResponse(filter_results=tuple(results)))


def _removed(rule: AclRule) -> DeleteAclsMatchingAcl:
    return DeleteAclsMatchingAcl(
        error_code=ErrorCode.NONE,
        error_message=None,
        resource_type=rule.resource_type,
        resource_name=rule.resource_name,
        pattern_type=rule.pattern_type,
        principal=rule.principal,
        host=rule.host,
        operation=rule.operation,
        permission_type=rule.permission,
    )
