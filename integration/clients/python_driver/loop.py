"""One command a line in, one answer a line out."""

from __future__ import annotations

import json
import logging
import os
import sys
import traceback
from typing import Any, Protocol

from integration.clients.driver import Unsupported


class Commands(Protocol):
    """The commands as methods, named and with the fields of docs/design/clients.md; they return what `ok` holds."""

    def error_name(self, error: Exception) -> str:
        """Kafka's constant, or the name of the client's class."""
        ...


def serve(commands: Commands) -> None:
    """Until stdin ends. What else is written to stdout goes to stderr."""
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    for line in sys.stdin:
        answers.write(json.dumps(_answer(commands, json.loads(line))) + "\n")
        answers.flush()
    # Background threads may hang in a client; what they hold is of no use to anybody any more.
    os._exit(0)


def _answer(commands: Commands, command: dict[str, Any]) -> dict[str, Any]:
    do = command.pop("do")
    method = None if do.startswith("_") or do == "error_name" else getattr(commands, do, None)
    if method is None:
        return {"unsupported": f"the driver has no command {do}"}
    try:
        return {"ok": method(**command) or {}}
    except Unsupported as reason:
        return {"unsupported": str(reason)}
    except Exception as error:
        traceback.print_exc()
        return {"error": commands.error_name(error), "message": str(error)}
