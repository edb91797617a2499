"""The rooms of the code: no circle of imports, and none so large that nobody oversees it."""

from __future__ import annotations

from tests.repository.rooms import circles, module_imports, packages

MOST_MODULES = 25
EXEMPT = {"kshim_protocol.messages": "a table: one module for each API of Kafka"}


def test_no_modules_import_each_other_in_a_circle() -> None:
    assert circles(module_imports()) == []


def test_a_circle_is_found() -> None:
    imports = {"a": frozenset({"b"}), "b": frozenset({"c"}), "c": frozenset({"b"})}
    assert circles(imports) == [["b", "c"]]


def test_no_room_has_more_modules_than_one_can_oversee() -> None:
    too_large = {room: len(modules) for room, modules in packages().items() if len(modules) > MOST_MODULES}
    assert too_large.keys() == EXEMPT.keys()
