"""CreateAcls: new access rules."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kshim.broker.handlers.security.acl_requests import DISABLED, rule_of
from kshim.broker.request import answered, handles
from kshim.coordinator.step import RequestContext, Step, Ticket
from kshim.security.authorizer.model import AclRule
from kshim.storage.log import LogError
from kshim_protocol.errors import ErrorCode, KafkaError
from kshim_protocol.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse

if TYPE_CHECKING:
    from kshim.broker.node import Node


@handles(CreateAclsRequest)
def create_acls(node: Node, request: CreateAclsRequest, context: RequestContext, ticket: Ticket) -> Step:
    """Add the rules that are valid; one that is there already is no error."""
    authorizer = node.cluster.authorizer
    if authorizer is None:
        raise KafkaError(*DISABLED)
    rules: list[AclRule] = []
    results: list[AclCreationResult] = []
    for row in request.creations:
        try:
            rules.append(rule_of(row))
        except KafkaError as error:
            results.append(AclCreationResult(error_code=error.code, error_message=error.message))
        else:
            results.append(AclCreationResult(error_code=ErrorCode.NONE, error_message=""))
    try:
        authorizer.change(add=rules)
    except LogError as error:
        node.cluster.report(error, request)
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR) from None
    return answered(ticket, CreateAclsResponse(results=tuple(results)))
