"""What msgspec finds wrong with a request, in the words of JSON and HTTP instead of Python's."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final, Literal, get_args, get_origin

import msgspec

_NAMES: Final = {
    "int": "an integer",
    "float": "a number",
    "str": "a string",
    "bytes": "a string in base64",
    "bool": "true or false",
    "null": "null",
    "array": "an array",
    "object": "an object",
}
_BOUNDS: Final = {">=": "of at least", ">": "above", "<=": "of at most", "<": "below"}
_UNITS: Final = {"str": "character", "bytes": "byte", "array": "element", "object": "field"}
_GOT: Final = {**_NAMES, "float": "a number with a fraction", "bool": "a boolean"}

_PLACE: Final = re.compile(r" - at `(?:key in )?\$?\.?([^`]*)`$")
_EXPECTED: Final = re.compile(r"Expected `([^`]*)`(.*?)(?:, got `([^`]*)`)?$", re.DOTALL)


def sentence(error: Exception, type_: Any, given: Mapping[str, object] | None = None) -> str:
    """What is wrong with a value that is no `type_`. `given` is a flat value itself, such as a query, whose texts are then quoted."""
    text = str(error)
    found = _PLACE.search(text)
    place = "" if found is None else found[1].replace("[...]", ".*")
    text = _PLACE.sub("", text)
    subject = f"`{place}`" if place else "it"
    shown = "" if given is None or place not in given else f", not {json.dumps(given[place], ensure_ascii=False)[:100]}"
    if (expected := _EXPECTED.match(text)) is not None:
        types, bound, got = expected.groups()
        names = types.split(" | ")
        wanted = _or([_NAMES.get(name, name) for name in names if name != "int" or "float" not in names])
        got = shown or (f", not {_GOT.get(got, got)}" if got else "")
        return f"{subject} must be {wanted}{_bound(types, bound.strip())}{got}"
    if text.startswith("Invalid enum value"):
        return f"{subject} must be {_or(_choices(type_, place)) or 'another value'}{shown}"
    if text.startswith("Invalid base64"):
        return f"{subject} must be a string in base64"
    if (unknown := re.match(r"Object contains unknown field `(.*)`$", text, re.DOTALL)) is not None:
        known = ", ".join(_fields(type_)) if not place else ""
        return f"there is no field `{unknown[1]}`{f' in {subject}' if place else ''}" + (
            f"; there are {known}" if known else ""
        )
    if (missing := re.match(r"Object missing required field `(.*)`$", text)) is not None:
        return f"`{missing[1]}` is missing{f' in {subject}' if place else ''}"
    return text[:1].lower() + text[1:]


def malformed(error: Exception) -> str:
    """Why a body is not JSON."""
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    text = str(error).removeprefix("JSON is malformed: ")
    return "it ends too early" if text == "Input data was truncated" else text


def _or(words: list[str]) -> str:
    """
    >>> _or(["a", "b", "c"]), _or(["a"])
    ('a, b or c', 'a')
    """
    return " or ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))


def _bound(types: str, text: str) -> str:
    """
    >>> _bound("str", "of length >= 1"), _bound("int", "<= 9999"), _bound("str", "matching regex '^a'")
    (' of at least 1 character', ' of at most 9999', " that matches '^a'")
    """
    if text.startswith("matching regex "):
        return f" that matches {text.removeprefix('matching regex ')}"
    length = text.startswith("of length ")
    relation, _, number = text.removeprefix("of length ").partition(" ")
    if not number:
        return "" if not text else f" {text}"
    number = number.removesuffix(".0")
    unit = f" {_UNITS.get(types, 'element')}{'' if number == '1' else 's'}" if length else ""
    return f" {_BOUNDS.get(relation, relation)} {number}{unit}"


def _fields(type_: Any) -> list[str]:
    return [field.encode_name for field in msgspec.structs.fields(type_)]


def _choices(type_: Any, name: str) -> list[str]:
    """The texts that a field takes, in quotes."""
    types = [field.type for field in msgspec.structs.fields(type_) if field.encode_name == name]
    for found in types:
        types += get_args(found)
        if get_origin(found) is Literal:
            return [json.dumps(value) for value in get_args(found)]
    return []
