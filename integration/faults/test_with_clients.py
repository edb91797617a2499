"""What two real clients make of each fault and each trigger, and that they commit again when it is over.

`OUTCOMES` says what a commit that meets the fault ends in; docs/testing/faults.md shows it. `make test` runs each action
and each trigger with each client, `make test-all` all combinations.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import pytest

from integration.faults.clients import CLIENTS, IMPATIENCE_S, PATIENCE_S, TOPIC
from integration.faults.outcomes import DO, OUTCOMES, RETRIED, Outcome
from kshim.testing import Kshim

TRIGGERS: dict[str, object] = {
    "once": "once",
    "times": {"times": 2},
    "nth": {"nth": 2},
    "always": "always",
    "probability": {"probability": 0.3, "seed": 31},
}
LOADING_S = 30
OF_MEMBERS = ("stale_generation",)

EVERY = list(product(CLIENTS, DO, TRIGGERS))


def is_in_gate(client: str, action: str, trigger: str) -> bool:
    """A fifth of all: each client with each action and, over them, with each trigger."""
    shift = list(DO).index(action) + 2 * list(CLIENTS).index(client)
    return list(TRIGGERS)[shift % len(TRIGGERS)] == trigger


@pytest.fixture(scope="module")
def kshim() -> Iterator[Kshim]:
    """Two brokers for all of these tests; each has a group of its own."""
    with Kshim(brokers=2, topics={TOPIC: 1}) as kshim:
        yield kshim


def expected(action: str, outcome: Outcome, trigger: str) -> list[str]:
    """What three commits end in."""
    error = outcome.error
    if error is None or (outcome.effect is RETRIED and trigger != "always"):
        return ["ok"] * 3
    if action == "loading" and trigger == "times":
        trigger = "once"  # what the client tries again meets it, too
    which = {"once": (1,), "times": (1, 2), "nth": (2,), "always": (1,), "probability": (1,)}[trigger]
    return [error if number in which else "ok" for number in (1, 2, 3)]


@pytest.mark.parametrize(
    ("client", "action", "trigger"),
    [pytest.param(*case, marks=() if is_in_gate(*case) else pytest.mark.long, id="-".join(case)) for case in EVERY],
)
def test_what_a_client_makes_of_a_fault(kshim: Kshim, client: str, action: str, trigger: str) -> None:
    group_id = f"{client}-{action}-{trigger}"
    outcome = OUTCOMES[action][client]
    with CLIENTS[client](kshim.bootstrap_servers, group_id, is_member=action in OF_MEMBERS) as committer:
        assert committer.commit(1) == "ok"
        fault = kshim.faults.add(
            {"on": "OffsetCommit", "match": {"group": group_id}, "do": DO[action], "when": TRIGGERS[trigger]}
        )
        outcomes = []
        for offset in (2, 3, 4):
            meets_it_again = not fault.is_cancelled and (trigger == "always" or action == "loading")
            outcomes.append(committer.commit(offset, IMPATIENCE_S if meets_it_again else PATIENCE_S))
            if meets_it_again and outcomes[-1] != "ok":
                fault.cancel()
            if action == "loading":
                kshim.clock.advance(LOADING_S)
        fault.cancel()
        assert outcomes == expected(action, outcome, trigger)
        assert committer.commit(5) == "ok"
    assert kshim.offsets(group_id) == {(TOPIC, 0): 5}
    counts = {"once": (1, 1), "times": (2, 2), "nth": (1, 1), "always": (1, 1_000), "probability": (1, 1_000)}[trigger]
    assert counts[0] <= len(fault.fired) <= counts[1]
    assert {firing.group for firing in fault.fired} == {group_id}
    assert kshim.defects == []
