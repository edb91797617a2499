"""Configurations that were set while the broker ran, of anything but topics: kept in `dynamic-configs.json`.

Those of topics are kept with the topics.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Final, Literal

from kshim.config.broker_config import ConfigError
from kshim.storage.log import LogError

if TYPE_CHECKING:
    from kshim.config.broker_config import BrokerConfig
    from kshim.storage.storage import Storage


DYNAMIC_CONFIGS_DOCUMENT = "dynamic-configs.json"
CLUSTER_WIDE: Final = ""
"""Stands for all brokers, in the place of an id."""
_VERSION = 1

Owner = Literal["brokers", "groups", "clientMetrics"]
_Stored = dict[Owner, dict[str, dict[str, str]]]


class DynamicConfig:
    """What was set for brokers (by id, "" for all), groups and client metrics (by name); those of brokers hold at once.

    Brokers of one process share their logs and their configuration: with several, none has values of its own.
    `on_broker_change` and `on_group_change` are called when values of brokers or of a group have begun to hold.
    Raises LogError when what was stored cannot be read, or cannot hold together with the configuration of this start.
    """

    def __init__(self, config: BrokerConfig, storage: Storage, node_ids: Collection[int]) -> None:
        self._config = config
        self._storage = storage
        self._single_id = str(min(node_ids)) if len(node_ids) == 1 else None
        self._stored: _Stored = {"brokers": {}, "groups": {}, "clientMetrics": {}}
        self.on_broker_change: list[Callable[[], None]] = []
        self.on_group_change: list[Callable[[], None]] = []
        text = storage.read_document(DYNAMIC_CONFIGS_DOCUMENT)
        if text is None:
            return
        try:
            self._stored |= _read(text)
            self._overlay(self._stored["brokers"])
        except (ConfigError, ValueError) as error:
            raise LogError(f"{DYNAMIC_CONFIGS_DOCUMENT} in the data directory cannot be used: {error}") from None

    @property
    def has_own(self) -> bool:
        """Whether a broker may have values of its own."""
        return self._single_id is not None

    def of(self, owner: Owner, name: str) -> Mapping[str, str]:
        """What was set for one of them."""
        return self._stored[owner].get(name, {})

    def names(self, owner: Owner) -> list[str]:
        """Those for which something is set."""
        return list(self._stored[owner])

    def replace(self, owner: Owner, name: str, configs: Mapping[str, str]) -> None:
        """Have `configs` hold for one of them, instead of any before. They were checked.

        Raises LogError when they cannot be stored: then all is as before.
        """
        changed = dict(self._stored)
        changed[owner] = {key: value for key, value in self._stored[owner].items() if key != name}
        if configs:
            changed[owner][name] = dict(configs)
        self._storage.write_document(DYNAMIC_CONFIGS_DOCUMENT, _text(changed))
        self._stored = changed
        if owner == "brokers":
            self._overlay(changed["brokers"])
            for changed_configuration in self.on_broker_change:
                changed_configuration()
        elif owner == "groups":
            for changed_configuration in self.on_group_change:
                changed_configuration()

    def _overlay(self, brokers: Mapping[str, Mapping[str, str]]) -> None:
        own = {} if self._single_id is None else brokers.get(self._single_id, {})
        self._config.overlay(brokers.get(CLUSTER_WIDE, {}), own)


def _text(stored: _Stored) -> str:
    import json

    return json.dumps({"version": _VERSION, **stored}, ensure_ascii=False, indent=1, sort_keys=True) + "\n"


def _read(text: str) -> _Stored:
    """Raises ValueError for a document that is damaged or of a newer version."""
    import json

    document = json.loads(text)
    if not isinstance(document, dict) or document.pop("version", None) != _VERSION:
        raise ValueError("it is damaged or has another version")
    for owners in document.values():
        if not isinstance(owners, dict) or not all(_is_configs(configs) for configs in owners.values()):
            raise ValueError("it is damaged")
    return document


def _is_configs(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(text, str) for text in value.values())
