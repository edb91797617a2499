"""The authorizer that a configuration asks for, with the rules that its storage holds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kshim.config.broker_config import ConfigError
from kshim.security.authorizer.authorizer import Authorizer
from kshim.security.authorizer.document import ACLS_DOCUMENT, read_rules, rules_text
from kshim.security.authorizer.model import AclRule
from kshim.storage.log import LogError

if TYPE_CHECKING:
    from kshim.config.broker_config import BrokerConfig
    from kshim.partitions.topics import Storage


STANDARD_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


def make_authorizer(config: BrokerConfig, storage: Storage) -> Authorizer:
    """Raises LogError when the rules cannot be read, without which nobody knows who may do what; ConfigError."""
    name = config.given["authorizer.class.name"]
    if name.strip() != STANDARD_AUTHORIZER:
        raise ConfigError("authorizer.class.name", name, STANDARD_AUTHORIZER)
    text = storage.read_document(ACLS_DOCUMENT)
    try:
        rules = [] if text is None else read_rules(text)
    except ValueError as error:
        raise LogError(f"{ACLS_DOCUMENT} in the data directory is damaged: {error}") from error

    def save(changed: Iterable[AclRule]) -> None:
        storage.write_document(ACLS_DOCUMENT, rules_text(changed))

    return Authorizer(
        rules,
        super_users=super_users(config.super_users),
        allows_unruled=config.allow_everyone_if_no_acl_found,
        save=save,
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
            raise ConfigError("super.users", text, "TYPE:NAME, more of them after semicolons")
    return principals
