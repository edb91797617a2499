"""Batch after batch into a directory: the order in which files are written, and what the next run makes of a killed one.

It knows no Spark: what copies records is passed in. The order, and why, stand in `docs/design/landing.md`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

from kshim_pipeline.errors import PipelineError
from kshim_pipeline.inputs.kafka import Cluster
from kshim_pipeline.land.batches import (
    BASE_EVERY,
    COMPACTION,
    NOTHING,
    Batch,
    Batches,
    Landed,
    LandedFile,
    Offsets,
    extended,
    offsets_in,
)
from kshim_pipeline.land.checks import Loss, Seen, losses, require_same
from kshim_pipeline.land.compaction import compacted, compaction, expired, to_rewrite
from kshim_pipeline.records import DECODER

OFFSETS_PER_BATCH: Final = 2_000_000
"""What a killed run does again at most."""


class CopyFailed(PipelineError):
    """Not all records of a batch could be copied; nothing of it is landed."""


class Copying(Protocol):
    """Copies records of a cluster into files."""

    def look(self) -> Seen:
        """The cluster's identity and offsets, now. Raises PipelineError: it does not answer, or lacks a topic."""

    def copy(self, attempt: str, begin: Offsets, end: Offsets, source: str) -> int:
        """Copy the records from `begin` up to `end` to the directory `attempt`; how many they are.

        Raises CopyFailed: the cluster does not have all these offsets any more, or something else went wrong.
        """

    def rewrite(self, attempt: str, files: tuple[LandedFile, ...]) -> None:
        """Write the records of landed files to the directory `attempt`, as few files."""

    def files(self, attempt: str) -> tuple[LandedFile, ...]:
        """What `copy` or `rewrite` wrote to `attempt`, and how many records are read again from each file."""


class Step(NamedTuple):
    """What is landed next. Records are copied from `begin` up to `end`; `lost` were deleted before they could be."""

    plan: Batch
    begin: Offsets
    end: Offsets
    lost: tuple[Loss, ...]


def next_step(
    landed: Landed, seen: Seen, cluster: Cluster, folder: str, *, up_to: Offsets | None = None
) -> Step | None:
    """The next batch, at most up to the offsets `up_to`; None: nothing is new.

    Raises PipelineError: it is not the cluster, or not the log, of which records were landed.
    """
    require_same(landed, seen.identity, cluster, folder)
    lost = losses(landed.end, seen.spans, folder)
    new = {}
    for topic, partitions in seen.spans.items():
        for at, span in partitions.items():
            known = landed.end.get(topic, {}).get(at)
            start = max(span.start, known or 0)
            end = span.end if up_to is None else min(span.end, max(up_to.get(topic, {}).get(at, 0), start))
            if known is None or end > known:  # an empty one, too: what it will have lost is told from here
                new[topic, at] = start, end
    if not new:
        return None
    share = max(OFFSETS_PER_BATCH // len(new), 1)
    begin: dict[str, dict[int, int]] = {}
    ends: dict[str, dict[int, int]] = {}
    for (topic, at), (start, end) in new.items():
        begin.setdefault(topic, {})[at] = start
        ends.setdefault(topic, {})[at] = min(end, start + share)
    plan = Batch(
        landed.number,
        landed.number % BASE_EVERY == 0,
        seen.identity.cluster_id or landed.cluster_id,
        landed.source or cluster.name,
        {**landed.topic_ids, **seen.identity.topic_ids},  # a base stands for all batches before it
        landed.end,
        extended(landed.end, ends),
        (),
        DECODER,
    )
    return Step(plan, begin, ends, tuple(lost))


class Landing:
    """Lands into one directory; `landed` is what it has. `say` is given sentences for the user."""

    def __init__(
        self, batches: Batches, copying: Copying, cluster: Cluster, say: Callable[[str], object] = print
    ) -> None:
        self._batches = batches
        self._copying = copying
        self._cluster = cluster
        self._say = say
        self.landed = NOTHING

    def take_up(self) -> Seen:
        """Find out what is landed, and land what earlier runs wrote whole and did not name; what the cluster has now.

        Raises PipelineError: something of the directory is gone, or it is of another cluster.
        """
        seen = self._copying.look()
        described: list[Batch] = []
        self.landed = self._batches.landed(described.append)
        require_same(self.landed, seen.identity, self._cluster, self._batches.address)
        losses(self.landed.end, seen.spans, self._batches.address)
        for batch in described:
            self._batches.name(batch)
            self._say_taken_up(batch)
        while (found := self._batches.unfinished(self.landed)) is not None:
            attempt, plan = found
            self._say_taken_up(self._finish(attempt, plan, self._copying.files(attempt)))
        return seen

    def step(self, up_to: Offsets | None = None) -> int | None:
        """Land a batch of what is new, at most up to the offsets `up_to`: how many offsets it covers; None: nothing is new.

        Raises PipelineError: it is another cluster or log, or copying failed.
        """
        folder = self._batches.address
        step = next_step(self.landed, self._copying.look(), self._cluster, folder, up_to=up_to)
        if step is None:
            return None
        attempt = self._batches.new_attempt(step.plan)
        files: tuple[LandedFile, ...] = ()
        if covered := offsets_in(step.begin, step.end):
            try:
                copied = self._copying.copy(attempt, step.begin, step.end, step.plan.source)
            except CopyFailed:
                if losses(step.begin, self._copying.look().spans, folder):
                    return 0  # records were deleted while they were copied: the next step begins after them
                raise
            files = self._copying.files(attempt)
            if (counted := sum(file.records for file in files)) != copied:
                raise PipelineError(f"{copied} records were copied to {folder}/{attempt}, and {counted} are there")
        if step.lost:
            self._say(_sentence(step.lost))
        self._finish(attempt, step.plan, files)
        return covered

    def compact(self, now_ms: int) -> int:
        """Write small files again as one, and files that lack columns; delete what was replaced a day ago. How many were written again.

        `now_ms`: ms since 1970. Raises PipelineError: another run landed meanwhile, or not all records were written.
        """
        self._batches.delete([each.path for each in expired(self.landed, now_ms)])
        self._batches.delete(self._batches.left_of_compactions(self.landed))
        count = 0
        while old := to_rewrite(self.landed):
            plan = compaction(self.landed)
            attempt = self._batches.new_attempt(plan, COMPACTION)
            self._copying.rewrite(attempt, old)
            new = self._copying.files(attempt)
            there, written = (sum(file.records for file in files) for files in (old, new))
            if there != written:
                raise PipelineError(f"{attempt} has {written} records of {there}: nothing was replaced by it")
            batch = compacted(plan, self.landed, old, new, now_ms)
            self._batches.add(attempt, batch)
            self.landed = self.landed.followed_by(batch)
            count += len(old)
        return count

    def _finish(self, attempt: str, plan: Batch, files: tuple[LandedFile, ...]) -> Batch:
        """Land files that are written, if the cluster is the same as before they were."""
        seen = self._copying.look()
        require_same(self.landed.followed_by(plan), seen.identity, self._cluster, self._batches.address)
        losses(plan.end, seen.spans, self._batches.address)
        batch = plan.with_files(self.landed, files)
        self._batches.add(attempt, batch)
        self.landed = self.landed.followed_by(batch)
        return batch

    def _say_taken_up(self, batch: Batch) -> None:
        if batch.begin == batch.end:
            return  # a compaction: its records were landed before
        records = sum(file.records for file in batch.files if file.path.startswith(_directory_of(batch)))
        self._say(
            f"Batch {batch.number} was written by a run that did not finish it; its {records} records are landed now."
        )


def _directory_of(batch: Batch) -> str:
    return f"records/batch={batch.number}-"


def _sentence(lost: tuple[Loss, ...]) -> str:
    return (
        f"Lost: {sum(loss.end - loss.start for loss in lost)} offsets were deleted before they could be landed "
        f"({'; '.join(map(str, lost))}). Land more often, or retain records longer (retention.ms, DeleteRecords)."
    )
