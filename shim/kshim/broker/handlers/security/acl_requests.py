"""Access rules and filters as requests carry them."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, TypeVar

from kshim.broker.connection import ConnectionClosing
from kshim.security.authorizer.model import (
    CLUSTER_NAME,
    AclFilter,
    AclRule,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from kshim_protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from kshim_protocol.messages.create_acls import AclCreation
    from kshim_protocol.messages.delete_acls import DeleteAclsFilter
    from kshim_protocol.messages.describe_acls import DescribeAclsRequest


DISABLED = (ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")
"""The answer of a broker without access rules."""

E = TypeVar("E", bound=IntEnum)


def rule_of(row: AclCreation) -> AclRule:
    """The rule to create.

    Raises KafkaError (INVALID_REQUEST) for one that Kafka's AclControlManager refuses; ConnectionClosing for a 0 where
    a number should be. ANY in a rule is refused too, where Kafka fails with UNKNOWN_SERVER_ERROR.
    """
    rule = AclRule(
        _known(ResourceType, row.resource_type),
        row.resource_name,
        _known(PatternType, row.resource_pattern_type),
        row.principal,
        row.host,
        _known(Operation, row.operation),
        _known(Permission, row.permission_type),
    )
    if rule.resource_type is ResourceType.CLUSTER and rule.resource_name != CLUSTER_NAME:
        raise _invalid(f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")
    if not rule.resource_name:
        raise _invalid("Invalid empty resource name")
    if rule.resource_type in (ResourceType.ANY, ResourceType.UNKNOWN):
        raise _invalid(f"Invalid resourceType {rule.resource_type.name}")
    if rule.pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        raise _invalid(f"Invalid patternType {rule.pattern_type.name}")
    if rule.operation in (Operation.ANY, Operation.UNKNOWN):
        raise _invalid(f"Invalid operation {rule.operation.name}")
    if rule.permission in (Permission.ANY, Permission.UNKNOWN):
        raise _invalid(f"Invalid permissionType {rule.permission.name}")
    if not rule.host:
        raise _invalid("Host pattern cannot be null or empty")
    if ":" not in rule.principal:
        raise _invalid(
            f"Could not parse principal from `{rule.principal}` (no colon is present separating the principal type "
            "from the principal name)"
        )
    return rule


def wanted_by(row: DescribeAclsRequest | DeleteAclsFilter) -> AclFilter:
    """The filter of a request. Raises ConnectionClosing for a 0 where a number should be."""
    return AclFilter(
        _known(ResourceType, row.resource_type_filter),
        row.resource_name_filter,
        _known(PatternType, row.pattern_type_filter),
        row.principal_filter,
        row.host_filter,
        _known(Operation, row.operation),
        _known(Permission, row.permission_type),
    )


def check_known(wanted: AclFilter) -> None:
    """Rules are not deleted by half a filter. Raises KafkaError (INVALID_REQUEST) when a part of it is unknown."""
    if wanted.resource_type is ResourceType.UNKNOWN or wanted.pattern_type is PatternType.UNKNOWN:
        raise _invalid("Unknown patternFilter.")
    if wanted.operation is Operation.UNKNOWN or wanted.permission is Permission.UNKNOWN:
        raise _invalid("Unknown entryFilter.")


def _known(numbers: type[E], number: int) -> E:
    if number == 0:
        raise ConnectionClosing(f"an ACL without {numbers.__name__}")
    try:
        return numbers(number)
    except ValueError:
        return numbers(0)


def _invalid(reason: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, reason)
