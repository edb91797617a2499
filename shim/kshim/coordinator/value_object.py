"""The base of small records, typed like dataclasses: importing `dataclasses` and declaring with it costs more."""

from __future__ import annotations

from typing import Any, dataclass_transform


@dataclass_transform(kw_only_default=True, frozen_default=True)
class ValueObject:
    """Takes its fields as keywords and is compared by them; what is left out has its default in the class."""

    def __init_subclass__(cls, *, frozen: bool = True) -> None:
        """`frozen` is for the type checker: whether the fields may be assigned."""

    def __init__(self, **fields: Any) -> None:
        self.__dict__ = fields

    def __eq__(self, other: object) -> bool:
        if other.__class__ is not self.__class__:
            return NotImplemented
        names = self.__dict__.keys() | other.__dict__.keys()
        return all(getattr(self, name, None) == getattr(other, name, None) for name in names)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.__dict__.items())})"
