"""Damaged frames of every API against a live server: nobody else notices, nothing is left behind."""

from __future__ import annotations

import os
import random

import pytest

from integration.fuzz.layout import laid_out
from integration.fuzz.messages import RandomMessages
from integration.fuzz.mutations import drawn_requests
from integration.fuzz.run import MIB, SETTINGS, Summary, fuzz
from kshim_protocol.apis import API_TABLE
from kshim_protocol.codec import codec

FRAMES = int(os.environ.get("KSHIM_FUZZ_FRAMES", "100000"))
SEED = int(os.environ.get("KSHIM_FUZZ_SEED", "20261121"))
SHARES = {"epoll": 4, "tasks": 20, "secured": 20, "three brokers": 20}
"""What part of all frames a setting gets in the short run: the loops differ only in how they wait."""


def check(summary: Summary) -> None:
    print(summary)
    assert summary.defects == [], f"{summary.setting}, seed {SEED}"
    assert summary.routed > summary.frames / 2, "most damaged frames must get past the framing to be worth sending"
    assert summary.refused > summary.frames / 100
    assert summary.rss_after_bytes - summary.rss_before_bytes < 300 * MIB


@pytest.mark.parametrize("setting", SETTINGS)
def test_damaged_frames_never_disturb_another_client_nor_leave_anything_behind(setting: str) -> None:
    check(fuzz(setting, FRAMES // SHARES[setting], SEED))


@pytest.mark.long
@pytest.mark.parametrize("setting", SETTINGS)
def test_neither_do_a_hundred_thousand(setting: str) -> None:
    check(fuzz(setting, 100_000, SEED + 1))


def test_every_api_is_fuzzed_in_every_version() -> None:
    drawn = {sample.frame[:4] for sample in drawn_requests(random.Random(SEED), 1)}
    for api in API_TABLE.values():
        for version in range(api.min_version, api.max_version + 1):
            assert api.key.to_bytes(2, "big") + version.to_bytes(2, "big") in drawn


def test_places_are_found_where_they_are() -> None:
    rng = random.Random(SEED)
    draw = RandomMessages(rng)
    for api in API_TABLE.values():
        for version in range(api.min_version, api.max_version + 1):
            message = draw.message(api.request_class(), version)
            data, places = laid_out(message, version)
            assert data == codec(type(message), version).build(message)
            for place in places:
                assert 0 <= place.start < place.stop <= len(data)
                if place.kind == "count" and place.width:
                    assert int.from_bytes(data[place.start : place.stop], "big", signed=True) < 200
