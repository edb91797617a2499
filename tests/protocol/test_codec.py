"""Compiled and interpreted codecs are equal: on random messages, on cut ones, on damaged ones, on hostile ones."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kshim_protocol import wire
from kshim_protocol.codec import codec
from kshim_protocol.compiler import compile_build, compile_parse
from kshim_protocol.frame import BuildError, ProtocolError
from kshim_protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from kshim_protocol.messages.heartbeat import HeartbeatRequest
from kshim_protocol.messages.produce import ProduceRequest
from kshim_protocol.schema import Struct, row_is_in
from kshim_protocol.shape import default_of
from tests.protocol.catalogue import ALL_MESSAGES, each_version, over_versions
from tests.protocol.strategies import messages

# Every version of every message has its own examples: 5 and 3, or 20 and 12 with the profile `thorough`.
quick = settings(max_examples=settings().max_examples // 20)
FEW = settings(max_examples=settings().max_examples // 33)
CUTS_MAX = settings().max_examples // 2
"""So many places of one message are cut at; of a longer one those that are some bytes apart, others in each example."""
FLEXIBLE = [
    (cls, version)
    for cls, version in each_version(ALL_MESSAGES)
    if cls.info.flexible[0] <= version <= cls.info.flexible[1]
]
over_flexible_versions = pytest.mark.parametrize(
    ("cls", "version"), FLEXIBLE, ids=[f"{cls.__name__}-v{v}" for cls, v in FLEXIBLE]
)

Outcome = tuple[Any, int] | str


def outcome(parse: Callable[[bytes], tuple[Any, int]], data: bytes) -> Outcome:
    """What `parse` makes of `data`: (object, end), or its ProtocolError in full."""
    try:
        return parse(data)
    except ProtocolError as error:
        return f"{error} | {error.message} | {error.version} | {error.field} | {error.offset}"


def without_help(cls: type[Struct], version: int) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """The generated parse and build, which fail where they would hand over to the interpreted tree."""

    def fell_back(*details: object) -> Any:
        raise AssertionError(f"generated code of {cls.__name__} v{version} fell back: {details}")

    tree = codec(cls, version).tree
    return compile_parse(tree, cls.__name__, fell_back), compile_build(tree, cls.__name__, fell_back)


@over_versions()
def test_compiled_equals_interpreted_and_never_needs_it(cls: type[Struct], version: int) -> None:
    parse, build = without_help(cls, version)
    reference = codec(cls, version)

    @quick
    @given(messages(cls, version))
    def check(message: Struct) -> None:
        data = reference.build_interpreted(message)
        assert build(message) == data
        assert reference.parse_interpreted(data) == (message, len(data))
        assert parse(data) == (message, len(data))
        assert parse(b"ab" + data + b"trailing", 2) == (message, 2 + len(data))

    check()


@over_versions()
def test_every_truncation_raises_one_protocol_error(cls: type[Struct], version: int) -> None:
    tested = codec(cls, version)

    @FEW
    @given(messages(cls, version), st.data())
    def check(message: Struct, draw: st.DataObject) -> None:
        data = tested.build(message)
        apart = 1 + len(data) // CUTS_MAX
        for end in range(draw.draw(st.integers(0, apart - 1)), len(data), apart):
            found = outcome(tested.parse, data[:end])
            assert isinstance(found, str), f"cut at {end} of {len(data)} is read as {found}"
            assert found == outcome(tested.parse_interpreted, data[:end])

    check()


@over_versions()
def test_damaged_bytes_give_the_same_result_or_the_same_error(cls: type[Struct], version: int) -> None:
    tested = codec(cls, version)

    @quick
    @given(messages(cls, version), st.data())
    def check(message: Struct, draw: st.DataObject) -> None:
        data = bytearray(tested.build(message))
        places = st.tuples(
            st.integers(0, max(0, len(data) - 1)),
            st.one_of(st.sampled_from(b"\x00\x01\x7f\x80\xff"), st.integers(0, 255)),
        )
        for at, value in draw.draw(st.lists(places, min_size=1, max_size=3)):
            if data:
                data[at] = value
        damaged = bytes(data)
        assert repr(outcome(tested.parse, damaged)) == repr(
            outcome(tested.parse_interpreted, damaged)
        )  # NaN is not NaN

    check()


@over_versions()
def test_random_bytes_give_the_same_result_or_the_same_error(cls: type[Struct], version: int) -> None:
    tested = codec(cls, version)

    @quick
    @given(st.binary(max_size=60))
    def check(data: bytes) -> None:
        assert repr(outcome(tested.parse, data)) == repr(outcome(tested.parse_interpreted, data))

    check()


@over_flexible_versions
def test_unknown_tags_are_kept_and_sent_on(cls: type[Struct], version: int) -> None:
    tested = codec(cls, version)

    @FEW
    @given(
        messages(cls, version),
        st.dictionaries(st.integers(40, 1 << 20), st.binary(max_size=150), min_size=1, max_size=3),
    )
    def check(message: Any, tags: dict[int, bytes]) -> None:
        message.unknown_tagged_fields = tuple(sorted(tags.items()))
        data = tested.build(message)
        assert tested.build_interpreted(message) == data
        assert tested.parse(data) == (message, len(data))
        assert tested.parse_interpreted(data) == (message, len(data))
        for end in range(max(0, len(data) - 30), len(data)):
            found = outcome(tested.parse, data[:end])
            assert isinstance(found, str), f"cut at {end} of {len(data)} is read as {found}"
            assert found == outcome(tested.parse_interpreted, data[:end])

    check()


@over_flexible_versions
@pytest.mark.parametrize("change", [-1, 1], ids=["shorter", "longer"])
def test_a_known_tag_of_another_size_than_it_says_is_an_error(cls: type[Struct], version: int, change: int) -> None:
    tested = codec(cls, version)
    assert tested.schema.tagged is not None
    for tag, (row, subcon) in tested.schema.tagged.known.items():
        stream = wire.WireStream()
        subcon._build(default_of(row), stream, None, row.name)
        value = stream.getvalue()
        data = before_tags(tested.schema) + bytes((1, tag, len(value) + change)) + value + b"\0"
        found = outcome(tested.parse, data)
        assert isinstance(found, str)
        assert found == outcome(tested.parse_interpreted, data)


def before_tags(tree: wire.RowTree) -> bytes:
    """A message of defaults, without its tagged section."""
    stream = wire.WireStream()
    for row, subcon in tree.fields:
        subcon._build(default_of(row), stream, None, row.name)
    return stream.getvalue()


UNFIT: dict[str, list[object]] = {
    "int8": [128, -129, "1", None],
    "int16": [1 << 15, "1", None],
    "uint16": [-1, 1 << 16, None],
    "int32": [1 << 31, -(1 << 31) - 1, "1", 1.5, None],
    "int64": [1 << 63, b"1", None],
    "uuid": [bytes(15), bytes(17), "", None],
    "string": [b"bytes", 7, "\ud800", None],
    "bytes": ["text", 7, None],
    "records": ["text", 7, None],
    "array": [7, None],
    "struct": [None, 7],
}
"""Values that a row of the type cannot carry (null only where it is not nullable)."""


@over_versions()
def test_values_that_cannot_travel_raise_the_same_build_error(cls: type[Struct], version: int) -> None:
    tested = codec(cls, version)
    defaults = {row.name: default_of(row) for row in cls.info.rows}
    for row in cls.info.rows:
        if not row_is_in(row, version):
            continue
        is_nullable = row.nullable[0] <= version <= row.nullable[1]
        unfit = [value for value in UNFIT.get(row.type, []) if value is not None or not is_nullable]
        if row.type == "string":
            unfit.append("a" * (1 << 15))  # longer than an int16 can say, and Java than reads
        for value in unfit:
            message = cls(**{**defaults, row.name: value})
            with pytest.raises(BuildError, match=f"{cls.__name__} v{version}: {row.name}: ") as compiled:
                tested.build(message)
            with pytest.raises(BuildError) as interpreted:
                tested.build_interpreted(message)
            assert str(compiled.value) == str(interpreted.value)


ANOTHER: dict[str, object] = {
    "int8": 7,
    "int16": 7,
    "int32": 7,
    "int64": 7,
    "boolean": object(),
    "uuid": b"7" * 16,
    "string": "set",
    "bytes": b"set",
    "array": (7,),
}
"""A value for each type that is no row's default."""


@over_versions()
def test_a_row_the_version_lacks_may_only_be_set_if_it_is_ignorable(cls: type[Struct], version: int) -> None:
    tested = codec(cls, version)
    for row in cls.info.rows:
        if row_is_in(row, version) or row.type == "struct":
            continue
        other = ANOTHER[row.type] if not isinstance(row.element, type) else (object(),)
        message = cls(**{**{r.name: default_of(r) for r in cls.info.rows}, row.name: other})
        if row.ignorable:
            data = tested.build(message)
            assert data == tested.build_interpreted(message)
            assert getattr(tested.parse(data)[0], row.name) == default_of(row)
        else:
            for build in (tested.build, tested.build_interpreted):
                with pytest.raises(BuildError, match=f"{row.name}: not a field of this version"):
                    build(message)


def hostile_claims(cls: type[Struct], version: int) -> Iterator[tuple[str, bytes]]:
    """For every length and count of a message: bytes that are fine up to there, then claim two thousand million."""
    for field, before, is_compact in sized_places(codec(cls, version).schema, b"", ""):
        yield field, before + (b"\xff\xff\xff\xff\x07" if is_compact else b"\x7f\xff\xff\xff") + bytes(40)


def sized_places(tree: wire.RowTree, before: bytes, prefix: str) -> Iterator[tuple[str, bytes, bool]]:
    """(field, bytes in front of its length, whether the length is compact), one element deep into every array."""
    for row, subcon in tree.fields:
        field = f"{prefix}{row.name}"
        if isinstance(subcon, (wire.Sized, wire.Items)):
            is_compact = isinstance(subcon.size, wire.CompactSize)
            if is_compact or subcon.size.width == 4:  # an int16 length claims little
                yield field, before, is_compact
        if isinstance(subcon, wire.Items) and isinstance(subcon.element, wire.RowTree):
            one = b"\x02" if isinstance(subcon.size, wire.CompactSize) else b"\0\0\0\x01"
            yield from sized_places(subcon.element, before + one, f"{field}[0].")
        stream = wire.WireStream()
        subcon._build(default_of(row), stream, None, field)
        before += stream.getvalue()


@over_flexible_versions
def test_varints_end_after_five_bytes(cls: type[Struct], version: int) -> None:
    tested = codec(cls, version)
    for field, before, is_compact in sized_places(tested.schema, b"", ""):
        if is_compact:
            wordy = before + b"\x81\x80\x80\x80\x00" + bytes(60)  # one, in five bytes
            assert outcome(tested.parse, wordy) == outcome(tested.parse_interpreted, wordy)
            endless = before + b"\x81\x80\x80\x80\x80\x00" + bytes(60)
            with pytest.raises(ProtocolError, match="varint longer than 5 bytes") as raised:
                tested.parse(endless)
            assert raised.value.field == field
            assert outcome(tested.parse, endless) == outcome(tested.parse_interpreted, endless)
    endless_tag = before_tags(tested.schema) + b"\x01" + b"\xa8\x80\x80\x80\x80\x00" + b"\x00"
    with pytest.raises(ProtocolError, match=r"tagged_fields at byte \d+: varint longer than 5 bytes"):
        tested.parse(endless_tag)


@over_versions()
def test_claims_beyond_the_bytes_left_raise_before_anything_is_allocated(cls: type[Struct], version: int) -> None:
    tested = codec(cls, version)
    tested.compile()
    for field, data in hostile_claims(cls, version):
        for parse in (tested.parse, tested.parse_interpreted):
            with pytest.raises(ProtocolError) as raised:
                parse(data)
            assert raised.value.field == field
            tracemalloc.start()
            try:
                with pytest.raises(ProtocolError):
                    parse(data)
                assert tracemalloc.get_traced_memory()[1] < 100_000
            finally:
                tracemalloc.stop()


@pytest.mark.parametrize("version", [4, 12, 17])
def test_a_message_with_records_is_built_in_pieces_which_are_the_records_themselves(version: int) -> None:
    batches = [bytes([number]) * 40_000 for number in range(3)]
    partitions = tuple(
        PartitionData(partition_index=index, error_code=0, high_watermark=1, aborted_transactions=None, records=batch)
        for index, batch in enumerate(batches)
    )
    topic = FetchableTopicResponse(topic="t" if version < 13 else "", partitions=partitions)
    tested = codec(FetchResponse, version)
    response = FetchResponse(responses=(topic,))
    assert tested.build_pieces is not None
    pieces = tested.build_pieces(response)
    assert b"".join(pieces) == tested.build(response) == tested.build_interpreted(response)
    assert {id(batch) for batch in batches} <= {id(piece) for piece in pieces}


def test_only_messages_with_records_are_built_in_pieces() -> None:
    assert codec(ProduceRequest, 9).build_pieces is not None
    assert codec(HeartbeatRequest, 4).build_pieces is None
