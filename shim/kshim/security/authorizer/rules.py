"""All access rules, found by the resource they are about."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kshim.security.authorizer.model import WILDCARD, AclRule, PatternType, ResourceType


class AclRules:
    """A set of rules. Finding those of a name costs one look-up a length that prefixes have, not one a rule."""

    def __init__(self, rules: Iterable[AclRule] = ()) -> None:
        self.all: dict[AclRule, None] = {}
        """Every rule, in the order they were made."""
        self._literal: dict[tuple[ResourceType, str], list[AclRule]] = {}
        self._prefixed: dict[tuple[ResourceType, str], list[AclRule]] = {}
        self._prefix_lengths: tuple[int, ...] = ()
        self.replace(rules)

    def replace(self, rules: Iterable[AclRule]) -> None:
        """Forget all rules and take these."""
        self.all = dict.fromkeys(rules)
        self._literal.clear()
        self._prefixed.clear()
        for rule in self.all:
            index = self._prefixed if rule.pattern_type is PatternType.PREFIXED else self._literal
            index.setdefault((rule.resource_type, rule.resource_name), []).append(rule)
        self._prefix_lengths = tuple(sorted({len(name) for _, name in self._prefixed}))

    def about(self, resource_type: ResourceType, name: str) -> Iterator[AclRule]:
        """The rules whose pattern matches that resource."""
        yield from self._literal.get((resource_type, name), ())
        if name != WILDCARD:
            yield from self._literal.get((resource_type, WILDCARD), ())
        for length in self._prefix_lengths:
            if length > len(name):
                break
            yield from self._prefixed.get((resource_type, name[:length]), ())

    def of_type(self, resource_type: ResourceType) -> Iterator[AclRule]:
        """The rules about any resource of that type."""
        return (rule for rule in self.all if rule.resource_type is resource_type)
