"""What altering does to a configuration, whatever it belongs to. Kafka: ConfigurationControlManager."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from kshim_protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from kshim.config.keys import Key


SET: Final = 0
DELETE: Final = 1
APPEND: Final = 2
SUBTRACT: Final = 3


class Change(Protocol):
    """One entry of an IncrementalAlterConfigs request."""

    @property
    def name(self) -> str: ...

    @property
    def config_operation(self) -> int: ...

    @property
    def value(self) -> str | None: ...


def changed(
    before: Mapping[str, str], changes: Sequence[Change], key_of: Callable[[str], Key | None]
) -> dict[str, str]:
    """`before` with these changes. Raises KafkaError INVALID_REQUEST, INVALID_CONFIG.

    Lists are added to and taken from as they are set, or as Kafka's default has them; what the broker sets does not count.
    """
    check_distinct([change.name for change in changes])
    for change in changes:
        if change.config_operation not in (SET, DELETE, APPEND, SUBTRACT):
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"unknown operation {change.config_operation}")
        if change.config_operation != DELETE and change.value is None:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {change.name}")
    after = dict(before)
    for change in changes:
        if change.config_operation == DELETE:
            after.pop(change.name, None)
        elif change.config_operation == SET:
            after[change.name] = change.value or ""
        else:
            key = key_of(change.name)
            if key is None or key.type != "list":
                verb = "APPEND" if change.config_operation == APPEND else "SUBTRACT"
                raise KafkaError(
                    ErrorCode.INVALID_CONFIG, f"Can't {verb} to key {change.name} because its type is not LIST."
                )
            after[change.name] = _changed_list(before.get(change.name, key.default or ""), change)
    return after


def _changed_list(text: str, change: Change) -> str:
    parts = [part for part in text.split(",") if part]
    for part in (change.value or "").split(","):
        if change.config_operation == SUBTRACT:
            parts = [each for each in parts if each != part]
        elif part not in parts:
            parts.append(part)
    return ",".join(parts)


def replaced(entries: Sequence[tuple[str, str | None]]) -> dict[str, str]:
    """The configuration that an AlterConfigs request puts in the place of the one before. Raises KafkaError."""
    check_distinct([name for name, _ in entries])
    after = {}
    for name, value in entries:
        if value is None:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {name}")
        after[name] = value
    return after


def check_distinct(names: Sequence[str]) -> None:
    """Raises KafkaError INVALID_REQUEST when a key is named twice."""
    if len(set(names)) < len(names):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
