"""Holds the records that a step wrote to its `writes` lines."""

from __future__ import annotations

from collections.abc import Mapping

from kshim.tools.scenario.actors import Cast
from kshim.tools.scenario.model import Step, Writes
from kshim.tools.scenario.verdict import Mismatch
from kshim_protocol.internal.group_metadata import GroupMetadataKey
from tests.coordinator.harness import Sim, Written, decode


def judge_writes(step: Step, cast: Cast, sim: Sim, batches_before: Mapping[int, int]) -> None:
    """Raise Mismatch unless exactly the records named were written, in their order; without a line nothing is judged.

    Fields that are not named are not compared. `batch` numbers the batches of the step from 1.
    """
    if not step.writes:
        return
    expected = [writes for writes in step.writes if writes.kind != "nothing"]
    seen = [
        _describe(written, cast)
        for index, log in sorted(sim.logs.items())
        for written in decode(log[batches_before.get(index, 0) :])
    ]
    shown = "; ".join(f"{writes.kind} {_text(writes.fields)}" for writes in seen) or "nothing"
    if len(seen) != len(expected):
        raise Mismatch(step, f"{len(expected)} records", shown)
    for one, other in zip(expected, seen, strict=True):
        wrong = {name for name, value in one.fields.items() if other.fields.get(name) != value}
        if one.kind != other.kind or wrong:
            raise Mismatch(step, f"writes {one.kind} {_text(one.fields)}", shown, sorted(wrong))


def _text(fields: Mapping[str, str]) -> str:
    return " ".join(f"{name}={value}" for name, value in fields.items())


def _describe(written: Written, cast: Cast) -> Writes:
    batch = {"batch": str(written.batch_number + 1)}
    if isinstance(written.key, GroupMetadataKey):
        return _group(written, cast, batch)
    at = f"{cast.plain_topic(written.key.topic)}-{written.key.partition}"
    if written.value is None:
        return Writes("offset-tombstone", {"at": at, **batch})
    value = written.value
    expires = getattr(value, "expire_timestamp", -1)
    fields = {
        at: str(value.offset),
        "metadata": value.metadata or "-",
        "expires-in": "-" if expires == -1 else str(expires - value.commit_timestamp),
    }
    return Writes("offset", {**fields, **batch})


def _group(written: Written, cast: Cast, batch: dict[str, str]) -> Writes:
    value = written.value
    if value is None:
        return Writes("group-tombstone", batch)
    fields = {
        "generation": str(value.generation),
        "type": value.protocol_type or "-",
        "protocol": "null" if value.protocol is None else value.protocol,
        "leader": "null" if value.leader is None else cast.name_of(value.leader),
        "members": ",".join(sorted(cast.name_of(member.member_id) for member in value.members)) or "-",
    }
    for member in value.members:
        fields[f"{cast.name_of(member.member_id)}.assignment"] = member.assignment.decode() or "-"
    return Writes("group-metadata", {**fields, **batch})
