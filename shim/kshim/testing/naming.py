"""How Python names a method in its own messages, such as that an argument is missing."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import TypeVar

C = TypeVar("C", bound=type)


def shown_as(public_name: str) -> Callable[[C], C]:
    """Have the methods of a class that users do not know named as those of one that they know."""

    def rename(cls: C) -> C:
        for name, value in vars(cls).items():
            if isinstance(value, FunctionType):
                value.__qualname__ = f"{public_name}.{name}"
        return cls

    return rename
