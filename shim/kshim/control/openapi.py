"""The OpenAPI description of the HTTP surface, made from its routes."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from kshim.control.access import OPEN_PATHS
from kshim.control.http import JSON, PROBLEM_JSON, Problem
from kshim.control.routing import Route

_EVERYWHERE: Final = (400, 401, 403, 408, 413, 415, 421, 431)
"""Statuses that any request may end with."""

_PROBLEMS: Final = {
    400: "The request is malformed: a path, a parameter or a body that is not as described here.",
    401: "The token is missing or wrong.",
    403: "The request comes from a web page of another site.",
    404: "What the path names does not exist.",
    405: "The path takes other methods.",
    408: "The request did not arrive in time.",
    409: "The state of the brokers does not allow it.",
    413: "The body is too large.",
    415: "The body is not JSON.",
    421: "The Host header names another host.",
    422: "The request is well-formed, but a value in it cannot be used.",
    431: "The head of the request is too large.",
    501: "These brokers were started without what this needs.",
    503: "Not now: the brokers are starting, or too many streams are open.",
    504: "What was waited for did not happen in time.",
}

_HEAD: Final = """\
Control of kshim for tests: topics, groups, their history, faults, the clock and the nodes. Durations are in seconds unless
a name says otherwise."""


def description_of(routes: Iterable[Route], version: str) -> dict[str, Any]:
    """OpenAPI 3.1 as JSON values."""
    routes = tuple(routes)
    types = [Problem]
    for route in routes:
        types += [type_ for type_ in (route.body, route.result) if _is_described(type_)]
    schemas, components = msgspec.json.schema_components(types, ref_template="#/components/schemas/{name}")
    schema_of = dict(zip(map(repr, types), schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, schema_of)
    return {
        "openapi": "3.1.0",
        "info": {"title": "kshim", "version": version, "description": _HEAD, "license": {"name": "Apache-2.0"}},
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}, {}],
    }


def _operation(route: Route, schema_of: dict[str, Any]) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": route.name,
        "summary": route.summary,
        "tags": [_tag(route.path)],
        "parameters": [
            *(_parameter(name, type_) for name, type_ in route.path_types.items()),
            *_fields(route.query, "query"),
            *_fields(route.headers, "header"),
        ],
        "responses": {str(route.status): _answer(route, schema_of)},
    }
    if route.description:
        operation["description"] = re.sub(r"(?<!\n)\n(?!\n)", " ", route.description)
    if route.body is not None:
        has_required = any(field.required for field in msgspec.structs.fields(route.body))
        operation["requestBody"] = {
            "required": has_required,
            "content": {JSON: {"schema": schema_of[repr(route.body)]}},
        }
    for status in sorted({*_EVERYWHERE, *route.problems}):
        operation["responses"][str(status)] = {
            "description": _PROBLEMS[status],
            "content": {PROBLEM_JSON: {"schema": schema_of[repr(Problem)]}},
        }
    if route.path in OPEN_PATHS:
        operation["security"] = []
    return operation


def _answer(route: Route, schema_of: dict[str, Any]) -> dict[str, Any]:
    if route.status == 204:
        return {"description": "It is done."}
    if _is_described(route.result):
        return {"description": "The answer.", "content": {route.answers: {"schema": schema_of[repr(route.result)]}}}
    schema = {} if route.answers == JSON else {"type": "string"}
    return {"description": "The answer.", "content": {route.answers: {"schema": schema}}}


def _is_described(type_: Any) -> bool:
    """Whether it is JSON that msgspec knows, not a ready answer."""
    name = getattr(type_, "__name__", "")
    return type_ not in (None, type(None)) and name not in ("Response", "EventStream")


def _parameter(name: str, type_: Any) -> dict[str, Any]:
    (schema,), _ = msgspec.json.schema_components([type_])
    return _described({"name": name, "in": "path", "required": True, "schema": schema})


def _fields(type_: Any, where: str) -> Iterable[dict[str, Any]]:
    if type_ is None:
        return
    _, components = msgspec.json.schema_components([type_])
    schema = components[type_.__name__]
    for field in msgspec.structs.fields(type_):
        yield _described(
            {
                "name": field.encode_name,
                "in": where,
                "required": field.required,
                "schema": dict(schema["properties"][field.encode_name]),
            }
        )


def _described(parameter: dict[str, Any]) -> dict[str, Any]:
    """The description stands beside the schema."""
    description = parameter["schema"].pop("description", None)
    return parameter if description is None else {**parameter, "description": description}


def _tag(path: str) -> str:
    words = [word for word in path.split("/") if word and word != "v1"]
    return words[0].partition(".")[0]
