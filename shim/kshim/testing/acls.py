"""Access rules in the short form of `Kshim(acls=...)`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from kshim.testing.arguments import check_text

if TYPE_CHECKING:
    from kshim.security.authorizer.model import AclRule

SUPER_USER: Final = "super"
_EVERYBODY: Final = "*"
_ANONYMOUS: Final = "ANONYMOUS"
_FORM: Final = (
    "'OPERATION TYPE:NAME', such as 'READ topic:orders', 'READ,WRITE topic:billing-*', 'ALL group:*', "
    "'CREATE cluster' or 'DENY DELETE topic:orders'; or 'super' instead of rules"
)


class Access(NamedTuple):
    """Who may do everything, and what the others may."""

    super_users: list[str]
    rules: list[AclRule]


def parse_acls(acls: Mapping[str, str | Iterable[str]], users: Collection[str]) -> Access:
    """The rules of each user. Raises TypeError, ValueError.

    A user is one of `users`, `*` for everybody, `ANONYMOUS` where there are no users, or a principal such as `User:CN=ann`. A
    rule is as `_FORM` says: operations and types are those of Kafka, in any case; a name that ends with `*` stands for all
    that begin so.
    """
    if not isinstance(acls, Mapping):
        raise TypeError(f"acls must map users to rules, such as {{'ann': ['READ topic:orders']}}, not {acls!r}")
    access = Access([], [])
    for user, rules in acls.items():
        check_text("acls: a user", user)
        if not isinstance(rules, Iterable):
            raise TypeError(
                f"acls: {user} must have a list of rules, such as ['READ topic:orders'], or 'super', not {rules!r}"
            )
        principal = user if ":" in user else f"User:{user}"
        if rules == SUPER_USER:
            access.super_users.append(principal)
            continue
        for text in [rules] if isinstance(rules, str) else rules:
            access.rules.extend(_rules(principal, text))
    for user in acls:
        _check_user(user, users)
    return access


def _check_user(user: str, users: Collection[str]) -> None:
    """Raises ValueError."""
    if ":" in user or user in users or user == _EVERYBODY:
        return
    if users:
        known = ", ".join(users)
        raise ValueError(f"acls: there is no user {user}; users has {known}, and '*' is everybody")
    if user != _ANONYMOUS:
        raise ValueError(
            f"acls: there is no user {user}: give passwords with users={{{user!r}: ...}}; without users every client is ANONYMOUS"
        )


def _rules(principal: str, text: object) -> Iterator[AclRule]:
    from kshim.security.authorizer.model import CLUSTER_NAME, AclRule, Operation, PatternType, Permission, ResourceType

    if not isinstance(text, str):
        raise TypeError(f"acls: a rule must be a string, {_FORM}; not {text!r}")
    words = text.split()
    permission = Permission.ALLOW
    if words and words[0].upper() in ("ALLOW", "DENY"):
        permission = Permission[words.pop(0).upper()]
    if len(words) != 2:
        raise ValueError(f"acls: {text!r} is no rule: {_FORM}")
    kind, colon, name = words[1].partition(":")
    types = {each.name: each for each in ResourceType if each > ResourceType.ANY}
    type_name = "TRANSACTIONAL_ID" if kind.lower() in ("transactional-id", "transactionalid") else kind.upper()
    if type_name not in types or (not name and type_name != "CLUSTER") or (colon and not name):
        raise ValueError(f"acls: {text!r}: the resource must be TYPE:NAME, with one of {', '.join(types).lower()}")
    resource = types[type_name]
    pattern = PatternType.LITERAL
    if resource is ResourceType.CLUSTER:
        name = CLUSTER_NAME
    elif name.endswith("*") and name != "*":
        pattern, name = PatternType.PREFIXED, name[:-1]
    operations = {each.name: each for each in Operation if each > Operation.ANY}
    for word in words[0].split(","):
        operation = operations.get(word.upper())
        if operation is None:
            raise ValueError(f"acls: {text!r}: {word} is no operation; these are: {', '.join(operations)}")
        yield AclRule(resource, name, pattern, principal, "*", operation, permission)
