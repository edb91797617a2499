"""A member hangs, as in a long garbage collection: its session of 45 seconds ends at once, and the other takes over.

The members are real clients in processes of their own. `SIGSTOP` is the most honest way to hang: all threads stand still and
the connections stay open.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from integration.clock.worker import CLIENTS
from kshim.testing import Kshim

STARTUP_S = 60
PATIENCE_S = 20
SOON_S = 10
"""Far less than a session. It is a tenth of a second on a machine that does nothing else."""


@contextmanager
def worker(client: str, kshim: Kshim, name: str) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "integration.clock.worker", client, kshim.bootstrap_servers, "g", "orders", name]
    process = subprocess.Popen(command)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("client", list(CLIENTS))
def test_the_session_of_a_hung_member_ends_and_the_other_takes_over(client: str) -> None:
    with Kshim(topics={"orders": 4}) as kshim:
        group = kshim.group("g")
        with worker(client, kshim, "survivor"), worker(client, kshim, "victim") as victim:
            group.wait_stable(members=2, timeout=STARTUP_S)
            member_id = next(each.member_id for each in group.members if each.client_id.startswith("victim"))
            victim.send_signal(signal.SIGSTOP)
            generation, began = group.generation, time.monotonic()
            fired = kshim.clock.advance(46, keep_alive="survivor*")
            advanced = time.monotonic()
            assert [each.key for each in fired if each.kind == "session"] == [("g", member_id)]
            group.wait_generation(generation + 1, timeout=PATIENCE_S)
            view = group.wait_stable(members=1, timeout=PATIENCE_S)
            took = time.monotonic()
            assert [len(partitions) for partitions in view.assignment.values()] == [4]
            assert view.members[0].client_id.startswith("survivor")
            assert group.rebalances[-1].why == "session_timeout"
            print(f"{client}: advance {advanced - began:.3f} s, taken over after {took - began:.3f} s")
            assert took - began < SOON_S


@pytest.mark.parametrize("client", list(CLIENTS))
def test_a_member_that_was_away_for_too_long_joins_again(client: str) -> None:
    with Kshim(topics={"orders": 4}) as kshim:
        group = kshim.group("g")
        with worker(client, kshim, "survivor"), worker(client, kshim, "victim") as victim:
            group.wait_stable(members=2, timeout=STARTUP_S)
            victim.send_signal(signal.SIGSTOP)
            group.expire(next(each for each in group.members if each.client_id.startswith("victim")))
            group.wait_stable(members=1, timeout=PATIENCE_S)
            victim.send_signal(signal.SIGCONT)
            view = group.wait_stable(members=2, timeout=PATIENCE_S)
            assert sorted(len(partitions) for partitions in view.assignment.values()) == [2, 2]
