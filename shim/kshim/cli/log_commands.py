"""Runs `dump-offsets` and `import`: their errors become a sentence and an exit code."""

from __future__ import annotations

import os
import sys

from kshim.cli.exit_codes import EXIT_FAILURE, EXIT_UNAVAILABLE, CommandError
from kshim.cli.options import DumpOffsetsOptions, ImportOptions
from kshim.tools.logs import SourceError


def run_logs(options: DumpOffsetsOptions | ImportOptions) -> int:
    """Run the command and return its exit code. Raises CommandError."""
    return _dump(options) if isinstance(options, DumpOffsetsOptions) else _import(options)


def _dump(options: DumpOffsetsOptions) -> int:
    from kshim.tools.dump_offsets.run import run_dump_offsets

    # Group names are anything; a terminal of another encoding shall not end the dump.
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        return run_dump_offsets(
            directories=options.data_dirs,
            bootstrap_server=options.bootstrap_server,
            group=options.group,
            partition=options.partition,
            start=options.from_offset,
            end=options.to_offset,
            output=options.output,
        )
    except SourceError as error:
        raise CommandError(str(error), EXIT_UNAVAILABLE) from None
    except BrokenPipeError:  # `| head` has seen enough; at exit Python must not try again
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_FAILURE


def _import(options: ImportOptions) -> int:
    from kshim.tools.import_logs.run import run_import
    from kshim.tools.import_logs.target import TargetError

    try:
        run_import(
            directories=options.from_dirs,
            bootstrap_server=options.bootstrap_server,
            data_dir=options.data_dir,
            topics=options.topics,
        )
    except SourceError as error:
        raise CommandError(f"nothing was imported: {error}", EXIT_FAILURE) from None
    except TargetError as error:
        raise CommandError(str(error), EXIT_UNAVAILABLE) from None
    return 0
