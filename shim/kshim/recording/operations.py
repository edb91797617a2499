"""What is done to a cluster that no client asked for: how it is written, and how it is done again."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from kshim.broker.cluster import Cluster
from kshim.coordinator.step import Now
from kshim.faults.document import rule_from_document
from kshim.faults.faults import Faults
from kshim.harness import actions, records
from kshim.harness.keep_alive import KeepAlive
from kshim.harness.record import Record
from kshim.partitions.topics import NewTopic


class Stage(Protocol):
    """Where an operation is done again."""

    cluster: Cluster
    now: Now

    @property
    def faults(self) -> Faults:
        """The faults of the cluster."""


def document_of_record(record: Record) -> dict[str, Any]:
    """A record of `produce` as JSON has it."""
    pairs = record.headers.items() if isinstance(record.headers, Mapping) else record.headers
    return {
        "value": _encoded(record.value),
        "key": _encoded(record.key),
        "headers": [[name, _encoded(value)] for name, value in pairs],
        "partition": record.partition,
        "timestamp_ms": record.timestamp_ms,
    }


def _encoded(value: bytes | str | None) -> str | None:
    if value is None:
        return None
    return b64encode(value.encode() if isinstance(value, str) else value).decode()


def _decoded(text: str | None) -> bytes | None:
    return None if text is None else b64decode(text)


def _record(document: Mapping[str, Any]) -> Record:
    return Record(
        _decoded(document["value"]),
        _decoded(document["key"]),
        tuple((name, _decoded(value)) for name, value in document["headers"]),
        document["partition"],
        timestamp_ms=document["timestamp_ms"],
    )


def _create_topics(stage: Stage, fields: Mapping[str, Any]) -> None:
    stage.cluster.topics.create_all(
        [NewTopic(topic["name"], topic["partitions"], topic["configs"], topic["leaders"]) for topic in fields["topics"]]
    )


def _delete_topics(stage: Stage, fields: Mapping[str, Any]) -> None:
    found = [stage.cluster.topics.named(name) for name in fields["topics"]]
    stage.cluster.delete_topics([topic for topic in found if topic is not None], stage.now)


def _stop_node(stage: Stage, fields: Mapping[str, Any]) -> None:
    stage.cluster.leader_election.stop_node(fields["node"])


def _start_node(stage: Stage, fields: Mapping[str, Any]) -> None:
    stage.cluster.leader_election.start_node(fields["node"])


def _move(stage: Stage, fields: Mapping[str, Any]) -> None:
    stage.cluster.leader_election.move(fields["topic"], fields["partition"], fields["to"])


def _trigger_rebalance(stage: Stage, fields: Mapping[str, Any]) -> None:
    actions.trigger_rebalance(stage.cluster, fields["group"], fields["reason"], stage.now)


def _expel(stage: Stage, fields: Mapping[str, Any]) -> None:
    actions.expel(stage.cluster, fields["group"], fields["member"], stage.now, fields["reason"])


def _expire(stage: Stage, fields: Mapping[str, Any]) -> None:
    actions.expire(stage.cluster, fields["group"], fields["member"], stage.now)


def _keep_alive(stage: Stage, fields: Mapping[str, Any]) -> None:
    KeepAlive(stage.cluster, fields["members"]).refresh(stage.now)


def _fence(stage: Stage, fields: Mapping[str, Any]) -> None:
    actions.fence(stage.cluster, fields["group"], fields["instance"], stage.now)


def _produce(stage: Stage, fields: Mapping[str, Any]) -> None:
    records.produce(stage.cluster, fields["topic"], [_record(record) for record in fields["records"]], stage.now)


def _arm_fault(stage: Stage, fields: Mapping[str, Any]) -> None:
    stage.faults.arm(rule_from_document(fields["fault"]))


def _cancel_fault(stage: Stage, fields: Mapping[str, Any]) -> None:
    stage.faults.cancel(stage.faults.find(fields["fault"]))


def _clear_faults(stage: Stage, fields: Mapping[str, Any]) -> None:
    stage.faults.clear()


OPERATIONS: Final[Mapping[str, Callable[[Stage, Mapping[str, Any]], None]]] = {
    "create-topics": _create_topics,
    "delete-topics": _delete_topics,
    "stop-node": _stop_node,
    "start-node": _start_node,
    "move": _move,
    "trigger-rebalance": _trigger_rebalance,
    "expel": _expel,
    "expire": _expire,
    "keep-alive": _keep_alive,
    "fence": _fence,
    "produce": _produce,
    "arm-fault": _arm_fault,
    "cancel-fault": _cancel_fault,
    "clear-faults": _clear_faults,
}
"""By the `what` of an OPERATION entry."""
