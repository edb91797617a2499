"""A child of the demo that holds one command: asks it to end when stdin ends, so that it cannot outlive the demo.

`python -m kshim.tools.demo.lifeline COMMAND...`; output goes where this process's goes, and so does the exit code.
"""

from __future__ import annotations

import subprocess
import sys
import threading

from kshim.tools.demo.reports import wait_for_end_of_stdin

PATIENCE_S = 5.0


def hold(command: list[str]) -> int:
    """Run `command` until it ends or stdin does; return its exit code."""
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL)

    def end_with_stdin() -> None:
        wait_for_end_of_stdin()
        process.terminate()
        try:
            process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()

    threading.Thread(target=end_with_stdin, name="stdin", daemon=True).start()
    return process.wait()


if __name__ == "__main__":
    sys.exit(hold(sys.argv[1:]))
