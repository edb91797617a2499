"""What goes over HTTP as JSON, one class for each object; the OpenAPI description is made from them."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta

Count: TypeAlias = Annotated[int, Meta(ge=0)]
NodeId: TypeAlias = Annotated[int, Meta(ge=0, le=2_147_483_647, description="The id of a broker.")]
GroupId: TypeAlias = Annotated[str, Meta(min_length=1, max_length=32_767, description="The id of a group.")]
TopicName: TypeAlias = Annotated[str, Meta(min_length=1, max_length=249, description="The name of a topic.")]
Seconds: TypeAlias = Annotated[float, Meta(gt=0, le=300, description="How long to wait at most, in seconds.")]


class Input(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What a request holds: unknown fields are refused, because they are most often misspelt ones."""


class Output(msgspec.Struct, kw_only=True):
    """What an answer holds."""


# The server


class Health(Output):
    """The process lives and answers."""

    status: str = "ok"


class Ready(Output):
    """The brokers accept connections, and all coordinators have read their logs."""

    bootstrap_servers: str
    cluster_id: str
    version: str


# Topics


class NewTopic(Input):
    """A topic to be made."""

    name: TopicName
    partitions: Annotated[int, Meta(ge=1, le=9_999)] = 1
    configs: dict[str, str] = {}


class PartitionView(Output):
    """One partition of a topic. `leader` is a broker's id, -1 while there is none."""

    partition: int
    leader: int
    start_offset: int
    end_offset: int


class TopicView(Output):
    """A topic, its configuration and its partitions."""

    name: str
    topic_id: str
    configs: dict[str, str]
    partitions: list[PartitionView]


class TopicSummary(Output):
    """A topic in a list."""

    name: str
    partitions: int
    is_internal: bool


class TopicPage(Output):
    """Topics by name. `next` is the `after` of the next page, null at the end."""

    topics: list[TopicSummary]
    next: str | None


class PageQuery(Input):
    """Which part of a list."""

    after: Annotated[str, Meta(description="The last name of the page before.")] = ""
    limit: Annotated[int, Meta(ge=1, le=1_000, description="How many at most.")] = 100
