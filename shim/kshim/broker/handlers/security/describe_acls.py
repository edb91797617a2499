"""DescribeAcls: the access rules that match a filter."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kshim.broker.handlers.security.acl_requests import DISABLED, wanted_by
from kshim.broker.request import answered, handles
from kshim.coordinator.step import RequestContext, Step, Ticket
from kshim_protocol.errors import ErrorCode, KafkaError
from kshim_protocol.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)

if TYPE_CHECKING:
    from kshim.broker.node import Node


@handles(DescribeAclsRequest)
def describe_acls(node: Node, request: DescribeAclsRequest, context: RequestContext, ticket: Ticket) -> Step:
    """The rules by their resource pattern."""
    authorizer = node.cluster.authorizer
    if authorizer is None:
        raise KafkaError(*DISABLED)
    wanted = wanted_by(request)
    by_pattern: dict[tuple[int, str, int], list[AclDescription]] = {}
    for rule in authorizer.rules.all:
        if wanted.matches(rule):
            by_pattern.setdefault((rule.resource_type, rule.resource_name, rule.pattern_type), []).append(
                AclDescription(
                    principal=rule.principal,
                    host=rule.host,
                    operation=rule.operation,
                    permission_type=rule.permission,
                )
            )
    resources = tuple(
        DescribeAclsResource(resource_type=kind, resource_name=name, pattern_type=pattern_type, acls=tuple(acls))
        for (kind, name, pattern_type), acls in by_pattern.items()
    )
    return answered(ticket, DescribeAclsResponse(error_code=ErrorCode.NONE, error_message="", resources=resources))
