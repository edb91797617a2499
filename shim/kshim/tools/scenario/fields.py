"""How answers are written: names of errors, ids as actors, partitions with the topic names of a file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kshim.tools.scenario.actors import Cast
from kshim_protocol.errors import ErrorCode


def error_name(code: int) -> str:
    """Kafka's name of an error."""
    try:
        return ErrorCode(code).name
    except ValueError:
        return f"ERROR_{code}"


def member_names(ids: Iterable[str], cast: Cast) -> str:
    """`a,b`; `-` for nobody."""
    return ",".join(sorted(cast.name_of(member_id) for member_id in ids)) or "-"


def partition_names(topics: Any, cast: Cast) -> str:
    """`t-0,t-1`, of topics that are named by id; `-` for none."""
    found = [f"{cast.topic_of('', topic.topic_id)}-{partition}" for topic in topics for partition in topic.partitions]
    return ",".join(sorted(found)) or "-"


def common_error(codes: Mapping[str, int]) -> tuple[int, dict[str, str]]:
    """The error on which all agree, else NONE; and a field each."""
    common = set(codes.values())
    error = common.pop() if len(common) == 1 else 0
    return error, {name: error_name(code) for name, code in codes.items()}
