"""What is done to a cluster that is no answer to a request, by name: the one place where a recording sees all of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

T = TypeVar("T")


class Operations:
    """Called with the name of an operation, its arguments and what does it; returns what that returns.

    Requests use the same operations: whoever sets `around` knows whether one is being handled.
    """

    def __init__(self) -> None:
        self.around: Callable[[str, Mapping[str, Any], Callable[[], Any]], Any] = lambda what, arguments, do: do()
        """What calls `do()`, with what is to be done before and after it."""

    def __call__(self, what: str, arguments: Mapping[str, Any], do: Callable[[], T]) -> T:
        found: T = self.around(what, arguments, do)
        return found
