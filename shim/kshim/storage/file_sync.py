"""Making a log in files survive power loss, off the loop."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING

from kshim.storage.log import LogError

if TYPE_CHECKING:
    from kshim.storage.os_calls import OsCalls
    from kshim.storage.segment import Segment

__all__ = ["FileSync", "SyncOutcome"]

SyncOutcome = Callable[["FileSync", LogError | None], None]
"""What the log does once it is known how a sync went; None: it went well."""


class FileSync:
    """One sync of one log: `segments`, oldest first, then the names in `folders`.

    Everything `run` touches is its own: descriptors are duplicates, so that the log may append, roll, or close meanwhile.
    """

    __slots__ = (
        "_calls",
        "_descriptors",
        "_outcome",
        "end_offset",
        "folders",
        "has_active_data",
        "is_void",
        "segments",
    )

    def __init__(
        self,
        segments: list[Segment],
        folders: tuple[str, ...],
        *,
        end_offset: int,
        has_active_data: bool,
        calls: OsCalls,
        outcome: SyncOutcome,
    ) -> None:
        self.segments = segments
        self.folders = folders
        self.end_offset = end_offset
        self.has_active_data = has_active_data
        self.is_void = False
        """Set when the log was cut meanwhile: what was synced says nothing of what it holds now."""
        self._calls = calls
        self._outcome = outcome
        self._descriptors: list[tuple[str, int]] = []
        try:
            for segment in segments:
                self._descriptors.append((segment.path, segment.duplicate()))
        except BaseException:
            self._close()
            raise

    def run(self) -> None:
        """Sync; blocks, in any thread, once. Raises LogError, after which nothing is known of what is on the disk."""
        try:
            for path, descriptor in self._descriptors:
                try:
                    if descriptor >= 0:
                        self._calls.fdatasync(descriptor)
                    else:
                        self._sync_closed(path)
                except OSError as error:
                    raise LogError(f"cannot sync {path}: {error.strerror or error}") from error
            for folder in self.folders:
                try:
                    self._calls.sync_directory(folder)
                except FileNotFoundError:  # the log was deleted since
                    break
                except OSError as error:
                    raise LogError(f"cannot sync {folder}: {error.strerror or error}") from error
        finally:
            self._close()

    def finish(self) -> None:
        """`run` has returned. On the loop."""
        self._outcome(self, None)

    def failed(self, error: LogError) -> None:
        """`run` has raised `error`. On the loop."""
        self._outcome(self, error)

    def _sync_closed(self, path: str) -> None:
        try:
            descriptor = self._calls.open_existing(path)
        except FileNotFoundError:  # removed since, and so nothing that must survive
            return
        try:
            self._calls.fdatasync(descriptor)
        finally:
            self._calls.close(descriptor)

    def _close(self) -> None:
        for _, descriptor in self._descriptors:
            if descriptor >= 0:
                with contextlib.suppress(OSError):
                    self._calls.close(descriptor)
        self._descriptors = []
