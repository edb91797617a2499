"""Kafka's access rules: resources, operations, patterns. Numbers are those on the wire (KIP-11, KIP-140, KIP-290)."""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple

WILDCARD: Final = "*"
WILDCARD_PRINCIPAL: Final = "User:*"
CLUSTER_NAME: Final = "kafka-cluster"
"""The one name of a resource of type CLUSTER."""


class ResourceType(IntEnum):
    """What a rule is about. ANY is for filters. UNKNOWN is a number of the future."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    """How the name of a rule is meant. ANY and MATCH are for filters. UNKNOWN is a number of the future."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Operation(IntEnum):
    """What is done. ANY is for filters, ALL for rules. UNKNOWN is a number of the future."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class Permission(IntEnum):
    """What a rule says. ANY is for filters. UNKNOWN is a number of the future."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


_O = Operation
SUPPORTED_OPERATIONS: Final[dict[ResourceType, tuple[Operation, ...]]] = {
    ResourceType.TOPIC: (
        _O.READ, _O.WRITE, _O.CREATE, _O.DELETE, _O.ALTER, _O.DESCRIBE, _O.DESCRIBE_CONFIGS, _O.ALTER_CONFIGS
    ),
    ResourceType.GROUP: (_O.READ, _O.DELETE, _O.DESCRIBE, _O.DESCRIBE_CONFIGS, _O.ALTER_CONFIGS),
    ResourceType.CLUSTER: (
        _O.CREATE, _O.ALTER, _O.DESCRIBE, _O.CLUSTER_ACTION, _O.DESCRIBE_CONFIGS, _O.ALTER_CONFIGS, _O.IDEMPOTENT_WRITE
    ),
    ResourceType.TRANSACTIONAL_ID: (_O.WRITE, _O.DESCRIBE, _O.TWO_PHASE_COMMIT),
    ResourceType.DELEGATION_TOKEN: (_O.DESCRIBE,),
    ResourceType.USER: (_O.CREATE_TOKENS, _O.DESCRIBE_TOKENS),
}  # fmt: skip
"""The operations in the bit fields of authorized operations (AclEntry.supportedOperations)."""

ALLOWS_TOO: Final[dict[Operation, frozenset[Operation]]] = {
    _O.DESCRIBE: frozenset({_O.READ, _O.WRITE, _O.DELETE, _O.ALTER}),
    _O.DESCRIBE_CONFIGS: frozenset({_O.ALTER_CONFIGS}),
}
"""Operation -> those that imply it, in rules that allow; rules that deny imply nothing."""


class AclRule(NamedTuple):
    """One rule. `principal` is TYPE:NAME, `host` an address or *; Kafka: AclBinding."""

    resource_type: ResourceType
    resource_name: str
    pattern_type: PatternType
    principal: str
    host: str
    operation: Operation
    permission: Permission

    def decides(self, principal: str, host: str, operation: Operation) -> bool:
        """Whether it says something about that, on a resource it is about."""
        if self.principal not in (principal, WILDCARD_PRINCIPAL) or self.host not in (host, WILDCARD):
            return False
        if self.operation in (operation, Operation.ALL):
            return True
        return self.permission is Permission.ALLOW and self.operation in ALLOWS_TOO.get(operation, ())


class AclFilter(NamedTuple):
    """What rules to find; None and ANY stand for everything. Kafka: AclBindingFilter, ResourcePatternFilter."""

    resource_type: ResourceType
    resource_name: str | None
    pattern_type: PatternType
    principal: str | None
    host: str | None
    operation: Operation
    permission: Permission

    def matches(self, rule: AclRule) -> bool:
        """Whether `rule` is one of them."""
        return (
            self.resource_type in (ResourceType.ANY, rule.resource_type)
            and self._has_name_of(rule)
            and self.principal in (None, rule.principal)
            and self.host in (None, rule.host)
            and self.operation in (Operation.ANY, rule.operation)
            and self.permission in (Permission.ANY, rule.permission)
        )

    def _has_name_of(self, rule: AclRule) -> bool:
        if self.pattern_type not in (PatternType.ANY, PatternType.MATCH, rule.pattern_type):
            return False
        name = self.resource_name
        if name is None or name == rule.resource_name:
            return True
        if self.pattern_type is not PatternType.MATCH:
            return False
        if rule.pattern_type is PatternType.PREFIXED:
            return name.startswith(rule.resource_name)
        return rule.resource_name == WILDCARD
