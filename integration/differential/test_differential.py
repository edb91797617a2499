"""kshim and Kafka answer the same: a hypothesis machine that shrinks by itself, and sequences from a seed.

`KSHIM_DIFFERENTIAL_SEQUENCES` sets how many sequences the seeded test plays (20), `KSHIM_DIFFERENTIAL_SEED` which.
"""

from __future__ import annotations

import itertools
import os
import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from integration.differential.allowed import load_rules
from integration.differential.brokers import Pair, running_pair
from integration.differential.generate import Generator
from integration.differential.run import report, run
from integration.differential.sequence import Inconclusive, Sequence
from integration.support.fixtures import available

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(7_200)]

SEQUENCES = int(os.environ.get("KSHIM_DIFFERENTIAL_SEQUENCES", "20"))
SEED = int(os.environ.get("KSHIM_DIFFERENTIAL_SEED", "1"))
REQUESTS = 50
EXAMPLES = max(5, SEQUENCES // 20)

_numbers = itertools.count()


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """Both brokers with the configuration of the sequences."""
    brokers = running_pair(tmp_path_factory.mktemp("differential"))
    yield available(brokers.__enter__)
    brokers.__exit__(None, None, None)


def test_random_sequences_are_answered_alike(pair: Pair, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    totals = run(pair, seed=SEED, sequences=SEQUENCES, requests=REQUESTS, at_once=6, stop_after=1)
    with capsys.disabled():
        print(f"\n{totals.summary()}")
    assert not totals.found, report(pair, totals.found[0], tmp_path)
    assert totals.sequences >= SEQUENCES * 0.95, "this machine stalls too often to judge what depends on time"
    assert totals.counts["released"] > SEQUENCES, "hardly a rebalance among the sequences"


def test_what_hypothesis_thinks_of_is_answered_alike(pair: Pair) -> None:
    class Machine(GroupMachine):
        brokers = pair

    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=40,
            deadline=None,
            database=None,
            phases=[Phase.generate, Phase.shrink],
            suppress_health_check=list(HealthCheck),
        ),
    )


class GroupMachine(RuleBasedStateMachine):
    """One sequence whose steps hypothesis draws; on a difference it looks for a shorter one."""

    brokers: Pair

    def __init__(self) -> None:
        super().__init__()
        prefix = f"h{int(time.time()) % 1_000_000}-{next(_numbers)}"
        self.sequence = Sequence(self.brokers, prefix, load_rules(), agree_timeout_s=1.5)
        self.is_lost = False

    @initialize(rnd=st.randoms(use_true_random=False))
    def begin(self, rnd: random.Random) -> None:
        """Draw what the sequence is about."""
        self.generator = Generator(rnd, self.sequence.model)

    @rule(rnd=st.randoms(use_true_random=False))
    def do_what_a_client_would(self, rnd: random.Random) -> None:
        """The next step of a client that follows the protocol."""
        self.play(rnd, "sensible")

    @rule(rnd=st.randoms(use_true_random=False), kind=st.sampled_from(["odd-join", "odd-sync", "odd-heartbeat"]))
    def misbehave_as_a_member(self, rnd: random.Random, kind: str) -> None:
        """Wrong ids, generations, protocols."""
        self.play(rnd, kind)

    @rule(rnd=st.randoms(use_true_random=False), kind=st.sampled_from(["leave", "odd-leave", "close"]))
    def go_away(self, rnd: random.Random, kind: str) -> None:
        """Leave the group, or only the connection."""
        self.play(rnd, kind)

    @rule(
        rnd=st.randoms(use_true_random=False), kind=st.sampled_from(["commit", "odd-commit", "fetch", "offset-delete"])
    )
    def use_offsets(self, rnd: random.Random, kind: str) -> None:
        """Commit, fetch and delete offsets."""
        self.play(rnd, kind)

    @rule(
        rnd=st.randoms(use_true_random=False), kind=st.sampled_from(["describe", "list", "delete", "find-coordinator"])
    )
    def administer(self, rnd: random.Random, kind: str) -> None:
        """Look at groups and delete them."""
        self.play(rnd, kind)

    @rule(rnd=st.randoms(use_true_random=False))
    def send_damaged_bytes(self, rnd: random.Random) -> None:
        """A body cut short, overwritten, or in no version there is."""
        self.play(rnd, "damaged")

    @rule(rnd=st.randoms(use_true_random=False), kind=st.sampled_from(["wait", "keep"]))
    def let_time_pass(self, rnd: random.Random, kind: str) -> None:
        """Until the short sessions have ended."""
        self.play(rnd, kind)

    def play(self, rnd: random.Random, kind: str) -> None:
        """Draw a step of this kind and play it."""
        if self.is_lost:
            return
        self.generator.rnd = rnd
        step = self.generator.sensible() if kind == "sensible" else self.generator.of_kind(kind)
        try:
            self.sequence.play(step)
        except Inconclusive:
            self.is_lost = True

    def teardown(self) -> None:
        try:
            if not self.is_lost:
                self.sequence.finish()
        except Inconclusive:
            pass
        finally:
            self.sequence.close()
