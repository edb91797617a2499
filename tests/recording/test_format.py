"""The file of a recording: what is written is read back, and what is cut off or damaged costs no more than its end."""

from __future__ import annotations

from io import BytesIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kshim.coordinator.step import Now
from kshim.recording.format import Encoder, Entry, Reader, RecordingError

_INSTANTS = st.integers(-(1 << 60), 1 << 60)
_ENTRIES = st.builds(
    Entry,
    kind=st.integers(1, 255),
    now=st.builds(Now, _INSTANTS, _INSTANTS),
    real_ms=_INSTANTS,
    subject=st.integers(0, 1 << 62),
    payload=st.binary(max_size=300),
)


def written(blocks: list[list[Entry]]) -> bytes:
    encoder = Encoder()
    data = encoder.header()
    for entries in blocks:
        for entry in entries:
            encoder.add(*entry)
        data += encoder.block()
    return data


@given(st.lists(st.lists(_ENTRIES, max_size=5), max_size=4))
def test_every_entry_is_read_back(blocks: list[list[Entry]]) -> None:
    reader = Reader(BytesIO(written(blocks)))
    assert list(reader) == [entry for entries in blocks for entry in entries]
    assert reader.damage is None


BLOCKS = [
    [Entry(block + 1, Now(at, 1_000 + at), 5 + at, at, b"payload %d" % at) for at in range(3)] for block in range(4)
]


def test_a_recording_cut_off_at_any_byte_is_read_up_to_its_last_whole_block() -> None:
    data = written(BLOCKS)
    ends = [len(written(BLOCKS[:count])) for count in range(len(BLOCKS) + 1)]
    for size in range(len(data)):
        if size < ends[0]:
            with pytest.raises(RecordingError):
                Reader(BytesIO(data[:size]))
            continue
        whole = max(count for count, end in enumerate(ends) if end <= size)
        reader = Reader(BytesIO(data[:size]))
        assert list(reader) == [entry for block in BLOCKS[:whole] for entry in block]
        assert (reader.damage is None) == (size in ends)


def test_a_recording_damaged_at_any_byte_is_read_up_to_the_block_before() -> None:
    data = written(BLOCKS)
    ends = [len(written(BLOCKS[:count])) for count in range(len(BLOCKS) + 1)]
    for at in range(ends[0], len(data)):
        damaged = data[:at] + bytes([data[at] ^ 0x55]) + data[at + 1 :]
        whole = max(count for count, end in enumerate(ends) if end <= at)
        reader = Reader(BytesIO(damaged))
        assert list(reader) == [entry for block in BLOCKS[:whole] for entry in block]
        assert reader.damage is not None


def test_another_version_of_the_format_is_refused() -> None:
    data = bytearray(written(BLOCKS))
    data[9] += 1
    with pytest.raises(RecordingError, match="version 2 of the format; this kshim reads version 1"):
        Reader(BytesIO(bytes(data)))


def test_any_other_file_is_refused() -> None:
    with pytest.raises(RecordingError, match="not a recording"):
        Reader(BytesIO(b"Once upon a time there was a broker"))
