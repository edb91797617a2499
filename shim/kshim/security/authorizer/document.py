"""The rules as they are kept in the data directory: `acls.json`."""

from __future__ import annotations

import json
from collections.abc import Iterable

from kshim.security.authorizer.model import AclRule, Operation, PatternType, Permission, ResourceType

ACLS_DOCUMENT = "acls.json"
_VERSION = 1


def rules_text(rules: Iterable[AclRule]) -> str:
    """All rules as JSON, one a line, in Kafka's words."""
    lines = ",\n".join(json.dumps(_row(rule), ensure_ascii=False) for rule in rules)
    return f'{{"version": {_VERSION}, "acls": [\n{lines}\n]}}\n'


def read_rules(text: str) -> list[AclRule]:
    """The rules of a document. Raises ValueError for one that is damaged or of a newer version."""
    try:
        document = json.loads(text)
        if document["version"] != _VERSION:
            raise ValueError(f"unknown version {document['version']}")
        return [
            AclRule(
                ResourceType[row["resourceType"]],
                _text(row["name"]),
                PatternType[row["patternType"]],
                _text(row["principal"]),
                _text(row["host"]),
                Operation[row["operation"]],
                Permission[row["permissionType"]],
            )
            for row in document["acls"]
        ]
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not a list of ACLs: {error!r}") from error


def _row(rule: AclRule) -> dict[str, str]:
    return {
        "resourceType": rule.resource_type.name,
        "name": rule.resource_name,
        "patternType": rule.pattern_type.name,
        "principal": rule.principal,
        "host": rule.host,
        "operation": rule.operation.name,
        "permissionType": rule.permission.name,
    }


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a string")
    return value
