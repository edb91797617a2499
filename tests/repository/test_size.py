"""One concept a module, and functions that fit on a screen."""

from __future__ import annotations

import ast

from tests.repository.checkout import python_files, relative

MAX_FILE_LINES = 500
MAX_FUNCTION_LINES = 60

MESSAGE_TABLES = "protocol/kshim_protocol/messages/"
"""The tables of the protocol are as long as the protocol."""


def test_files_have_fewer_than_500_lines() -> None:
    lines = {
        relative(path): len(path.read_text().splitlines())
        for path in python_files()
        if not relative(path).startswith(MESSAGE_TABLES)
    }
    assert {path: count for path, count in lines.items() if count >= MAX_FILE_LINES} == {}


def test_functions_have_at_most_60_lines() -> None:
    found = {
        f"{relative(path)}:{node.lineno} {node.name}": node.end_lineno - node.lineno + 1
        for path in python_files()
        if not relative(path).startswith(MESSAGE_TABLES)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno is not None
    }
    assert found, "no function found"
    assert {where: count for where, count in found.items() if count > MAX_FUNCTION_LINES} == {}
