"""`kshim ctl`: its errors become a sentence and an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from kshim.cli.exit_codes import EXIT_FAILURE, EXIT_OK, EXIT_UNAVAILABLE, EXIT_USAGE, CommandError
from kshim.cli.options import read_token
from kshim.tools.ctl.client import ControlError, Unreachable
from kshim.tools.ctl.run import UsageError, run_ctl


def run(arguments: Sequence[str]) -> int:
    """Run the command and return its exit code. Raises CommandError."""
    # Names of groups are anything; a terminal of another encoding shall not end the output.
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        run_ctl(arguments, os.environ, lambda path: read_token("--token-file", path), _show)
    except UsageError as error:
        raise CommandError(str(error), EXIT_USAGE) from None
    except ControlError as error:
        raise CommandError(str(error), EXIT_FAILURE) from None
    except Unreachable as error:
        raise CommandError(str(error), EXIT_UNAVAILABLE) from None
    except BrokenPipeError:  # `| head` has seen enough; at exit Python must not try again
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_FAILURE
    return EXIT_OK


def _show(line: str) -> None:
    print(line, flush=True)
