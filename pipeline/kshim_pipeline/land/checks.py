"""Whether a directory and a cluster fit: the same cluster and topics, and nothing deleted before it was landed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kshim_pipeline.errors import EXIT_UNAVAILABLE, EXIT_USAGE, PipelineError
from kshim_pipeline.inputs.kafka import Cluster, Identity, Span
from kshim_pipeline.land.batches import Landed, Offsets

Spans = Mapping[str, Mapping[int, Span]]


class Seen(NamedTuple):
    """What a cluster said of itself: first its ids, and then the offsets, which are therefore of these topics or later."""

    identity: Identity
    spans: Spans


class Loss(NamedTuple):
    """Offsets of a partition that were deleted before they were landed: from `start`, before `end`."""

    topic: str
    partition: int
    start: int
    end: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}: offsets {self.start} to {self.end - 1}"


def require_same(landed: Landed, identity: Identity, cluster: Cluster, folder: str) -> None:
    """Raises PipelineError: what is landed is of another cluster, of other topics, or has another name."""
    if landed.cluster_id and identity.cluster_id and landed.cluster_id != identity.cluster_id:
        raise PipelineError(
            f"{folder} has records of the cluster {landed.cluster_id} ({landed.source}), and "
            f"{cluster.bootstrap_servers} is the cluster {identity.cluster_id}. Land it in another directory",
            EXIT_UNAVAILABLE,
        )
    for topic, topic_id in identity.topic_ids.items():
        if landed.topic_ids.get(topic, topic_id) != topic_id:
            raise PipelineError(
                f"The topic {topic} was recreated: {folder} has records of the one with the id "
                f"{landed.topic_ids[topic]}, now it is {topic_id}. Land it in another directory",
                EXIT_UNAVAILABLE,
            )
    if cluster.given_name and landed.source and cluster.given_name != landed.source:
        raise PipelineError(
            f"{folder} has records of the source {landed.source}, so --source cannot be {cluster.given_name}",
            EXIT_USAGE,
        )


def losses(landed: Offsets, spans: Spans, folder: str) -> list[Loss]:
    """The offsets between those `landed` (exclusive) and those that still exist.

    Topics that are not in `spans` are not looked at. Raises PipelineError if a partition is not there, or ends before
    what was landed: then it is another log.
    """
    found = []
    for topic, partitions in landed.items():
        for partition, offset in sorted(partitions.items()):
            if topic not in spans:
                continue
            if (span := spans[topic].get(partition)) is None:
                raise PipelineError(
                    f"{folder} has records of {topic}-{partition}, which is not there: this is another cluster, or the "
                    "topic was recreated. Land it in another directory"
                )
            if span.end < offset:
                raise PipelineError(
                    f"{topic}-{partition} ends at offset {span.end}, but {folder} has records up to {offset}: this is "
                    "another cluster, or the broker lost its data. Land it in another directory"
                )
            if span.start > offset:
                found.append(Loss(topic, partition, offset, span.start))
    return found
