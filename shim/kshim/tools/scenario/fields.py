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


def assigned_fields(response: Any, cast: Cast) -> dict[str, str]:
    """Of a heartbeat that assigns partitions."""
    assignment = response.assignment
    return {
        "epoch": str(response.member_epoch),
        "assigned": "unchanged" if assignment is None else partition_names(assignment.topic_partitions, cast),
        "id": "null" if response.member_id is None else cast.name_of(response.member_id),
        "interval": str(response.heartbeat_interval_ms),
        "message": cast.plain(response.error_message),
    }


def described_fields(group: Any, cast: Cast) -> dict[str, str]:
    """Of a described group with epochs whose members have partitions."""
    fields = {
        "state": group.group_state or "-",
        "epoch": str(group.group_epoch),
        "target-epoch": str(group.assignment_epoch),
        "assignor": group.assignor_name or "-",
        "members": member_names((member.member_id for member in group.members), cast),
        "message": cast.plain(group.error_message),
    }
    for member in group.members:
        name = cast.name_of(member.member_id)
        fields[f"{name}.epoch"] = str(member.member_epoch)
        fields[f"{name}.assigned"] = partition_names(member.assignment.topic_partitions, cast)
        fields[f"{name}.subscribed"] = ",".join(map(cast.plain_topic, member.subscribed_topic_names)) or "-"
        fields[f"{name}.rack"] = member.rack_id or "-"
    return fields
