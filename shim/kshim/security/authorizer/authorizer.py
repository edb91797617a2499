"""Authorization with ACLs, as Kafka's StandardAuthorizer. Pure: rules in, decisions out."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING, NamedTuple

from kshim.config.broker_config import ConfigError
from kshim.security.authorizer.document import ACLS_DOCUMENT, read_rules, rules_text
from kshim.security.authorizer.model import (
    CLUSTER_NAME,
    SUPPORTED_OPERATIONS,
    WILDCARD,
    AclRule,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from kshim.security.authorizer.rules import AclRules
from kshim.storage.log import LogError

if TYPE_CHECKING:
    from kshim.config.broker_config import BrokerConfig
    from kshim.storage.storage import Storage

STANDARD_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"

_CACHED_DECISIONS = 10_000
_CACHED_NAME_LENGTH = 249
"""Longer names are not those of topics; they are not cached, so that clients cannot exhaust the memory."""


class Authorizer:
    """Decides by rules: a superuser may do everything; else a rule that denies wins, then one that allows.

    Without any rule about a resource `allows_unruled` decides (allow.everyone.if.no.acl.found). `save` keeps the rules
    and is called before they count; it raises LogError when it cannot.
    """

    def __init__(
        self,
        rules: Iterable[AclRule] = (),
        *,
        super_users: Collection[str] = (),
        allows_unruled: bool = False,
        save: Callable[[Iterable[AclRule]], None] = lambda rules: None,
    ) -> None:
        self.rules = AclRules(rules)
        self._super_users = frozenset(super_users)
        self._allows_unruled = allows_unruled
        self._save = save
        self._decided: dict[tuple[str, str, Operation, ResourceType, str], bool] = {}

    @classmethod
    def configured(cls, config: BrokerConfig, storage: Storage) -> Authorizer | None:
        """The one that a configuration asks for, with the rules that its storage holds; None: none is asked for.

        Raises LogError when the rules cannot be read, without which no decision is possible; ConfigError.
        """
        name = config.given.get("authorizer.class.name", "").strip()
        if not name:
            return None
        if name != STANDARD_AUTHORIZER:
            raise ConfigError("authorizer.class.name", name, STANDARD_AUTHORIZER)
        text = storage.read_document(ACLS_DOCUMENT)
        try:
            rules = [] if text is None else read_rules(text)
        except ValueError as error:
            raise LogError(f"{ACLS_DOCUMENT} in the data directory is damaged: {error}") from error
        return cls(
            rules,
            super_users=super_users(config.super_users),
            allows_unruled=config.allow_everyone_if_no_acl_found,
            save=lambda changed: storage.write_document(ACLS_DOCUMENT, rules_text(changed)),
        )

    @property
    def locks_everybody_out(self) -> bool:
        """Whether every request is refused, also those that create rules."""
        return not (self._super_users or self.rules.all or self._allows_unruled)

    def allows(self, principal: str, host: str, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        """Whether `principal`, calling from `host` (an address without slash), may do that."""
        question = (principal, host, operation, resource_type, name)
        decision = self._decided.get(question)
        if decision is None:
            decision = self._decide(*question)
            if len(name) <= _CACHED_NAME_LENGTH:
                if len(self._decided) >= _CACHED_DECISIONS:
                    self._decided.clear()
                self._decided[question] = decision
        return decision

    @property
    def remembered_bytes(self) -> int:
        """About how much memory the names of remembered decisions take."""
        return sum(len(principal) + len(name) for principal, _, _, _, name in self._decided)

    def _decide(self, principal: str, host: str, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        if principal in self._super_users:
            return True
        has_rules = is_allowed = False
        for rule in self.rules.about(resource_type, name):
            has_rules = True
            if rule.decides(principal, host, operation):
                if rule.permission is Permission.DENY:
                    return False
                is_allowed = True
        return is_allowed or (not has_rules and self._allows_unruled)

    def allows_some(self, principal: str, host: str, operation: Operation, resource_type: ResourceType) -> bool:
        """Whether there may be a resource of that type on which it may do that. Kafka: authorizeByResourceType.

        Implied operations do not count here, as in Kafka.
        """
        if self.allows(principal, host, operation, resource_type, "hardcode"):
            return True
        rules = [
            rule
            for rule in self.rules.of_type(resource_type)
            if rule.operation in (operation, Operation.ALL) and rule.decides(principal, host, operation)
        ]
        denied = {(rule.pattern_type, rule.resource_name) for rule in rules if rule.permission is Permission.DENY}
        if (PatternType.LITERAL, WILDCARD) in denied:
            return False
        prefixes = [name for pattern_type, name in denied if pattern_type is PatternType.PREFIXED]
        for rule in rules:
            if rule.permission is Permission.DENY:
                continue
            name = rule.resource_name
            if rule.pattern_type is PatternType.LITERAL:
                if name == WILDCARD:
                    return True
                if (PatternType.LITERAL, name) in denied:
                    continue
            if not any(name.startswith(prefix) for prefix in prefixes):
                return True
        return False

    def change(self, add: Iterable[AclRule] = (), remove: Collection[AclRule] = ()) -> None:
        """Add and remove rules: all or, when they cannot be saved, none (LogError)."""
        kept = [rule for rule in self.rules.all if rule not in remove]
        rules = list(dict.fromkeys([*kept, *add]))
        self._save(rules)
        self.rules.replace(rules)
        self._decided.clear()


class Caller(NamedTuple):
    """The principal and the host of one request."""

    authorizer: Authorizer
    principal: str
    host: str

    def may(self, operation: Operation, resource_type: ResourceType, name: str = CLUSTER_NAME) -> bool:
        """See `Authorizer.allows`."""
        return self.authorizer.allows(self.principal, self.host, operation, resource_type, name)

    def may_some(self, operation: Operation, resource_type: ResourceType) -> bool:
        """See `Authorizer.allows_some`."""
        return self.authorizer.allows_some(self.principal, self.host, operation, resource_type)

    def operations(self, resource_type: ResourceType, name: str = CLUSTER_NAME) -> int:
        """The bit field of what it may do with a resource (KIP-430): bit n is operation n."""
        return sum(
            1 << operation
            for operation in SUPPORTED_OPERATIONS[resource_type]
            if self.may(operation, resource_type, name)
        )


def super_users(text: str) -> list[str]:
    """The principals of `super.users`, TYPE:NAME each with semicolons between. Raises ConfigError for another form.

    >>> super_users("User:admin; User:CN=ops,O=Acme")
    ['User:admin', 'User:CN=ops,O=Acme']
    """
    principals = [part.strip() for part in text.split(";") if part.strip()]
    for principal in principals:
        kind, colon, name = principal.partition(":")
        if not (kind and colon and name):
            raise ConfigError("super.users", text, "TYPE:NAME, several separated by semicolons")
    return principals
