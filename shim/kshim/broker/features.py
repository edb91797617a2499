"""The levels of the cluster's features: what ApiVersions reports and UpdateFeatures changes (KIP-584)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from kshim.storage.log import LogError

if TYPE_CHECKING:
    from kshim.storage.storage import Storage


FEATURES_DOCUMENT: Final = "features.json"
TRANSACTION_VERSION: Final = "transaction.version"
GROUP_VERSION: Final = "group.version"
SHARE_VERSION: Final = "share.version"
STREAMS_VERSION: Final = "streams.version"
LEVEL_KEYS: Final = ("kshim.share.version", "kshim.streams.version", "kshim.transaction.version")
"""The configuration keys of levels in a new data directory."""
SUPPORTED: Final = {
    GROUP_VERSION: (0, 1),
    SHARE_VERSION: (0, 1),
    STREAMS_VERSION: (0, 1),
    TRANSACTION_VERSION: (0, 2),
}
"""The lowest and the highest level of each feature."""
_VERSION = 1


class Features:
    """The level of each feature, 0 for one that is off; `epoch` grows with every change.

    `defaults` hold where nothing is stored, `given` are those of them that were asked for: they are stored, as
    kafka-storage does when it formats a directory. Raises LogError.
    """

    def __init__(self, storage: Storage, defaults: dict[str, int], *, given: bool = False) -> None:
        self._storage = storage
        self.levels = dict(defaults)
        self.epoch = 0
        text = storage.read_document(FEATURES_DOCUMENT)
        if text is not None:
            self.levels |= self._read(text)
        elif given:
            self._save(self.levels, 0)

    @property
    def group_version(self) -> int:
        """Of consumer groups: 1 for KIP-848."""
        return self.levels[GROUP_VERSION]

    @property
    def share_version(self) -> int:
        """Of share groups: 1 for KIP-932."""
        return self.levels[SHARE_VERSION]

    @property
    def transaction_version(self) -> int:
        """Of transactions: 1 for flexible records, 2 for KIP-890."""
        return self.levels[TRANSACTION_VERSION]

    def update(self, levels: dict[str, int]) -> None:
        """Have these levels hold from now on; they were checked. Raises LogError, with everything as it was."""
        changed = self.levels | levels
        self._save(changed, self.epoch + 1)
        self.levels = changed
        self.epoch += 1

    def document(self) -> str:
        """What is stored of the levels that hold."""
        return _document(self.levels, self.epoch)

    def _save(self, levels: dict[str, int], epoch: int) -> None:
        self._storage.write_document(FEATURES_DOCUMENT, _document(levels, epoch))

    def _read(self, text: str) -> dict[str, int]:
        try:
            document = json.loads(text)
            if document["version"] != _VERSION:
                raise ValueError(f"version {document['version']}")
            levels = {name: int(level) for name, level in document["levels"].items()}
            for name, level in levels.items():
                lowest, highest = SUPPORTED[name]
                if not lowest <= level <= highest:
                    raise ValueError(f"{name} is {level}")
            self.epoch = int(document["epoch"])
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise LogError(f"{FEATURES_DOCUMENT} in the data directory cannot be used: {error}") from None
        return levels


def _document(levels: dict[str, int], epoch: int) -> str:
    return json.dumps({"version": _VERSION, "epoch": epoch, "levels": levels}) + "\n"


LEVELS_BEFORE_FEATURES: Final = _document({TRANSACTION_VERSION: 0}, 0)
"""The document of a kshim that knew no features."""
