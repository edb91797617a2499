"""An incident as a paragraph: the same of `kshim why` and of what a pipeline has stored."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from kshim.explain.effects import effect_of
from kshim.explain.weigh import Step
from kshim.explain.words import CERTAIN, effect_text, time_text
from kshim.wording import escaped

_FOR = tuple(step.name.lower() for step in Step if step.value > 0)
_AGAINST = tuple(step.name.lower() for step in Step if step.value < 0)


def paragraph(incident: Mapping[str, Any]) -> str:
    """All of an element of `incidents` of the document, in plain text; names may be anything, and what is not printable is escaped.

    Each statement says whether it was observed or inferred.
    """
    since = f"{time_text(incident['from_ms'])} to {time_text(incident['to_ms'])}"
    title = f"{since}  {', '.join(incident['groups'])}: {incident['cause']} ({incident['confidence']:.0%})"
    return "\n".join(map(escaped, (title, *(f"  {line}" for line in statements(incident)))))


def statements(incident: Mapping[str, Any]) -> Iterator[str]:
    """What happened, what it did, what speaks for the cause and against it, what to change, and what would tell more."""
    sentence, host = incident["sentence"], incident["host"]
    place = f" Host: {host}." if host is not None and host not in sentence else ""
    yield f"{sentence}{place} [inferred]"
    for effect in incident["effects"]:
        yield effect_text(effect_of(effect))
    for name, weights in (("For it", _FOR), ("Against it", _AGAINST)):
        if texts := _of_weight(incident["evidence"], weights):
            yield f"{name}: {'; '.join(texts)}. [{incident['basis']}]"
    if incident["alternatives"] and incident["confidence"] < CERTAIN:
        others = ", ".join(f"{each['cause']} ({each['confidence']:.0%})" for each in incident["alternatives"])
        yield f"It may as well be: {others}. [inferred]"
    if incident["advice"] is not None:
        yield f"To change: {incident['advice']}"
    if incident["would_tell"] is not None:
        yield f"What would tell: {incident['would_tell']}"


def _of_weight(evidence: Iterable[Mapping[str, str]], weights: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(each["text"] for each in evidence if each["weight"] in weights))
