"""`kshim`: finds the command, runs it, and turns what goes wrong into one sentence and an exit code."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence

from kshim.cli.exits import EXIT_INTERRUPTED, CommandError

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `kshim` with `arguments` (default: those of the process) and return its exit code.

    `--help` and `--version` raise SystemExit, as argparse does.
    """
    # What imports make stays, so looking through it for garbage frees nothing and is a tenth of the start-up.
    gc.disable()
    from kshim.cli.options import DemoOptions, parse_command

    try:
        command = parse_command(sys.argv[1:] if arguments is None else arguments, os.environ)
        if isinstance(command, DemoOptions):
            gc.enable()
            from kshim.tools.demo.run import run_demo

            return run_demo(is_plain=command.is_plain)
        from kshim.cli.serve import run_serve

        return run_serve(command)
    except CommandError as error:
        print(f"kshim: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
