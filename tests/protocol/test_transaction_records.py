"""Records of `__transaction_state`: both versions are read and written, and what cannot be is refused."""

from __future__ import annotations

import pytest

from kshim_protocol.frame import BuildError, ProtocolError
from kshim_protocol.internal.transaction_log import PartitionsSchema, TransactionLogKey, TransactionLogValue
from kshim_protocol.internal.transaction_records import (
    build_transaction_key,
    build_transaction_value,
    parse_transaction_key,
    parse_transaction_value,
    value_version,
)

VALUE = TransactionLogValue(
    producer_id=5,
    producer_epoch=1,
    transaction_timeout_ms=100,
    transaction_status=1,
    transaction_partitions=(PartitionsSchema(topic="t", partition_ids=(0, 1)),),
    transaction_last_update_timestamp_ms=7,
    transaction_start_timestamp_ms=6,
)


def test_a_key_is_its_type_and_the_transactional_id() -> None:
    assert build_transaction_key("é").hex() == "00000002c3a9"
    assert parse_transaction_key(bytes.fromhex("00000002c3a9")) == TransactionLogKey(transactional_id="é")


def test_a_value_is_written_as_kafka_does_without_transaction_version_2() -> None:
    """Bytes of a live 4.4, with another topic, producer and times."""
    data = build_transaction_value(VALUE)
    assert data.hex() == (
        "0000" "0000000000000005" "0001" "00000064" "01" "00000001" "000174" "00000002" "00000000" "00000001"
        "0000000000000007" "0000000000000006"
    )  # fmt: skip
    assert parse_transaction_value(data) == VALUE


EMPTY_V1 = "0001000000000000000000000000ea600000000001a204b3330fffffffffffffffff0100080000000000000000"
ONGOING_V1 = (
    "0001000000000000000000000000ea600102027403000000010000000000000001a204b33391000001a204b3335c02000800000000000000000202"
    "0002"
)
COMPLETE_V1 = "0001000000000000000000010000ea600401000001a204b333a1000001a204b3335c020008000000000000000002020002"


@pytest.mark.parametrize("text", [EMPTY_V1, ONGOING_V1, COMPLETE_V1], ids=["Empty", "Ongoing", "CompleteCommit"])
def test_version_1_has_the_bytes_of_kafka(text: str) -> None:
    """Of a live 4.4 at transaction.version 2: a producer id, a write of Produce v12, the end by EndTxn v5.

    Partitions are in no order there.
    """
    value = parse_transaction_value(bytes.fromhex(text))
    assert build_transaction_value(value, 1).hex() == text


def test_version_1_says_which_producer_id_was_before_and_which_version_the_client_has() -> None:
    value = parse_transaction_value(bytes.fromhex(COMPLETE_V1))
    assert (value.producer_id, value.previous_producer_id, value.next_producer_id) == (0, 0, -1)
    assert (value.producer_epoch, value.client_transaction_version) == (1, 2)
    assert parse_transaction_value(bytes.fromhex(EMPTY_V1)).client_transaction_version == 0


@pytest.mark.parametrize(("level", "version"), [(0, 0), (1, 1), (2, 1)])
def test_the_level_of_transaction_version_decides_the_version_of_values(level: int, version: int) -> None:
    assert value_version(level) == version


def test_a_key_of_another_type_is_told_from_damage() -> None:
    assert parse_transaction_key(b"\0\x05whatever") == 5


@pytest.mark.parametrize("data", [b"", b"\0", b"\0\0\0", b"\0\0\0\x03ab", b"\0\0\0\x01ab"])
def test_a_damaged_key_is_refused(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        parse_transaction_key(data)


def test_a_value_of_an_unknown_version_or_with_bytes_left_over_is_refused() -> None:
    with pytest.raises(ProtocolError, match="unknown version 2"):
        parse_transaction_value(b"\0\x02" + build_transaction_value(VALUE)[2:])
    with pytest.raises(ProtocolError, match="1 bytes left over"):
        parse_transaction_value(build_transaction_value(VALUE) + b"\0")


def test_an_id_that_fits_in_no_record_is_refused() -> None:
    with pytest.raises(BuildError):
        build_transaction_key("x" * 32_768)
