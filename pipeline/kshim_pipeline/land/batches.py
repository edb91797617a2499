"""What was landed: batches, each a file that names records and the offsets they are from.

The order in which a batch is written, and what each loss means, stand in `docs/design/landing.md`.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from kshim_pipeline.errors import EXIT_UNAVAILABLE, PipelineError
from kshim_pipeline.folder import Folder

Offsets = Mapping[str, Mapping[int, int]]
"""By topic and partition."""

RECORDS: Final = "records"
PLAN: Final = "_plan.json"
"""A batch without its files, written before them."""
RECOVERY: Final = "_recovery.json"
"""The same, of a recovery, which may have to be compared again."""
DESCRIPTION: Final = "_batch.json"
"""The batch, written after its files were counted and the cluster was found to be the same."""
COMPACTION: Final = "_compaction.json"
"""The same, of files that hold again what others hold: nothing is lost if they are never named."""
_NOTES: Final = (DESCRIPTION, PLAN, RECOVERY, COMPACTION)
_BATCHES: Final = "batches"
_SUCCESS: Final = "_SUCCESS"
"""Spark's own, written when all files of a directory are."""
_VERSION: Final = 2
"""Version 1 has neither `decoder` nor `replaced`."""
BASE_EVERY: Final = 50
"""So many batches are read at most to know what is landed."""
_DIGITS: Final = 20


class LandedFile(NamedTuple):
    """A Parquet file: `path` from the directory on, its topic, the day of its records (UTC), how many they are.

    `decoder`: which version of the decoder made its columns (`kshim_pipeline.records.DECODER`); 0: it has the bytes only.
    """

    path: str
    topic: str
    day: str
    records: int
    decoder: int = 0


class Replaced(NamedTuple):
    """A file whose records are in another one since `at_ms` (ms since 1970). It is there for those who read it still."""

    path: str
    at_ms: int


class Batch(NamedTuple):
    """One step of landing: all offsets from `begin` up to `end`, in `files`.

    `begin` is the `end` of the batch before it. A base names the files of all earlier batches, too, and those that are
    `replaced`. `cluster_id` and ids of topics are None or absent where the cluster has none. `decoder`: of its own files.
    """

    number: int
    is_base: bool
    cluster_id: str | None
    source: str
    topic_ids: Mapping[str, str]
    begin: Offsets
    end: Offsets
    files: tuple[LandedFile, ...]
    decoder: int = 0
    replaced: tuple[Replaced, ...] = ()

    def text(self) -> str:
        """JSON, of which `batch_of` makes the same batch."""
        lists = {name: [each._asdict() for each in getattr(self, name)] for name in ("files", "replaced")}
        return json.dumps({"v": _VERSION, **self._asdict(), **lists}, indent=1)

    def with_files(self, landed: Landed, files: Sequence[LandedFile]) -> Batch:
        """The batch after `landed`, whose own files are `files`."""
        own = tuple(file._replace(decoder=self.decoder) for file in files)
        if not self.is_base:
            return self._replace(files=own)
        return self._replace(files=(*landed.files.values(), *own), replaced=landed.replaced)


class Landed(NamedTuple):
    """What all batches say together: `end` is where the next one begins. `files` by their paths."""

    number: int
    cluster_id: str | None
    source: str | None
    topic_ids: Mapping[str, str]
    end: Offsets
    files: Mapping[str, LandedFile]
    replaced: tuple[Replaced, ...] = ()

    def followed_by(self, batch: Batch) -> Landed:
        """With one more batch."""
        files = {file.path: file for file in batch.files}
        return Landed(
            batch.number + 1,
            batch.cluster_id,
            batch.source,
            {**self.topic_ids, **batch.topic_ids},
            batch.end,
            files if batch.is_base else {**self.files, **files},
            batch.replaced if batch.is_base else self.replaced,
        )


NOTHING: Final = Landed(0, None, None, {}, {}, {})


def batch_of(text: str) -> Batch:
    """Raises ValueError: not the text of a batch, or of a later version."""
    try:
        found = json.loads(text)
        if found["v"] not in (1, _VERSION):
            raise ValueError(f"version {found['v']} is not known")
        return Batch(
            found["number"],
            found["is_base"],
            found["cluster_id"],
            found["source"],
            found["topic_ids"],
            _offsets(found["begin"]),
            _offsets(found["end"]),
            tuple(LandedFile(**file) for file in found["files"]),
            found.get("decoder", 0),
            tuple(Replaced(**each) for each in found.get("replaced", ())),
        )
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"not a batch: {error!r}") from error


def _offsets(found: Mapping[str, Mapping[str, int]]) -> dict[str, dict[int, int]]:
    return {topic: {int(at): offset for at, offset in partitions.items()} for topic, partitions in found.items()}


class Batches:
    """The batches of a directory of landed records."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder

    @property
    def address(self) -> str:
        """Where the directory is."""
        return self._folder.address

    def landed(self, then: Callable[[Batch], object] = lambda _: None) -> Landed:
        """What is landed. `then` is given each batch that was described, and is not named or no longer.

        Raises PipelineError: something is gone, or contradicts another; the message has the way out.
        """
        described = self._directories(DESCRIPTION)  # before the names: what is described now is named then, or free
        named = self._named()
        landed = NOTHING
        number = min(named, default=0)
        if number and not named[number].is_base:
            number = 0
        while (batch := named.get(number) or self._next(landed, described, number)) is not None:
            if not batch.is_base and batch.begin != landed.end:
                raise self._contradiction(f"batch {number} does not begin where the one before it ended")
            if number not in named:
                then(batch)
            landed = landed.followed_by(batch)
            number += 1
        if number in described:
            raise self._contradiction(f"batch {number} does not begin where the one before it ended")
        if there := [other for other in (*named, *described) if other > number]:
            raise self._contradiction(f"batch {number} is gone, although batch {max(there)} is there")
        if not number and self._of_earlier_version():
            raise self._contradiction(
                "nothing says up to which offsets its records are landed: an earlier version of kshim wrote them"
            )
        if missing := sorted(landed.files.keys() - self._files()):
            records = sum(landed.files[path].records for path in missing)
            raise self._contradiction(f"{missing[0]} is gone ({len(missing)} files with {records} records)")
        return landed

    def unfinished(self, landed: Landed) -> tuple[str, Batch] | None:
        """A directory whose files a killed run wrote whole, and its plan; None: there is none.

        Raises PipelineError: nothing says what its files are.
        """
        planned = self._attempts(PLAN)
        others = self._attempts(RECOVERY) | self._attempts(COMPACTION)
        for number, attempts in sorted(self._directories(_SUCCESS).items()):
            for attempt in attempts:
                if number < landed.number or attempt in others:
                    continue
                if attempt not in planned:
                    raise self._contradiction(f"nothing says of which offsets the files of {attempt} are")
                plan = self._read(f"{attempt}/{PLAN}", number)
                if (plan.number, plan.begin) != (landed.number, landed.end):
                    raise self._contradiction(f"{attempt} does not begin where the batch before it ended")
                return attempt, plan
        return None

    def sound(self) -> Landed:
        """What can be relied on if something is gone: batches that can be read and do not overlap.

        Its `number` is above every one that was used. Of its files, some may be gone.
        """
        names, directories = self._names(), self._directories(DESCRIPTION)
        named = {number: batch for number in names if (batch := self._readable(_path(number), number)) is not None}
        described = {
            number: [
                batch
                for attempt in attempts
                if (batch := self._readable(f"{attempt}/{DESCRIPTION}", number)) is not None
            ]
            for number, attempts in directories.items()
        }
        batches = [*named.values(), *(each for number in described.keys() - named.keys() for each in described[number])]
        newest_base = max((batch.number for batch in batches if batch.is_base), default=0)
        found = NOTHING
        by_number = sorted(
            batches,
            key=lambda batch: (batch.number, batch.end not in _begins(described, batch), batch.begin == batch.end),
        )
        for batch in by_number:
            if batch.number < max(newest_base, found.number):
                continue
            if not batch.is_base and not _is_after(batch.begin, found.end):
                continue
            found = found.followed_by(batch)
        used = (*names, *directories, *self._directories(_SUCCESS))
        return found._replace(number=max((found.number, *(number + 1 for number in used))))

    def unnamed_files(self, landed: Landed, require_same: Callable[[Landed], object]) -> list[str]:
        """Files of records that `landed` does not have, those of earlier versions too.

        `require_same` is asked of each directory that has a note of its cluster. It raises PipelineError if that is
        another one: so does this, or it leaves the directory out if it was never finished.
        """
        files = self.files() - landed.files.keys()
        finished = {attempt for attempts in self._directories(_SUCCESS).values() for attempt in attempts}
        for note in _NOTES:
            for number, attempts in self._directories(note).items():
                for attempt in attempts:
                    if (batch := self._readable(f"{attempt}/{note}", number)) is None:
                        continue
                    try:
                        require_same(NOTHING.followed_by(batch))
                    except PipelineError:
                        if attempt in finished:
                            raise
                        files = {file for file in files if not file.startswith(f"{attempt}/")}
        return sorted(files)

    def left_of_compactions(self, landed: Landed) -> list[str]:
        """Directories of compactions that were killed or came too late: they hold again what others hold, and were never named."""
        known = landed.files.keys() | {each.path for each in landed.replaced}
        left = {path.partition("/topic=")[0] for path in self._files() - known}
        return sorted(attempt for attempt in left & self._attempts(COMPACTION) if _number_of(attempt) < landed.number)

    def delete(self, names: Sequence[str]) -> None:
        """Delete files of records, or directories of them, that `landed` does not name; one that is gone is no error."""
        for name in names:
            self._folder.delete(name)

    def files(self) -> set[str]:
        """All files of records that are there, those of earlier versions too."""
        return {*self._files(), *self._of_earlier_version()}

    def is_whole(self) -> bool:
        """Whether `landed` and `unfinished` have nothing to say."""
        try:
            return self.unfinished(self.landed()) is None
        except PipelineError:
            return False

    def new_attempt(self, plan: Batch, note: str = PLAN) -> str:
        """The name of a new directory for the files of a batch, which has its plan."""
        attempt = f"{RECORDS}/batch={plan.number}-{uuid.uuid4().hex[:12]}"
        self._folder.write_new(f"{attempt}/{note}", plan.text())
        return attempt

    def add(self, attempt: str, batch: Batch) -> None:
        """Describe the batch in its own directory, then name it: its records are landed.

        Raises PipelineError: its number is taken, or another run took up the directory.
        """
        try:
            self._folder.write_new(f"{attempt}/{DESCRIPTION}", batch.text())
        except FileExistsError as error:
            raise self._another_run(batch) from error
        self.name(batch)

    def name(self, batch: Batch) -> None:
        """From now on the records of a batch that is described are landed. Raises PipelineError: its number is taken."""
        try:
            self._folder.write_new(_path(batch.number), batch.text())
        except FileExistsError as error:
            raise self._another_run(batch) from error

    def _names(self) -> list[int]:
        """The numbers of batches that are named, the newest first."""
        names = [name.rpartition("/")[2].removesuffix(".json") for name in self._folder.find(f"{_BATCHES}/*.json")]
        return sorted((int(name) for name in names if name.isdecimal()), reverse=True)

    def _named(self) -> dict[int, Batch]:
        """By number, from the newest base on; older ones are not needed."""
        found: dict[int, Batch] = {}
        for number in self._names():
            found[number] = self._read(_path(number), number)
            if found[number].is_base:
                break
        return found

    def _directories(self, holding: str) -> dict[int, list[str]]:
        """The directories of batches that have a file of this name, by number."""
        found: dict[int, list[str]] = {}
        for attempt in sorted(self._attempts(holding)):
            found.setdefault(_number_of(attempt), []).append(attempt)
        return found

    def _attempts(self, holding: str) -> set[str]:
        """The same, without their numbers."""
        names = self._folder.find(f"{RECORDS}/batch=*/{holding}")
        return {attempt for name in names if _number_of(attempt := name.rpartition("/")[0]) >= 0}

    def _next(self, landed: Landed, directories: Mapping[int, Sequence[str]], number: int) -> Batch | None:
        """Of the batches that were described, the one that follows; of two, that which another follows, or no compaction."""
        candidates = [batch for batch in self._described(directories, number) if batch.begin == landed.end]
        if len(candidates) > 1:
            later = {number + 1: self._described(directories, number + 1)}
            candidates.sort(key=lambda batch: (batch.end not in _begins(later, batch), batch.begin == batch.end))
        return candidates[0] if candidates else None

    def _described(self, directories: Mapping[int, Sequence[str]], number: int) -> list[Batch]:
        return [self._read(f"{attempt}/{DESCRIPTION}", number) for attempt in directories.get(number, ())]

    def _files(self) -> set[str]:
        return set(self._folder.find(f"{RECORDS}/batch=*/topic=*/day=*/*.parquet"))

    def _of_earlier_version(self) -> list[str]:
        return self._folder.find(f"{RECORDS}/topic=*/day=*/*.parquet")

    def _readable(self, name: str, number: int) -> Batch | None:
        try:
            return self._read(name, number)
        except PipelineError:
            return None

    def _read(self, name: str, number: int) -> Batch:
        try:
            batch = batch_of(self._folder.read_text(name))
            if batch.number != number:
                raise ValueError(f"it is batch {batch.number}")
        except (OSError, ValueError) as error:
            raise self._contradiction(f"{name} cannot be read ({error})") from error
        return batch

    def _contradiction(self, what: str) -> PipelineError:
        return PipelineError(
            f"{self.address}: {what}. `kshim pipeline land --recover` compares the directory with the cluster, and "
            "lands what is missing",
            EXIT_UNAVAILABLE,
        )

    def _another_run(self, batch: Batch) -> PipelineError:
        return PipelineError(
            f"Another run landed batch {batch.number} into {self.address} at the same time. Nothing is lost; let one run "
            "at a time use it"
        )


def _begins(described: Mapping[int, Sequence[Batch]], batch: Batch) -> list[Offsets]:
    """Where the batches of the next number begin."""
    return [other.begin for other in described.get(batch.number + 1, ())]


def _is_after(begin: Offsets, end: Offsets) -> bool:
    return all(
        begin.get(topic, {}).get(at, 0) >= offset
        for topic, partitions in end.items()
        for at, offset in partitions.items()
    )


def _number_of(attempt: str) -> int:
    """The number of the batch that a directory is of; -1: it is no such directory."""
    number = attempt.partition("=")[2].partition("-")[0]
    return int(number) if number.isdecimal() else -1


def _path(number: int) -> str:
    return f"{_BATCHES}/{number:0{_DIGITS}}.json"


def offsets_in(begin: Offsets, end: Offsets) -> int:
    """How many offsets there are from `begin` up to `end`."""
    return sum(
        offset - begin.get(topic, {}).get(partition, 0)
        for topic, partitions in end.items()
        for partition, offset in partitions.items()
    )


def extended(landed: Offsets, end: Offsets) -> dict[str, dict[int, int]]:
    """The offsets of both; those of `end` count."""
    return {topic: {**landed.get(topic, {}), **end.get(topic, {})} for topic in {**landed, **end}}


def furthest(first: Offsets, second: Offsets) -> dict[str, dict[int, int]]:
    """The offsets of both; of two, the greater."""
    return {
        topic: {
            at: max(first.get(topic, {}).get(at, 0), second.get(topic, {}).get(at, 0))
            for at in {**first.get(topic, {}), **second.get(topic, {})}
        }
        for topic in {**first, **second}
    }
