"""The SCRAM credentials of all users: those that AlterUserScramCredentials set, kept as `scram-credentials.json`."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from kshim.security.authentication.scram import SCRAM_MECHANISMS, ScramCredential
from kshim.storage.log import LogError

if TYPE_CHECKING:
    from kshim.storage.storage import Storage

SCRAM_DOCUMENT = "scram-credentials.json"
_VERSION = 1

Key = tuple[str, str]
"""(user, mechanism)."""


class ScramCredentials:
    """Credentials by user and mechanism. `save` keeps what is stored, before it counts; raises LogError.

    `fixed` ones come from outside (`--users`): a stored one of the same user and mechanism goes before, and they cannot
    be removed.
    """

    def __init__(
        self,
        stored: Mapping[Key, ScramCredential] | None = None,
        *,
        save: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.stored = dict(stored or {})
        self.fixed: dict[Key, ScramCredential] = {}
        self._save = save

    @classmethod
    def of(cls, storage: Storage) -> ScramCredentials:
        """Those that a storage holds, which keeps the changes. Raises LogError when they cannot be read."""
        text = storage.read_document(SCRAM_DOCUMENT)
        try:
            stored = {} if text is None else read_credentials(text)
        except ValueError as error:
            raise LogError(f"{SCRAM_DOCUMENT} in the data directory is damaged: {error}") from None
        return cls(stored, save=lambda changed: storage.write_document(SCRAM_DOCUMENT, changed))

    def __repr__(self) -> str:
        return f"<{len(self.stored)} SCRAM credentials>"

    def find(self, mechanism: str, user: str) -> ScramCredential | None:
        """The credential that counts, None for an unknown user."""
        key = (user, mechanism)
        return self.stored.get(key) or self.fixed.get(key)

    def users(self) -> list[str]:
        """All users with a credential, sorted."""
        return sorted({user for user, _ in (*self.stored, *self.fixed)})

    def change(self, upserts: Mapping[Key, ScramCredential], deletions: Iterable[Key]) -> None:
        """Set and remove stored credentials: all or, when they cannot be saved, none (LogError)."""
        doomed = set(deletions)
        stored = {key: credential for key, credential in self.stored.items() if key not in doomed}
        stored.update(upserts)
        self._save(credentials_text(stored))
        self.stored = stored


def credentials_text(credentials: Mapping[Key, ScramCredential]) -> str:
    """The document: salted keys only, never a password."""
    rows = [
        {
            "user": user,
            "mechanism": mechanism,
            "iterations": credential.iterations,
            "salt": b64encode(credential.salt).decode(),
            "storedKey": b64encode(credential.stored_key).decode(),
            "serverKey": b64encode(credential.server_key).decode(),
        }
        for (user, mechanism), credential in sorted(credentials.items())
    ]
    return json.dumps({"version": _VERSION, "credentials": rows}, indent=1, ensure_ascii=False) + "\n"


def read_credentials(text: str) -> dict[Key, ScramCredential]:
    """The credentials of a document. Raises ValueError, which shows nothing of it, for one that is damaged or newer."""
    try:
        document = json.loads(text)
        version = document["version"]
        if version == _VERSION:
            return dict(_entry(row) for row in document["credentials"])
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ValueError(f"not a list of SCRAM credentials ({type(error).__name__})") from None
    raise ValueError(f"version {version} is not known here")


def _entry(row: dict[str, str]) -> tuple[Key, ScramCredential]:
    mechanism, user = row["mechanism"], row["user"]
    if mechanism not in SCRAM_MECHANISMS or not isinstance(user, str):
        raise ValueError
    salt, stored_key, server_key = (b64decode(row[name], validate=True) for name in ("salt", "storedKey", "serverKey"))
    return (user, mechanism), ScramCredential(
        salt, int(row["iterations"]), stored_key=stored_key, server_key=server_key
    )
