"""Records that are alike are checked together: with the same result as one by one, whatever is wrong with one of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kshim_protocol.frame import ProtocolError
from kshim_protocol.records.alike import find_alike
from kshim_protocol.records.batch import build_batch
from kshim_protocol.records.layout import HEADER_BYTES
from kshim_protocol.records.record import Record
from kshim_protocol.records.validation import RecordFacts, check_one_by_one, check_records

Outcome = tuple[int, tuple[int, ...]] | str


@st.composite
def batches(draw: st.DrawFn) -> bytes:
    """Groups of records of one length each, their timestamps somewhere near each other."""
    records: list[Record] = []
    step_ms = draw(st.sampled_from([0, 1, 3, 50, 10_000, -1, -40]))
    for _ in range(draw(st.integers(min_value=1, max_value=3))):
        key_bytes, value_bytes = (draw(st.none() | st.sampled_from([0, 1, 8, 63, 64, 200])) for _ in range(2))
        headers = draw(st.sampled_from([(), (("h", b"12"),), (("h", None), ("name", b"x" * 70))]))
        records += [
            Record(
                None if key_bytes is None else bytes([number % 256]) * key_bytes,
                None if value_bytes is None else b"v" * value_bytes,
                headers,
                timestamp_ms=1_000_000 + step_ms * number,
            )
            for number in range(draw(st.integers(min_value=1, max_value=150)))
        ]
    return build_batch(records)


def outcome(batch: bytes, count: int, *, together: bool, is_numbered: bool) -> Outcome:
    facts = RecordFacts()
    check = check_records if together else check_one_by_one
    try:
        end = check(batch, HEADER_BYTES, count, facts, is_numbered=is_numbered)
    except ProtocolError as error:
        return str(error)
    return end, tuple(getattr(facts, name) for name in RecordFacts.__slots__)


def count_of(batch: bytes) -> int:
    return int.from_bytes(batch[57:HEADER_BYTES], "big")


def assert_same(batch: bytes, count: int) -> None:
    for is_numbered in (False, True):
        together = outcome(batch, count, together=True, is_numbered=is_numbered)
        assert together == outcome(batch, count, together=False, is_numbered=is_numbered)


@given(batches())
def test_sound_records_give_the_same_facts_together(batch: bytes) -> None:
    assert_same(batch, count_of(batch))


@given(batches(), st.data())
def test_a_lie_in_one_record_is_found_as_it_is_one_by_one(batch: bytes, data: st.DataObject) -> None:
    changed = bytearray(batch)
    for _ in range(data.draw(st.integers(min_value=1, max_value=3))):
        at = data.draw(st.integers(min_value=HEADER_BYTES, max_value=len(batch) - 1))
        changed[at] = data.draw(st.sampled_from([0, 1, 2, 3, 0x7F, 0x80, 0x81, 0xFF]) | st.integers(0, 255))
    assert_same(bytes(changed), count_of(batch) + data.draw(st.integers(min_value=-1, max_value=2)))


@given(batches(), st.data())
def test_records_that_are_cut_are_found_as_they_are_one_by_one(batch: bytes, data: st.DataObject) -> None:
    assert_same(batch[: data.draw(st.integers(min_value=HEADER_BYTES, max_value=len(batch)))], count_of(batch))


@given(st.binary(max_size=400), st.integers(min_value=1, max_value=40))
def test_any_bytes_are_judged_as_they_are_one_by_one(records: bytes, count: int) -> None:
    assert_same(bytes(HEADER_BYTES) + records, count)


def test_every_single_byte_of_records_may_lie() -> None:
    """Each byte of ten records in turn, each with values that end, lengthen or negate a number."""
    batch = build_batch([Record(b"key", b"v" * 70, (("h", b"1"),), timestamp_ms=5 + 70 * n) for n in range(10)])
    for at in range(HEADER_BYTES, len(batch)):
        for value in (0, 1, 2, batch[at] ^ 1, batch[at] ^ 0x80, batch[at] - 2 & 0xFF, batch[at] + 2 & 0xFF, 0xFF):
            assert_same(batch[:at] + bytes([value]) + batch[at + 1 :], 10)


@pytest.mark.parametrize("key_bytes", [None, 0, 1, 5, 63, 64, 70])
def test_a_single_record_is_judged_as_any_other_whatever_its_length_and_whichever_byte_lies(
    key_bytes: int | None,
) -> None:
    key = None if key_bytes is None else b"k" * key_bytes
    for value_bytes in (None, *range(70), *range(120, 135), 490, 500, 505, 509, 510, 511, 512, 520, 9_000):
        value = None if value_bytes is None else b"v" * value_bytes
        batch = build_batch([Record(key, value, timestamp_ms=5)])
        for count in (0, 1, 2):
            assert_same(batch, count)
        for cut in (1, 2, 3):
            assert_same(batch[:-cut], 1)
        for more in (b"\0", b"\0\0", b"\1"):
            assert_same(batch + more, 1)
        for at in (*range(HEADER_BYTES, min(len(batch), HEADER_BYTES + 80)), len(batch) - 1):
            for other in (0, 1, 2, batch[at] ^ 1, batch[at] ^ 0x80, batch[at] - 2 & 0xFF, batch[at] + 2 & 0xFF):
                assert_same(batch[:at] + bytes([other]) + batch[at + 1 :], 1)


def test_many_records_of_one_length_are_looked_at_together() -> None:
    batch = build_batch([Record(None, b"v" * 100, timestamp_ms=5 + n) for n in range(150)])
    found = find_alike(batch, HEADER_BYTES, 0, 150)
    assert found is not None
    assert (found.record_count, found.least_delta_ms, found.greatest_delta_ms, found.lacks_key) == (64, 0, 63, True)
    found = find_alike(batch, found.end, 64, 86)
    assert found is not None
    assert (found.record_count, found.end) == (86, len(batch))
