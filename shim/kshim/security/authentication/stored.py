"""The SCRAM credentials that a storage holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kshim.security.authentication.credentials import SCRAM_DOCUMENT, ScramCredentials, read_credentials
from kshim.storage.log import LogError

if TYPE_CHECKING:
    from kshim.partitions.topics import Storage


def stored_credentials(storage: Storage) -> ScramCredentials:
    """What was stored, and the way to store more. Raises LogError when it cannot be read."""
    text = storage.read_document(SCRAM_DOCUMENT)
    try:
        stored = {} if text is None else read_credentials(text)
    except ValueError as error:
        raise LogError(f"{SCRAM_DOCUMENT} in the data directory is damaged: {error}") from None
    return ScramCredentials(stored, save=lambda changed: storage.write_document(SCRAM_DOCUMENT, changed))
