"""The quotas of users, clients and IP addresses: kept and described as in Kafka, and throttling nobody.

Source: Kafka's ClientQuotaControlManager and ClientQuotasImage (KIP-546).
"""

from __future__ import annotations

import ipaddress
import json
import math
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kshim.storage.log import LogError
from kshim_protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from kshim.storage.storage import Storage

QUOTAS_DOCUMENT = "client-quotas.json"
_VERSION = 1
MAX_CHARACTERS: Final = 1 << 20
"""Of all quotas as they are kept: what clients set must end somewhere."""

USER, CLIENT_ID, IP = "user", "client-id", "ip"
ENTITY_TYPES: Final = frozenset({USER, CLIENT_ID, IP})
_OF_USERS_AND_CLIENTS: Final = {
    "producer_byte_rate": 2**63 - 1,
    "consumer_byte_rate": 2**63 - 1,
    "request_percentage": None,
    "controller_mutation_rate": None,
}
_OF_ADDRESSES: Final = {"connection_creation_rate": 2**31 - 1}
_NUMBERS: Final = {2**63 - 1: "a LONG", 2**31 - 1: "an INT"}
_FRACTION: Final = 1e-6

Entity = tuple[tuple[str, str | None], ...]
"""Types with names, sorted by type; None is the default of a type."""


class Filter(NamedTuple):
    """What quotas are asked for: names by type (None: the default), and types of which any name will do."""

    names: Mapping[str, str | None]
    types: frozenset[str]
    is_strict: bool

    def matches(self, entity: Entity) -> bool:
        """Whether an entity has all that is asked for, and nothing else if the filter is strict."""
        found = dict(entity)
        return (
            all(kind in found and found[kind] == name for kind, name in self.names.items())
            and self.types <= found.keys()
            and (not self.is_strict or len(found) == len(self.names) + len(self.types))
        )


class ClientQuotas:
    """Quotas by entity and key. `save` keeps them, before they count; raises LogError."""

    def __init__(
        self,
        quotas: Mapping[Entity, Mapping[str, float]] | None = None,
        *,
        save: Callable[[str], None] = lambda text: None,
    ) -> None:
        self._quotas = {entity: dict(values) for entity, values in (quotas or {}).items()}
        self._save = save

    @classmethod
    def of(cls, storage: Storage) -> ClientQuotas:
        """Those that a storage holds, which keeps the changes. Raises LogError when they cannot be read."""
        text = storage.read_document(QUOTAS_DOCUMENT)
        try:
            quotas = {} if text is None else _read(text)
        except (ValueError, KeyError, TypeError) as error:
            raise LogError(f"{QUOTAS_DOCUMENT} in the data directory is damaged: {error}") from None
        return cls(quotas, save=lambda changed: storage.write_document(QUOTAS_DOCUMENT, changed))

    def matching(self, wanted: Filter) -> list[tuple[Entity, Mapping[str, float]]]:
        """The entities that a filter asks for, with their quotas."""
        if wanted.is_strict and not wanted.names and not wanted.types:
            return []
        return [(entity, values) for entity, values in self._quotas.items() if wanted.matches(entity)]

    def change(self, changes: Mapping[Entity, Mapping[str, float | None]]) -> None:
        """Set quotas, or remove them (None). Raises KafkaError: POLICY_VIOLATION (too many), LogError; then none is changed."""
        quotas = {entity: dict(values) for entity, values in self._quotas.items()}
        for entity, values in changes.items():
            known = quotas.setdefault(entity, {})
            for key, value in values.items():
                if value is None:
                    known.pop(key, None)
                else:
                    known[key] = value
            if not known:
                del quotas[entity]
        if quotas == self._quotas:
            return
        text = _text(quotas)
        if len(text) > MAX_CHARACTERS:
            raise KafkaError(
                ErrorCode.POLICY_VIOLATION, f"all quotas together take more than {MAX_CHARACTERS} characters"
            )
        self._save(text)
        self._quotas = quotas


def require_valid(entity: Mapping[str, str | None], values: Mapping[str, float | None]) -> None:
    """Raises KafkaError (INVALID_REQUEST) for what cannot be an entity, or a quota of it."""
    if not entity:
        raise _invalid("Invalid empty client quota entity")
    for kind, name in entity.items():
        if kind not in ENTITY_TYPES:
            raise _invalid(f"Unhandled client quota entity type: {kind}")
        if name == "":
            raise _invalid(f"Empty {kind} not supported")
    keys: Mapping[str, int | None] = _OF_USERS_AND_CLIENTS
    if IP in entity:
        if len(entity) > 1:
            raise _invalid("Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId")
        if not _is_address(entity[IP]):
            raise _invalid(f"{entity[IP]} is not a valid IP or resolvable host.")
        keys = _OF_ADDRESSES
    for key, value in values.items():
        if value is not None:
            _require_value(keys, key, value)


def _require_value(keys: Mapping[str, int | None], key: str, value: float) -> None:
    if key not in keys:
        raise _invalid(f"Invalid configuration key {key}")
    if not math.isfinite(value):
        raise _invalid(f"Quota {key} must be a finite number")
    if value <= 0:
        raise _invalid(f"Quota {key} must be greater than 0")
    most = keys[key]
    if most is None:
        return
    if value > float(most):
        raise _invalid(f"Proposed value for {key} is too large for {_NUMBERS[most]}.")
    if value % 1 > _FRACTION:
        raise _invalid(f"{key} cannot be a fractional value.")


def _is_address(name: str | None) -> bool:
    """Kafka looks up the names of hosts, which a broker that waits for nothing does not."""
    if name is None or name == "localhost":
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)


def _text(quotas: Mapping[Entity, Mapping[str, float]]) -> str:
    rows = [{"entity": dict(entity), "quotas": dict(values)} for entity, values in quotas.items()]
    return json.dumps({"version": _VERSION, "clientQuotas": rows}, indent=1) + "\n"


def _read(text: str) -> dict[Entity, dict[str, float]]:
    """Raises ValueError, KeyError, TypeError."""
    document: Any = json.loads(text)
    if document["version"] != _VERSION:
        raise ValueError(f"version {document['version']} is not known")
    return {
        entity_of(row["entity"].items()): {str(key): float(value) for key, value in row["quotas"].items()}
        for row in document["clientQuotas"]
    }


def entity_of(parts: Iterable[tuple[str, str | None]]) -> Entity:
    """Of types with names; the last one of a type counts."""
    return tuple(sorted(dict(parts).items(), key=lambda part: part[0]))
