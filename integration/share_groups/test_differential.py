"""kshim and Kafka answer the same requests about share groups alike: sequences from a seed.

`KSHIM_DIFFERENTIAL_SEQUENCES` sets how many there are (20), `KSHIM_DIFFERENTIAL_SEED` which.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from integration.share_groups.pair import Pair, running_pair
from integration.share_groups.run import report, run
from integration.support.fixtures import available

pytestmark = [pytest.mark.kafka, pytest.mark.long, pytest.mark.timeout(7_200)]

SEQUENCES = int(os.environ.get("KSHIM_DIFFERENTIAL_SEQUENCES", "20"))
SEED = int(os.environ.get("KSHIM_DIFFERENTIAL_SEED", "1"))
REQUESTS = 30


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """Both brokers with the configuration of the sequences."""
    brokers = running_pair(tmp_path_factory.mktemp("share_groups"))
    yield available(brokers.__enter__)
    brokers.__exit__(None, None, None)


def test_random_sequences_are_answered_alike(pair: Pair, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    totals = run(pair, seed=SEED, sequences=SEQUENCES, requests=REQUESTS, at_once=4, stop_after=1)
    with capsys.disabled():
        print(f"\n{totals.summary()}")
    assert not totals.found, report(pair, totals.found[0], tmp_path, shorten=True)
    assert totals.counts["acquired"] > 10 * SEQUENCES, "hardly a record was acquired"
