"""`kshim replay`: opens the recording, plays it, prints the report."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from kshim.cli.exit_codes import EXIT_FAILURE, EXIT_OK, EXIT_UNAVAILABLE, EXIT_USAGE, CommandError
from kshim.cli.options import ReplayOptions
from kshim.config.broker_config import BrokerConfig, ConfigError
from kshim.recording.format import RecordingError
from kshim.recording.replay import replay
from kshim.recording.report import as_json, as_text
from kshim.recording.summary import Summary
from kshim.storage.log import LogError


def run_replay(options: ReplayOptions) -> int:
    """Replay and report; the exit code is 0 when no answer differs, else 1. Raises CommandError."""
    # What clients sent is anything; a terminal of another encoding shall not end the report.
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    for warning in _warnings(options.settings):
        print(f"kshim: --set: {warning}", file=sys.stderr)
    summary = Summary()
    try:
        with open(options.file, "rb") as file:
            result = replay(file, options.settings, timing_ms=options.timings_ms, on_event=summary.observe)
    except OSError as error:
        raise CommandError(f"cannot read {options.file}: {error.strerror}", EXIT_UNAVAILABLE) from None
    except (RecordingError, LogError) as error:
        raise CommandError(f"{options.file}: {error}", EXIT_UNAVAILABLE) from None
    if options.group is not None:
        summary.groups = {name: group for name, group in summary.groups.items() if name == options.group}
    report = (as_json if options.is_json else as_text)(result, summary if options.is_summary else None)
    try:
        sys.stdout.write(report)
        sys.stdout.flush()
    except BrokenPipeError:  # `| head` has seen enough; at exit Python must not try again
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return EXIT_FAILURE if result.differences or result.defects else EXIT_OK


def _warnings(settings: Mapping[str, str]) -> list[str]:
    """What is probably meant otherwise. Raises CommandError (usage)."""
    try:
        return BrokerConfig(settings).warnings
    except ConfigError as error:
        raise CommandError(f"--set: {error}", EXIT_USAGE) from None
