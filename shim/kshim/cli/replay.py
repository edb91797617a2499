"""`kshim replay`: opens the recording, plays it, prints the report, and writes pages of its groups."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO

from kshim.broker.cluster import Cluster
from kshim.cli.exit_codes import EXIT_FAILURE, EXIT_OK, EXIT_UNAVAILABLE, EXIT_USAGE, CommandError
from kshim.cli.options import ReplayOptions
from kshim.config.broker_config import BrokerConfig, ConfigError, known_key, unknown_key
from kshim.coordinator.step import Now
from kshim.recording.format import RecordingError
from kshim.replay.player import Turn
from kshim.replay.replay import Recording, Replay, replay, replay_against
from kshim.replay.report import as_json, as_text
from kshim.replay.summary import Summary, groups_of
from kshim.replay.to_test import ScenarioWriter
from kshim.storage.log import LogError
from kshim.tools.client import BrokerGone
from kshim.wording import counted
from kshim_protocol.frame import ProtocolError


def run_replay(options: ReplayOptions) -> int:
    """Replay and report; the exit code is 0 when answers were compared and none differs, else 1. Raises CommandError."""
    # What clients sent is anything; a terminal of another encoding shall not end the report.
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    for warning in _warnings(options.settings):
        print(f"kshim: --set: {warning}", file=sys.stderr)
    summary = Summary()
    named: set[str] = set()
    pages: dict[str, str] = {}
    try:
        with open(options.file, "rb") as file:
            writer = None if options.to_test is None else ScenarioWriter(Recording(file).start, options.group)
            file.seek(0)

            def on_turn(turn: Turn) -> None:
                if options.group is not None:
                    named.update(groups_of(turn.entry))
                if writer is not None:
                    writer.add(turn)

            def on_end(cluster: Cluster, now: Now) -> None:
                if options.html is not None:
                    from kshim.harness.seen import files

                    title = f"kshim replay of {os.path.basename(options.file)}"
                    pages.update(files(cluster, title, now.wall_ms, group_id=options.group))

            result = _play(file, options, summary, on_turn, on_end)
    except OSError as error:
        raise CommandError(f"cannot read {options.file}: {error.strerror}", EXIT_UNAVAILABLE) from None
    except (RecordingError, LogError) as error:
        raise CommandError(f"{options.file}: {error}", EXIT_UNAVAILABLE) from None
    if options.group is not None:
        _check_group(options, named | summary.groups.keys())
    if writer is not None and options.to_test is not None:
        _write_test(writer, options, options.to_test, summary)
    if options.html is not None:
        _write_pages(options.html, pages)
    if options.group is not None:
        summary.groups = {name: group for name, group in summary.groups.items() if name == options.group}
    report = (as_json if options.is_json else as_text)(result, summary if options.is_summary else None)
    try:
        sys.stdout.write(report)
        sys.stdout.flush()
    except BrokenPipeError:  # `| head` has seen enough; at exit Python must not try again
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    is_good = result.request_count and not result.differences and not result.defects
    return EXIT_OK if is_good else EXIT_FAILURE


def _play(
    file: IO[bytes],
    options: ReplayOptions,
    summary: Summary,
    on_turn: Callable[[Turn], None],
    on_end: Callable[[Cluster, Now], None],
) -> Replay:
    """Raises CommandError, OSError, RecordingError, LogError."""
    if options.against is None:
        return replay(
            file,
            options.settings,
            timing_ms=options.timings_ms,
            on_event=summary.observe,
            on_turn=on_turn,
            on_end=on_end,
        )
    try:
        return replay_against(file, options.against, speed=options.speed, timing_ms=options.timings_ms, on_turn=on_turn)
    except (BrokerGone, TimeoutError, ConnectionError, ProtocolError) as error:
        raise CommandError(f"--against {options.against}: {error}", EXIT_FAILURE) from None


def _check_group(options: ReplayOptions, known: set[str]) -> None:
    """Raises CommandError."""
    if options.group not in known:
        has = f"it has {', '.join(sorted(known))}" if known else "it has none"
        raise CommandError(f"--group: {options.file} has no group {options.group}; {has}", EXIT_FAILURE)


def _write_test(writer: ScenarioWriter, options: ReplayOptions, path: str, summary: Summary) -> None:
    """Raises CommandError."""
    states = {name: group.state for name, group in summary.groups.items()}
    title = f"What happened in {os.path.basename(options.file)}"
    scenario = writer.written(title, states)
    if not scenario.step_count:
        of_group = f" of group {options.group}" if options.group else ""
        sentence = f"{options.file} has no request{of_group} that a scenario can have"
        raise CommandError(f"--to-test: {sentence}; nothing was written", EXIT_FAILURE)
    try:
        with open(path, "x", encoding="utf-8") as file:
            file.write(scenario.text)
    except FileExistsError:
        raise CommandError(f"--to-test: {path} exists already", EXIT_UNAVAILABLE) from None
    except OSError as error:
        raise CommandError(f"--to-test: cannot write {path}: {error.strerror}", EXIT_UNAVAILABLE) from None
    left_out = "left out:" if scenario.notes else "nothing is left out"
    print(f"kshim: wrote {path} with {counted(scenario.step_count, 'step')}; {left_out}", file=sys.stderr)
    for note in scenario.notes:
        print(f"kshim:   {note}", file=sys.stderr)


def _write_pages(folder: str, pages: Mapping[str, str]) -> None:
    """Raises CommandError."""
    from kshim.page.files import written

    if not pages:
        raise CommandError("--html: the recording has no group of which anything can be shown", EXIT_FAILURE)
    try:
        for path in written(Path(folder), pages):
            print(f"kshim: wrote {path}", file=sys.stderr)
    except OSError as error:
        raise CommandError(f"--html: cannot write to {folder}: {error.strerror}", EXIT_UNAVAILABLE) from None


def _warnings(settings: Mapping[str, str]) -> list[str]:
    """What is probably meant otherwise. Raises CommandError (usage)."""
    for key in settings:
        if known_key(key) is None:
            raise CommandError(f"--set: {unknown_key(key)}", EXIT_USAGE)
    try:
        return BrokerConfig(settings).warnings
    except ConfigError as error:
        raise CommandError(f"--set: {error}", EXIT_USAGE) from None
