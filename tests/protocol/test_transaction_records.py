"""Records of `__transaction_state`: both versions are read, version 0 is written, and what cannot be is refused."""

from __future__ import annotations

import pytest

from kshim_protocol.codec import codec
from kshim_protocol.frame import BuildError, ProtocolError
from kshim_protocol.internal.transaction_log import PartitionsSchema, TransactionLogKey, TransactionLogValue
from kshim_protocol.internal.transaction_records import (
    build_transaction_key,
    build_transaction_value,
    parse_transaction_key,
    parse_transaction_value,
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


def test_the_flexible_version_is_read_too() -> None:
    data = b"\0\x01" + codec(TransactionLogValue, 1).build(VALUE)
    assert parse_transaction_value(data) == VALUE


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
