"""What is known of a group -> its incidents, and those of several groups -> rows of INCIDENTS. No Spark here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from kshim.explain.document import incident_object
from kshim.explain.facts import Known
from kshim.explain.incidents import Incident, apart, together
from kshim_pipeline.diagnosis.facts import Entry, Place

_MOST_EVIDENCE = 10


class Source(NamedTuple):
    """Where a source is that a fact names."""

    name: str
    place: Place


class Found(NamedTuple):
    """An incident as one group shows it. Incidents with the same `culprit` may be one."""

    culprit: str
    incident: Incident
    sources: tuple[Source, ...]


def found_of(group: str, entries: Iterable[Entry], until_ms: int) -> Iterator[Found]:
    """The incidents of a session of a group. Of others, `entries` has what happened on the same hosts at the same time."""
    known = list(entries)
    before_ms = max((each.fact.ts_ms for each in known if each.is_before and each.fact is not None), default=0)
    facts = sorted((each.fact for each in known if each.fact is not None), key=lambda fact: fact.ts_ms)
    profiles = {each.profile.member.member_id: each.profile for each in known if each.profile is not None}
    places = {each.fact.source: each.place for each in known if each.fact is not None and each.place is not None}
    for incident in apart(Known(tuple(facts), profiles, (), until_ms), group):
        if incident.to_ms <= before_ms:
            continue  # it is how those joined that were there before
        names = dict.fromkeys(each.fact.source for each in incident.disturbances)
        sources = tuple(Source(name, places[name]) for name in names if name in places)
        yield Found(incident.culprit, _without_lives(incident), sources)


def _without_lives(incident: Incident) -> Incident:
    """With the member of a life in its place: a life has all others of its group."""
    disturbances = (
        each._replace(life=None, fact=each.fact._replace(member=each.member)) for each in incident.disturbances
    )
    return incident._replace(disturbances=tuple(disturbances))


def incident_rows(found: Iterable[Found]) -> Iterator[dict[str, Any]]:
    """Rows of INCIDENTS."""
    parts = list(found)
    places = {source.name: source.place for part in parts for source in part.sources}
    for incident in together(part.incident for part in parts):
        yield _row(incident, places)


def _row(incident: Incident, places: Mapping[str, Place]) -> dict[str, Any]:
    row = incident_object(incident)
    del row["records"]  # of share groups; the sentence names them
    ids = (
        member_id
        for each in incident.disturbances
        for member_id in (each.fact.other_id, each.member.member_id if each.member is not None else None)
        if member_id
    )
    sources = [places[name] for name in row.pop("sources") if name in places]
    return row | {
        "member_ids": list(dict.fromkeys(ids)),
        "reasons": row["evidence"],
        "evidence": [place._asdict() for place in sources[:_MOST_EVIDENCE]],
    }
