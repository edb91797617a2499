"""The tables say what Kafka's JSON schemas say, read from the jars of Kafka 4.4.0 at test time."""

from __future__ import annotations

import json
import re
import zipfile
from pathlib import Path
from typing import Any

import pytest

from kshim.tools.kafka_apis import KAFKA_APIS
from kshim_protocol.apis import Api
from kshim_protocol.errors import RETRIABLE, ErrorCode
from kshim_protocol.schema import MISSING, ZERO_UUID, Row, Struct, row_is_in, version_range
from kshim_protocol.shape import FIXED, default_of
from tests.protocol.catalogue import (
    ALL_APIS,
    ALL_MESSAGES,
    API_MESSAGES,
    each_version,
    over_messages,
    versions_of,
)

SPELLED_OTHERWISE = {"Enable2Pc": "enable_2pc"}
"""Fields whose snake_case name does not follow from Kafka's."""

over_apis = pytest.mark.parametrize("api", ALL_APIS, ids=[api.name for api in ALL_APIS])


class JsonSchemas:
    """The message schemas inside the jars, by name; comments taken out."""

    def __init__(self, jars: tuple[Path, ...]) -> None:
        self._texts: dict[str, str] = {}
        for jar in jars:
            if jar.name.startswith(
                (
                    "kafka-clients-",
                    "kafka-group-coordinator-4",
                    "kafka-transaction-coordinator-4",
                    "kafka-share-coordinator-4",
                )
            ):
                with zipfile.ZipFile(jar) as archive:
                    for name in archive.namelist():
                        if name.startswith("common/message/") and name.endswith(".json"):
                            self._texts[Path(name).stem] = archive.read(name).decode()

    def __getitem__(self, name: str) -> dict[str, Any]:
        text = re.sub(r"^\s*//.*$", "", self._texts[name], flags=re.MULTILINE)
        schema: dict[str, Any] = json.loads(re.sub(r"\s//[^\"]*$", "", text, flags=re.MULTILINE))
        return schema


@pytest.fixture(scope="module")
def schemas(kafka_jars: tuple[Path, ...]) -> JsonSchemas:
    return JsonSchemas(kafka_jars)


def snake_case(name: str) -> str:
    return SPELLED_OTHERWISE.get(name) or re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def fields_of(field: dict[str, Any], schema: dict[str, Any]) -> list[dict[str, Any]]:
    """The fields of a struct-typed field: its own, or those of a common struct of the message."""
    if "fields" in field:
        fields: list[dict[str, Any]] = field["fields"]
        return fields
    name = field["type"].removeprefix("[]")
    return next(common["fields"] for common in schema["commonStructs"] if common["name"] == name)


def contains(text: str, version: int) -> bool:
    first, last = version_range(text)
    return first <= version <= last


def kafka_default(field: dict[str, Any]) -> Any:
    """The default as Kafka's generator reads it: what is declared, else the zero of the type."""
    type_, declared = field["type"], field.get("default")
    if declared == "null":  # the text; a null of JSON is no default to Kafka's generator
        return None
    if type_.startswith("[]"):
        return ()
    match type_:
        case "string":
            return declared or ""
        case "bytes" | "records":
            return b""
        case "bool":
            return str(declared).lower() == "true"
        case "uuid":
            return ZERO_UUID
        case "float64":
            return float(declared or 0)
        case "int8" | "int16" | "int32" | "int64" | "uint16":
            return int(str(declared or 0), 0)
        case _:
            return "defaults of a struct"


def our_default(row: Row) -> Any:
    return "defaults of a struct" if row.type == "struct" and default_of(row) is not None else default_of(row)


def kafka_rows(fields: list[dict[str, Any]], schema: dict[str, Any], version: int) -> list[Any]:
    """What travels in `version`, in wire order: (name, type, nullable, tag, default, ignorable)."""
    found = []
    for field in fields:
        # A tagged field may leave its versions to its tag.
        if not contains(field.get("versions") or field["taggedVersions"], version):
            continue
        is_tagged = contains(field.get("taggedVersions", "none"), version)
        found.append(
            (
                snake_case(field["name"]),
                kafka_type(field, schema, version),
                contains(field.get("nullableVersions", "none"), version),
                field["tag"] if is_tagged else None,
                kafka_default(field),
                field.get("ignorable", False),
                field.get("flexibleVersions") != "none",
            )
        )
    return found


def kafka_type(field: dict[str, Any], schema: dict[str, Any], version: int) -> Any:
    type_ = field["type"]
    name = type_.removeprefix("[]")
    is_struct = name[0].isupper()
    element: Any = (name, kafka_rows(fields_of(field, schema), schema, version)) if is_struct else name
    if name == "bool":
        element = "boolean"
    return ("array", element) if type_.startswith("[]") else element


KAFKAS_NAMES = {
    "EntryDataResult": "EntryData",
    "PartitionDataResponse": "PartitionData",
    "TopicDataResponse": "TopicData",
}
"""Where Kafka has one name for rows of a request and others of its response."""


def our_rows(cls: type[Struct], version: int) -> list[Any]:
    return [
        (
            row.name,
            our_type(row, version),
            row.nullable[0] <= version <= row.nullable[1],
            row.tag,
            our_default(row),
            row.ignorable,
            row.flexible,
        )
        for row in cls.info.rows
        if row_is_in(row, version)
    ]


def our_type(row: Row, version: int) -> Any:
    if row.type in ("array", "struct"):
        element: Any = row.element
        if not isinstance(element, str):
            element = (KAFKAS_NAMES.get(element.__name__, element.__name__), our_rows(element, version))
        return ("array", element) if row.type == "array" else element
    return row.type


@over_messages()
def test_rows_equal_kafkas_in_every_version(cls: type[Struct], schemas: JsonSchemas) -> None:
    schema = schemas[cls.__name__]
    for version in versions_of(cls):
        assert our_rows(cls, version) == kafka_rows(schema["fields"], schema, version), f"v{version}"


@over_messages()
def test_rows_stand_in_kafkas_order_and_none_is_left_out(cls: type[Struct], schemas: JsonSchemas) -> None:
    expected = [snake_case(field["name"]) for field in schemas[cls.__name__]["fields"]]
    assert [row.name for row in cls.info.rows] == expected


@over_messages()
def test_versions_and_flexible_versions_equal_kafkas(cls: type[Struct], schemas: JsonSchemas) -> None:
    schema = schemas[cls.__name__]
    assert cls.info.versions == version_range(schema["validVersions"])
    assert cls.info.flexible == version_range(schema["flexibleVersions"])


@over_messages(API_MESSAGES)
def test_api_keys_equal_kafkas(cls: type[Struct], schemas: JsonSchemas) -> None:
    assert cls.info.api_key == schemas[cls.__name__]["apiKey"]


@over_apis
def test_the_api_table_equals_the_message_tables(api: Api) -> None:
    request, response = api.request_class(), api.response_class()
    assert request.__name__ == f"{api.name}Request"
    for cls in (request, response):
        assert cls.info.api_key == api.key
        for version in range(api.min_version, api.max_version + 1):
            assert version in versions_of(cls)
            assert api.is_flexible(version) == (cls.info.flexible[0] <= version <= cls.info.flexible[1])


@over_apis
def test_the_api_table_lists_kafkas_stable_versions(api: Api, schemas: JsonSchemas) -> None:
    schema = schemas[f"{api.name}Request"]
    first, last = version_range(schema["validVersions"])
    stable = last - schema.get("latestVersionUnstable", False)
    assert (api.min_version, api.max_version) == (first, stable)
    flexible = version_range(schema["flexibleVersions"])
    assert api.flexible_from == (flexible[0] if flexible[1] >= flexible[0] else None)


def test_what_is_known_of_kafkas_apis_is_in_its_schemas(schemas: JsonSchemas) -> None:
    for key, (name, versions) in KAFKA_APIS.items():
        schema = schemas[f"{name}Request"]
        first, last = version_range(schema["validVersions"])
        assert (schema["apiKey"], first, last - schema.get("latestVersionUnstable", False)) == (key, *versions)
        assert "broker" in schema["listeners"]


def test_a_row_that_some_version_lacks_names_its_default() -> None:
    missing = []
    for cls, version in each_version(ALL_MESSAGES):
        stack: list[tuple[str, type[Struct]]] = [(cls.__name__, cls)]
        while stack:
            name, part = stack.pop()
            for row in part.info.rows:
                if not row_is_in(row, version):
                    if row.default is MISSING:
                        missing.append(f"{name}.{row.name} in v{version}")
                elif row.type in ("array", "struct") and not isinstance(row.element, str):
                    stack.append((f"{name}.{row.name}", row.element))
    assert missing == []


def test_every_fixed_type_has_its_width_and_zero() -> None:
    assert {name: (fixed.width, fixed.zero) for name, fixed in FIXED.items()} == {
        "int8": (1, 0),
        "int16": (2, 0),
        "uint16": (2, 0),
        "int32": (4, 0),
        "int64": (8, 0),
        "float64": (8, 0.0),
        "boolean": (1, False),
        "uuid": (16, ZERO_UUID),
    }


@pytest.mark.java
def test_error_codes_equal_the_java_enum(jvm: Any) -> None:
    errors = {error.name(): error for error in jvm.classes.org.apache.kafka.common.protocol.Errors.values()}
    assert {name: int(error.code()) for name, error in errors.items()} == {code.name: code.value for code in ErrorCode}
    retriable = {
        name
        for name, error in errors.items()
        if error.exception() is not None
        and jvm.is_instance(error.exception(), "org.apache.kafka.common.errors.RetriableException")
    }
    assert retriable == {code.name for code in RETRIABLE}
