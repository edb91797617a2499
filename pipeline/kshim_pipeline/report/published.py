"""Results that are published all at once: a file names the directory that has them, and readers go by the newest such file.

It knows no Spark. The order in which things are written stands in `docs/design/results.md`.
"""

from __future__ import annotations

import json
import uuid
from typing import Final, NamedTuple

from kshim_pipeline.errors import EXIT_UNAVAILABLE, EXIT_USAGE, PipelineError
from kshim_pipeline.folder import Folder

_PUBLISHED: Final = "published"
_RUNS: Final = "runs"
_STARTED: Final = "_started"
"""Written first into the directory of a run, so that one that never ended is found."""
_OF_EARLIER_VERSION: Final = ("tables", "analyses", "incidents", "findings", "known", "strategy_costs", "left_out.txt")
_MARK_OF_EARLIER_VERSION: Final = "sources.txt"
_VERSION: Final = 1
_KEPT: Final = 2
"""The newest results, and those before, which a report that has begun may still read."""
_DIGITS: Final = 20


class Publication(NamedTuple):
    """The results of a run of `analyse`, which are complete.

    `run`: their directory. `tables`: what it has, as paths below `run`. `sources`: what was read, for people; `left_out`: what
    could not be, in sentences. `made_of`: a text that is another one whenever the results may be; None: nobody can tell.
    """

    number: int
    run: str
    tables: tuple[str, ...]
    sources: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    made_of: str | None = None

    @property
    def day(self) -> str:
        """The day whose results these are, as `published_in` found them; empty: they are of all."""
        first = self.run.partition("/")[0]
        return "" if first == _RUNS else first

    def has(self, path: str) -> bool:
        """Whether it has the table."""
        return path in self.tables

    def text(self) -> str:
        """JSON, of which `publication_of` makes the same."""
        return json.dumps({"v": _VERSION, **self._asdict()}, indent=1)


def publication_of(text: str) -> Publication:
    """Raises ValueError: not the text of a publication, or of a later version."""
    try:
        found = json.loads(text)
        if found["v"] != _VERSION:
            raise ValueError(f"version {found['v']} is not known")
        names = ("tables", "sources", "left_out")
        lists = {name: tuple(map(str, found[name])) for name in names}
        return Publication(int(found["number"]), str(found["run"]), made_of=found["made_of"], **lists)
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"no publication: {error!r}") from error


class Publications:
    """The results in a directory."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder

    def newest(self) -> Publication | None:
        """What readers read; None: nothing was ever published. Raises PipelineError: it cannot be read."""
        numbers = self._numbers()
        return _read(self._folder, _path(numbers[-1])) if numbers else None

    def required(self) -> Publication:
        """The newest. Raises PipelineError: there is none, or it cannot be read."""
        newest = self.newest()
        if newest is None:
            address = self._folder.address
            raise PipelineError(
                f"{address} contains no results; create them with `kshim pipeline analyse --out {address}`",
                EXIT_UNAVAILABLE,
            )
        return newest

    def start(self) -> Publication:
        """The next publication, without its tables: its `run` is a new directory, which nobody reads yet."""
        number = (self._numbers() or [0])[-1] + 1
        run = f"{_RUNS}/{number}-{uuid.uuid4().hex[:12]}"
        self._folder.write_new(f"{run}/{_STARTED}", "")
        return Publication(number, run, ())

    def publish(self, publication: Publication) -> None:
        """From now on readers find these results, whole. Results that are older than those before are deleted.

        Raises PipelineError: another run published first.
        """
        try:
            self._folder.write_new(_path(publication.number), publication.text())
        except FileExistsError as error:
            raise PipelineError(
                f"Another run published results in {self._folder.address} at the same time; those of this one are left out"
            ) from error
        self._delete_old(publication.number)

    def _delete_old(self, newest: int) -> None:
        numbers = [number for number in self._numbers() if number <= newest]
        for number in numbers[:-_KEPT]:
            self._folder.delete(_path(number))
        kept = {publication_of(self._folder.read_text(_path(number))).run for number in numbers[-_KEPT:]}
        for run in self._runs():
            if run not in kept and _number_of(run) <= newest:  # those of later ones may be at work
                self._folder.delete(run)
        if self._folder.find(_MARK_OF_EARLIER_VERSION):
            for name in (*_OF_EARLIER_VERSION, _MARK_OF_EARLIER_VERSION):
                self._folder.delete(name)

    def _runs(self) -> list[str]:
        """The directories of runs. One that was killed as it began, or as it was deleted, may have any of its files."""
        deep = ("*", "*/*", "*/*/*")
        names = [name for pattern in deep for name in self._folder.find(f"{_RUNS}/*/{pattern}")]
        runs = {"/".join(name.split("/")[:2]) for name in names}
        return sorted(run for run in runs if _number_of(run) > 0)

    def _numbers(self) -> list[int]:
        names = [name.rpartition("/")[2].removesuffix(".json") for name in self._folder.find(f"{_PUBLISHED}/*.json")]
        return sorted(int(name) for name in names if name.isdecimal())


def require_all_or_days(folder: Folder, *, is_of_days: bool) -> None:
    """Raises PipelineError: `folder` has results of the other kind, of all that was read or of days, which would be mixed up."""
    if folder.find(f"{_PUBLISHED}/*.json" if is_of_days else f"*/{_PUBLISHED}/*.json"):
        there = "all that was read" if is_of_days else "days"
        raise PipelineError(f"{folder.address} has results of {there}: give these a directory of their own", EXIT_USAGE)


def published_in(folder: Folder) -> list[Publication]:
    """The newest results in `folder`, or those of each of its days, in order, with their `run` from `folder` on.

    Raises PipelineError: there are none, or they cannot be read.
    """
    newest = {name.partition("/")[0]: name for name in folder.find(f"*/{_PUBLISHED}/*.json")}
    if not newest:
        return [Publications(folder).required()]
    return [(each := _read(folder, name))._replace(run=f"{day}/{each.run}") for day, name in sorted(newest.items())]


def _read(folder: Folder, name: str) -> Publication:
    """Raises PipelineError."""
    try:
        return publication_of(folder.read_text(name))
    except (OSError, ValueError) as error:
        raise PipelineError(
            f"{folder.address}/{name} cannot be read ({error}); delete it to have the results before", EXIT_UNAVAILABLE
        ) from error


def _number_of(run: str) -> int:
    """0: it is no directory of a run."""
    number = run.rpartition("/")[2].partition("-")[0]
    return int(number) if number.isdecimal() else 0


def _path(number: int) -> str:
    return f"{_PUBLISHED}/{number:0{_DIGITS}}.json"
