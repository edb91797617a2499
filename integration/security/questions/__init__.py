"""Requests of every API about two topics, two groups and two transactional ids: what may a user see and do?

None of them changes anything that another one tells of, so that they can be asked again under other rules. Where a
request would be carried out, it is one that fails for another reason after it was allowed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from integration.security.questions import (
    clusters,
    group_offsets,
    groups,
    records,
    share_groups,
    streams_groups,
    topics,
    transactions,
)
from integration.security.questions.things import GROUPS, TOPICS, TRANSACTIONAL_IDS
from kshim_protocol.apis import API_TABLE
from kshim_protocol.schema import Request

__all__ = ["GROUPS", "TOPICS", "TRANSACTIONAL_IDS", "Question", "questions"]


class Question(NamedTuple):
    """A request in a version; `name` tells them apart."""

    name: str
    request: Request[Any]
    version: int


FAMILIES = (
    records.reading_and_writing,
    records.offsets,
    topics.metadata,
    topics.describing_topics,
    topics.changing_topics,
    topics.configurations,
    groups.memberships,
    groups.listing_groups,
    group_offsets.offsets_of_groups,
    group_offsets.fetching_and_deleting_offsets,
    group_offsets.offsets_of_several_groups,
    share_groups.share_members,
    share_groups.share_records,
    share_groups.share_offsets,
    share_groups.share_states,
    streams_groups.streams_members,
    transactions.transactions,
    clusters.access_rules,
    clusters.cluster,
)


def questions(ids: Mapping[str, bytes]) -> Iterator[Question]:
    """All that the API table serves. `ids` are those of the topics."""
    for family in FAMILIES:
        for name, request, version in family(ids):
            if request.info.api_key in API_TABLE:
                yield Question(f"{name} v{version}", request, version)
