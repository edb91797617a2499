"""An error for a part of what a request names: the rest of the request, and the answer to both together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from kshim.faults.entries import (
    NAMES,
    NOTHING,
    Entry,
    Shape,
    TopicName,
    changed,
    entries_below,
    error_field,
    name_of,
    row_of,
)
from kshim_protocol.schema import MISSING, ZERO_UUID, Row, Struct

_BLANKS: Final[dict[str, object]] = {"records": b"", "metadata": "", "protocol_type": "", "protocol_data": ""}
"""What a refused entry has in fields without a default, where -1, null or nothing would not do."""
_BLANKS_BY_TYPE: Final[dict[str, object]] = {
    "string": "",
    "bytes": b"",
    "records": b"",
    "array": (),
    "boolean": False,
    "uuid": ZERO_UUID,
}


class Refusal(NamedTuple):
    """`code` at `level` of an answer in `version`, for each entry that `covers` is true of."""

    shape: Shape
    level: str
    version: int
    code: int
    covers: Callable[[Entry], bool]
    topic_name: TopicName

    def rest_of(self, request: Any) -> Any:
        """What is to be done of the request; None for nothing. What only reads is done as a whole, and at once."""
        if not self.shape.reads:
            rest, count = self._without(request, self.shape.request, self.shape.kinds, NOTHING)
            return rest if count else None
        return changed(request, max_wait_ms=0) if hasattr(request, "max_wait_ms") else request

    def of_all(self, request: Any, response_class: type[Struct]) -> Struct:
        """The answer to a request of which nothing is done."""
        return self._blank(response_class, {self.shape.response[0]: self._rows(request, response_class)})

    def merged_into(self, response: Any, request: Any) -> Any:
        """The answer to all of a request, from that to its rest."""
        depth = self._depth
        if self.shape.reads:
            response = self._marked(response, self.shape.response[:depth], self.shape.kinds, NOTHING)
            if not hasattr(request, "session_epoch"):
                return response
        rows = self._rows(request, type(response))
        return _merged(response, rows, self.shape.response[:depth], self.shape.kinds)

    @property
    def _depth(self) -> int:
        return self.shape.kinds.index(self.level) + 1

    def _rows(self, request: Any, response_class: type[Struct]) -> tuple[Struct, ...]:
        path = self.shape.response[: self._depth]
        return self._refused(request, self.shape.request, response_class, path, self.shape.kinds, NOTHING)

    def _entry(self, element: Any, kind: str, above: Entry) -> Entry:
        return above._replace(**{kind: name_of(element, kind, self.topic_name)})

    def _without(self, message: Any, path: tuple[str, ...], kinds: tuple[str, ...], above: Entry) -> tuple[Any, int]:
        """A copy without the entries refused, and how many entries are left in it."""
        kept = []
        count = 0
        for element in getattr(message, path[0]) or ():
            entry = self._entry(element, kinds[0], above)
            if path[1:]:
                part, part_count = self._without(element, path[1:], kinds[1:], entry)
                if part_count:
                    kept.append(part)
                    count += part_count
            elif not self.covers(entry):
                kept.append(element)
                count += 1
        return changed(message, **{path[0]: tuple(kept)}), count

    def _refused(
        self,
        request: Any,
        path: tuple[str, ...],
        response_class: type[Struct],
        response_path: tuple[str, ...],
        kinds: tuple[str, ...],
        above: Entry,
    ) -> tuple[Struct, ...]:
        """The rows of an answer for what is refused in a part of the request."""
        element_class = row_of(response_class, response_path[0]).element
        found = []
        for element in getattr(request, path[0]) or ():
            entry = self._entry(element, kinds[0], above)
            fields = _names(element, element_class, kinds[0])
            if len(response_path) > 1:
                rows = self._refused(element, path[1:], element_class, response_path[1:], kinds[1:], entry)
                if rows:
                    found.append(self._blank(element_class, {**fields, response_path[1]: rows}))
            elif self._is_covered(element, path[1:], kinds[1:], entry):
                found.append(self._blank(element_class, {**fields, error_field(element_class): self.code}))
        return tuple(found)

    def _marked(self, message: Any, path: tuple[str, ...], kinds: tuple[str, ...], above: Entry) -> Any:
        """An answer with the error in the rows refused, instead of what they say."""
        rows = []
        for element in getattr(message, path[0]) or ():
            entry = self._entry(element, kinds[0], above)
            row = element
            if path[1:]:
                row = self._marked(element, path[1:], kinds[1:], entry)
            elif self.covers(entry):
                cls = type(element)
                row = self._blank(cls, {**_names(element, cls, kinds[0]), error_field(cls): self.code})
            rows.append(row)
        return changed(message, **{path[0]: tuple(rows)})

    def _is_covered(self, element: Any, path: tuple[str, ...], kinds: tuple[str, ...], entry: Entry) -> bool:
        below = entries_below(element, path, kinds, entry, self.topic_name) if path else (entry,)
        return any(map(self.covers, below))

    def _blank(self, cls: type[Struct], fields: dict[str, Any]) -> Struct:
        """A message with these fields; the others have their default, or a value that says nothing."""
        for row in cls.info.rows:
            if row.name not in fields and row.default is MISSING:
                fields[row.name] = _blank_value(row, self.version)
        return cls(**fields)


def _blank_value(row: Row, version: int) -> Any:
    if row.name.endswith(("error_code", "time_ms")):
        return 0
    if row.name in _BLANKS:
        return _BLANKS[row.name]
    first, last = row.nullable
    return None if first <= version <= last else _BLANKS_BY_TYPE.get(row.type, -1)


def _names(element: Any, cls: type[Struct], kind: str) -> dict[str, Any]:
    """The fields of a row of class `cls` that say what it is about, as `element` does."""
    there = [row.name for row in cls.info.rows]
    own = next(name for name in NAMES[kind] if name in there)
    if not isinstance(element, Struct):
        return {own: element}
    found = {own: next(getattr(element, name) for name in NAMES[kind] if hasattr(element, name))}
    for name in ("topic_id", "group_instance_id"):
        if name in there and hasattr(element, name):
            found[name] = getattr(element, name)
    return found


def _merged(response: Any, refused: tuple[Struct, ...], path: tuple[str, ...], kinds: tuple[str, ...]) -> Any:
    """A response with the rows refused, instead of those about the same things or beside the others."""
    rows = list(getattr(response, path[0]) or ())
    places = {_key(row, kinds[0]): index for index, row in enumerate(rows)}
    for row in refused:
        place = places.get(_key(row, kinds[0]))
        if place is None:
            rows.append(row)
        elif path[1:]:
            rows[place] = _merged(rows[place], getattr(row, path[1]), path[1:], kinds[1:])
        else:
            rows[place] = row
    return changed(response, **{path[0]: tuple(rows)})


def _key(row: Any, kind: str) -> tuple[Any, ...]:
    names = (*NAMES[kind], "topic_id", "group_instance_id")
    return tuple(getattr(row, name) for name in names if hasattr(row, name))
