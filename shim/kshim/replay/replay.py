"""Replays a recording in this process, in virtual time, and tells what is different."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from typing import IO, NamedTuple

from kshim.broker.cluster import Cluster
from kshim.coordinator.step import Event, Now
from kshim.recording.format import Entry, Kind, Reader, RecordingError
from kshim.replay.against import WirePlayer, needs_of, prepare
from kshim.replay.comparison import AnswerDifference, Comparison
from kshim.replay.player import Player, Turn, turns
from kshim.wording import counted


class Replay(NamedTuple):
    """How a replay went. `notes` says what was not played or compared, `damage` where the recording ends before its
    end (None: it does not), `defects` are exceptions that should not have been."""

    differences: list[AnswerDifference]
    notes: list[str]
    left_out_notes: int
    defects: list[BaseException]
    damage: str | None
    is_ended: bool
    request_count: int
    compared_count: int
    connection_count: int
    recorded_ms: int
    seconds: float


class Recording:
    """A recording that is being read: how it began, and what followed. Raises RecordingError."""

    def __init__(self, file: IO[bytes]) -> None:
        self.reader = Reader(file)
        entries = iter(self.reader)
        first = next(entries, None)
        if first is None or first.kind != Kind.START:
            raise RecordingError("this recording does not say how it began: it was cut off too early")
        self.start = first
        self.stored: list[Entry] = []
        following: list[Entry] = []
        for entry in entries:
            if entry.kind != Kind.STORED:
                following.append(entry)
                break
            self.stored.append(entry)
        self.entries: Iterator[Entry] = chain(following, entries)


def replay(
    file: IO[bytes],
    settings: Mapping[str, str] | None = None,
    *,
    timing_ms: int | None = None,
    on_event: Callable[[Event], None] = lambda event: None,
    on_turn: Callable[[Turn], None] = lambda turn: None,
    on_end: Callable[[Cluster, Now], None] = lambda cluster, now: None,
) -> Replay:
    """Play a recording to a fresh cluster and compare every answer.

    `settings` are configuration keys with other values than recorded, `timing_ms` as for `Comparison`; `on_event` gets
    the events of the cluster's coordinators, `on_turn` what was recorded, `on_end` the cluster as it is at the end, before it is closed.
    Raises RecordingError, ConfigError, LogError.
    """
    began = time.perf_counter()
    recording = Recording(file)
    comparison = Comparison(timing_ms=timing_ms)
    player = Player(recording.start, recording.stored, comparison, settings, on_event)
    last = recording.start
    try:
        for turn in turns(recording.entries):
            comparison.expect(turn)
            player.play(turn)
            on_turn(turn)
            last = turn.entry
        on_end(player.cluster, player.now)
    except (LookupError, TypeError, ValueError) as error:
        sentence = f"what follows {counted(comparison.request_count, 'request')} cannot be played: {error!r}"
        raise RecordingError(sentence) from error
    finally:
        player.end()
    comparison.finish()
    recorded_ms = last.now.mono_ms - recording.start.now.mono_ms
    return _result(comparison, player.defects, recording.reader, recorded_ms, time.perf_counter() - began)


def replay_against(
    file: IO[bytes],
    address: tuple[str, int],
    *,
    speed: int = 1,
    timing_ms: int | None = None,
    on_turn: Callable[[Turn], None] = lambda turn: None,
) -> Replay:
    """Play a recording to a running broker, in real time or `speed` times faster, and compare every answer.

    What says which broker it is, the wording of errors, and what a Fetch happened to find are not compared. Raises
    RecordingError; BrokerGone, OSError, TimeoutError and ProtocolError when the broker cannot be reached or used.
    """
    needs = needs_of(Recording(file).entries)
    file.seek(0)
    recording = Recording(file)
    comparison = Comparison(timing_ms=timing_ms, other_broker=True)
    prepare(recording.start, needs, address, comparison.ids, comparison.not_played)
    began = time.perf_counter()
    player = WirePlayer(recording.start, address, comparison, speed=speed)
    last = recording.start
    try:
        for turn in turns(recording.entries):
            comparison.expect(turn)
            player.play(turn)
            on_turn(turn)
            last = turn.entry
        player.end()
    finally:
        player.close()
    comparison.finish()
    recorded_ms = last.now.mono_ms - recording.start.now.mono_ms
    return _result(comparison, [], recording.reader, recorded_ms, time.perf_counter() - began)


def _result(
    comparison: Comparison, defects: list[BaseException], reader: Reader, recorded_ms: int, seconds: float
) -> Replay:
    return Replay(
        comparison.found,
        comparison.notes,
        comparison.left_out_notes,
        defects,
        reader.damage,
        reader.is_ended,
        comparison.request_count,
        comparison.compared_count,
        comparison.connection_count,
        recorded_ms,
        seconds,
    )
