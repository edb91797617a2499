"""Little that unpacks to much, records that are not what they say, and authentication that never ends."""

from __future__ import annotations

import struct
import time
import zlib
from collections.abc import Iterator
from pathlib import Path

import cramjam
import pytest

from integration.hostile.crowd import PATIENCE_S, Crowd, Fort
from integration.hostile.measure import MIB, Measured
from integration.security.secured import jaas
from kshim.tools.client import BrokerGone, Client
from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from kshim_protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kshim_protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kshim_protocol.messages.sasl_handshake import SaslHandshakeRequest
from kshim_protocol.records.batch import build_batch
from kshim_protocol.records.compression import Compression
from kshim_protocol.records.crc import crc32c
from kshim_protocol.records.record import Record

pytestmark = pytest.mark.long

CRC_AT, ATTRIBUTES_AT, DELTA_AT, COUNT_AT, RECORDS_AT = 17, 21, 23, 57, 61
NESTED = 20
PLAIN_BOUND = 100 * MIB


@pytest.fixture(scope="module")
def fort(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fort]:
    with Fort(tmp_path_factory.mktemp("bombs") / "kshim", partitions=100) as found:
        yield found
        assert "Failed while handling" not in found.broker.log.read_text()


def zeros(codec: Compression, mebibytes: int) -> bytes:
    """That much of nothing, packed, in pieces."""
    piece = bytes(MIB)
    if codec is Compression.GZIP:
        packer = zlib.compressobj(9, wbits=31)
        return b"".join(packer.compress(piece) for _ in range(mebibytes)) + packer.flush()
    if codec is Compression.ZSTD:
        return bytes(cramjam.zstd.compress(piece * mebibytes))
    if codec is Compression.LZ4:
        block = bytes(cramjam.lz4.compress_block(piece, store_size=False))
        header = bytes.fromhex("04224d18") + b"\x60\x60\x51"
        return header + (struct.pack("<I", len(block)) + block) * mebibytes + bytes(4)
    block = bytes(cramjam.snappy.compress_raw(piece))
    header = b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1)
    return header + (struct.pack(">i", len(block)) + block) * mebibytes


def with_records(packed: bytes, codec: Compression, count: int = 1) -> bytes:
    """A batch that says it holds `count` records, with whatever bytes and a checksum that is right."""
    batch = bytearray(build_batch([Record(None, b"", (), int(time.time() * 1_000))]))
    batch[RECORDS_AT:] = packed
    struct.pack_into(">i", batch, 8, len(batch) - 12)
    struct.pack_into(">h", batch, ATTRIBUTES_AT, codec)
    struct.pack_into(">i", batch, DELTA_AT, count - 1)
    struct.pack_into(">i", batch, COUNT_AT, count)
    struct.pack_into(">I", batch, CRC_AT, crc32c(bytes(batch[ATTRIBUTES_AT:])))
    return bytes(batch)


def produced(batches: list[bytes]) -> ProduceRequest:
    partitions = tuple(PartitionProduceData(index=index, records=batch) for index, batch in enumerate(batches))
    return ProduceRequest(
        acks=-1, timeout_ms=60_000, topic_data=(TopicProduceData(name="t", partition_data=partitions),)
    )


def connected(fort: Fort) -> Client:
    return Client(*fort.address, client_id="bomber", timeout_s=120)


# Snappy and lz4 shrink nothing to less than a twentieth and a 250th: a batch of 1 MiB holds no more of it.
@pytest.mark.parametrize(
    ("codec", "mebibytes"),
    [(Compression.GZIP, 1_000), (Compression.ZSTD, 1_000), (Compression.LZ4, 230), (Compression.SNAPPY, 21)],
)
def test_a_batch_that_unpacks_to_a_gigabyte(fort: Fort, codec: Compression, mebibytes: int) -> None:
    batch = with_records(zeros(codec, mebibytes), codec)
    with Measured(fort, f"{len(batch) >> 10} KiB of {codec.name} that are {mebibytes} MiB") as found:
        client = connected(fort)
        (partition,) = client.ask(produced([batch]), 9).responses[0].partition_responses
        client.close()
    assert partition.error_code in (ErrorCode.INVALID_RECORD, ErrorCode.CORRUPT_MESSAGE, ErrorCode.MESSAGE_TOO_LARGE)
    assert found.grown_bytes < 4 * PLAIN_BOUND


def test_twenty_of_them_in_one_request_from_each_of_five_clients(fort: Fort) -> None:
    batch = with_records(zeros(Compression.ZSTD, 99), Compression.ZSTD)
    with Measured(fort, f"100 batches of {len(batch)} bytes that are 99 MiB each") as found:
        clients = [connected(fort) for _ in range(5)]
        for client in clients:
            client.send(produced([batch] * 20), 9)
        for client in clients:
            answer = client.receive(600)
            assert answer is not None
            codes = {each.error_code for each in answer.responses[0].partition_responses}
            assert codes == {ErrorCode.INVALID_RECORD}
            client.close()
    # Four at a time, each twice while it grows; the allocator gives some of it back late.
    assert found.grown_bytes < 10 * PLAIN_BOUND


def test_records_that_are_not_what_the_batch_says(fort: Fort) -> None:
    good = build_batch([Record(None, b"v", (), int(time.time() * 1_000))])[RECORDS_AT:]
    client = connected(fort)
    for what, batch in {
        "no records, it says two thousand million": with_records(b"", Compression.NONE, 2**31 - 1),
        "one record, it says two": with_records(good, Compression.NONE, 2),
        "two records, it says one": with_records(good + good, Compression.NONE, 1),
        "a negative count": with_records(good, Compression.NONE, -1),
        "an endless varint": with_records(b"\xff" * 40, Compression.NONE),
        "a record longer than the batch": with_records(b"\xfe\xff\xff\xff\x0f" + good, Compression.NONE),
    }.items():
        (partition,) = client.ask(produced([batch]), 9).responses[0].partition_responses
        assert partition.error_code in (ErrorCode.INVALID_RECORD, ErrorCode.CORRUPT_MESSAGE), what
    client.close()


def test_message_sets_of_the_old_formats_inside_one_another(fort: Fort) -> None:
    value = b"v"
    for depth in range(NESTED):
        body = struct.pack(">bb", 1, Compression.GZIP if depth else 0) + bytes(8) + struct.pack(">ii", -1, len(value))
        crc = zlib.crc32(body + value)
        value = struct.pack(">qiI", 0, 4 + len(body) + len(value), crc) + body + value
        packer = zlib.compressobj(wbits=31)
        whole, value = value, packer.compress(value) + packer.flush()
    client = connected(fort)
    for version in (3, 9):
        (partition,) = client.ask(produced([whole]), version).responses[0].partition_responses
        assert partition.error_code != ErrorCode.NONE
        assert partition.error_code != ErrorCode.UNKNOWN_SERVER_ERROR
    client.close()


def test_tls_records_of_garbage(fort: Fort) -> None:
    with Measured(fort, "200 connections of garbage inside TLS records") as found:
        for start in (b"\x16\x03\x01\x40\x00", b"\x17\x03\x03\x40\x00", b"\x15\x03\x03\x00\x02", b"\x80\x2e\x01"):
            with Crowd(fort.tls_address, 50) as crowd:
                crowd.send(start + b"\xa5" * 16_384)
                crowd.wait_until_closed()
    assert found.grown_bytes < 50 * MIB


@pytest.fixture(scope="module")
def sasl_fort(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fort]:
    config = {
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": jaas({"alice": "secret"}),
        "connection.failed.authentication.delay.ms": "1000",
    }
    folder: Path = tmp_path_factory.mktemp("sasl") / "kshim"
    with Fort(folder, config, has_sasl=True) as found:
        yield found


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_tokens_of_half_a_megabyte_and_more(sasl_fort: Fort, mechanism: str) -> None:
    tokens = {
        "of 400 KB": b"n,,n=" + b"=2C" * 133_000 + b",r=x",
        "of 400 KB of extensions": b"n,,n=alice,r=" + b"x" * 200_000 + b",a=b" * 50_000,
        "of NULs": bytes(400_000),
        "of 5 MB": b"n,,n=" + b"a" * 5_000_000 + b",r=x",
    }
    with Measured(sasl_fort, f"tokens of {mechanism}, 400 KB to 5 MB, 20 clients each") as found:
        for token in tokens.values():
            clients = [Client(*sasl_fort.sasl_address, client_id="x", timeout_s=PATIENCE_S) for _ in range(20)]
            for client in clients:
                assert client.ask(SaslHandshakeRequest(mechanism=mechanism), 1).error_code == ErrorCode.NONE
            for client in clients:
                try:
                    client.send(SaslAuthenticateRequest(auth_bytes=token), 1)
                except BrokerGone:
                    assert len(token) > MIB
            for client in clients:
                try:
                    answer = client.receive(PATIENCE_S)
                except BrokerGone:
                    continue
                assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
            for client in clients:
                client.close()
    assert found.grown_bytes < 150 * MIB
    assert max(map(len, sasl_fort.broker.log.read_text().splitlines())) < 4_000


def test_iterations_that_would_take_a_year_are_refused(sasl_fort: Fort) -> None:
    client = Client(*sasl_fort.address, client_id="x", timeout_s=PATIENCE_S)
    for iterations in (2**31 - 1, 16_385, 4_095, 0, -1, -(2**31)):
        row = ScramCredentialUpsertion(
            name="bob", mechanism=1, iterations=iterations, salt=b"salt", salted_password=bytes(32)
        )
        (result,) = client.ask(AlterUserScramCredentialsRequest(deletions=(), upsertions=(row,)), 0).results
        assert result.error_code == ErrorCode.UNACCEPTABLE_CREDENTIAL
    client.close()
