"""Incidents as JSON, version 1 (docs/why.md)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from kshim.explain.disturbances import Disturbance
from kshim.explain.effects import effect_object
from kshim.explain.incidents import Alternative, Incident
from kshim.explain.weigh import Evidence
from kshim.explain.words import advice, sentence, would_tell

VERSION = 1
RECORDS_MAX = 100
"""So many of the events about records of share groups are in an incident, the newest: a storm has one each second."""


def document(
    incidents: Iterable[Incident], sources: Sequence[str], since_ms: int | None, damaged: Sequence[str] = ()
) -> dict[str, Any]:
    """The whole answer. `since_ms`: how far back was read; None: everything. `damaged`: what was read in part."""
    return {
        "version": VERSION,
        "sources": list(sources),
        "since_ms": since_ms,
        "damaged": list(damaged),
        "incidents": [incident_object(each) for each in incidents],
    }


def incident_object(incident: Incident) -> dict[str, Any]:
    """One element of `incidents`."""
    return {
        "cause": str(incident.cause),
        "subject": str(incident.subject),
        "groups": list(incident.groups),
        "clients": list(incident.clients),
        "host": incident.host,
        "from_ms": incident.from_ms,
        "to_ms": incident.to_ms,
        "confidence": incident.confidence,
        "basis": "observed" if incident.is_observed else "inferred",
        "sentence": sentence(incident),
        "advice": advice(incident),
        "would_tell": would_tell(incident),
        "records": [_records(each) for each in incident.disturbances if each.fact.records is not None][-RECORDS_MAX:],
        "effects": [effect_object(effect) for effect in incident.effects],
        "evidence": [_evidence(each) for each in incident.evidence],
        "sources": list(dict.fromkeys(each.fact.source for each in incident.disturbances)),
        "alternatives": [_alternative(each) for each in incident.alternatives],
    }


def _records(disturbance: Disturbance) -> dict[str, Any]:
    records = disturbance.fact.records
    assert records is not None
    return {
        **records._asdict(),
        "ranges": [each._asdict() for each in records.ranges],
        "client": disturbance.name,
        "at_ms": disturbance.fact.ts_ms,
    }


def _alternative(alternative: Alternative) -> dict[str, Any]:
    return {
        "cause": str(alternative.cause),
        "confidence": alternative.confidence,
        "evidence": [_evidence(each) for each in alternative.evidence],
    }


def _evidence(evidence: Evidence) -> dict[str, Any]:
    return {"text": evidence.text, "weight": evidence.step.name.lower()}
