"""The report of `make sizes`."""

from __future__ import annotations

from tests.gate.sizes import functions, report, rooms

FILES = {
    "shim/kshim/__init__.py": '"""One."""\n',
    "shim/kshim/broker/node.py": "def short():\n    pass\n",
    "shim/kshim/broker/handlers/fetch.py": "class A:\n    def long(self):\n        a = 1\n        return a\n",
    "protocol/kshim_protocol/messages/fetch.py": "x = 1\n" * 90,
    "tests/broker/test_node.py": "async def test():\n    pass\n",
}


def test_lines_are_counted_by_room() -> None:
    counted = rooms(FILES)
    assert counted["shim/kshim"] == {".": [1], "broker": [2, 4]}
    assert counted["protocol/kshim_protocol"] == {"messages": [90]}
    assert counted["tests"] == {"broker": [2]}


def test_functions_are_found_wherever_they_stand() -> None:
    source = "def outer():\n    def inner():\n        pass\n    return inner\n\nasync def later():\n    pass\n"
    assert sorted(functions("m.py", source)) == [(2, "m.py:2 inner"), (2, "m.py:6 later"), (4, "m.py:1 outer")]


def test_the_longest_come_first_and_the_message_tables_only_in_the_counts() -> None:
    lines = list(report(FILES, 1))
    assert lines[-1].split() == ["3", "shim/kshim/broker/handlers/fetch.py:2", "long"]
    assert any(line.split() == ["total", "5", "99"] for line in lines)
    assert [line for line in lines if "messages/" in line] == []
