"""franz-go 1.22.2 with kadm 1.19.0; `go.mod` pins them, `go.sum` has their checksums."""

from __future__ import annotations

from pathlib import Path

from integration.support.go import go_program

NAME = "franz-go"

CONSUMER_PROTOCOL = {
    "static_members": "closing, it leaves for a while (epoch -2) without naming its instance, which is refused with"
    " INVALID_REQUEST: the instance id is free when the session has ended",
}


def command() -> list[str]:
    """Raises as `go_program` does."""
    return [str(go_program(Path(__file__).parent))]


def consumer() -> list[str]:
    """The program that `kshim conform-client` judges. Raises as `command`."""
    return [*command(), "consume"]


JUDGED = {
    "fenced-instance": "commits go on for ever with their error in the log, and after the next heartbeat it joins again and fences the newer process: the error reaches the program as one of the group session, which is begun anew. A program that ends with each error of a poll, as in the README of franz-go, passes this and fails ten others",
}
"""What `kshim conform-client` finds, and why."""
