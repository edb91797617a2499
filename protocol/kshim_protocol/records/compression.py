"""The four codecs of record batches. Nothing is imported before a codec is first used.

gzip comes from the standard library; snappy, lz4 and zstd from cramjam (`pip install kshim[compression]`). Sizes after
decompression are bounded, for a few hostile bytes may claim to be gigabytes. Kafka: CompressionType.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from types import ModuleType
from typing import Any

from kshim_protocol.frame import ProtocolError

MAX_DECOMPRESSED_BYTES = 104_857_600
"""Default bound of one batch's records: Kafka's socket.request.max.bytes."""

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + b"\0\0\0\1\0\0\0\1"  # version, and oldest version that can read it
_XERIAL_BLOCK_BYTES = 32 * 1024
# Magic, version 1 with independent blocks and no checksums, blocks of 64 KiB, header checksum. Java's reader refuses
# blocks that depend on each other, which is what cramjam's own frames hold.
_LZ4_HEADER = b"\x04\x22\x4d\x18\x60\x40\x82"
_LZ4_BLOCK_BYTES = 64 * 1024
_LZ4_STORED = 0x8000_0000
_BUFFER_FULL = "failed to write whole buffer"


class Compression(IntEnum):
    """Bits 0-2 of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class CompressionUnavailableError(Exception):
    """The codec of a batch needs a package that is not installed. `str(error)` says which."""


class DecompressedTooLongError(ProtocolError):
    """More bytes than allowed. They have not been validated."""


def compress(codec: Compression, data: bytes) -> bytes:
    """`data` as Java's clients would compress it: snappy in xerial's blocks, lz4 as a frame of independent blocks.

    Raises CompressionUnavailableError.
    """
    match codec:
        case Compression.NONE:
            return data
        case Compression.GZIP:
            import zlib

            packer = zlib.compressobj(wbits=31)
            return packer.compress(data) + packer.flush()
        case Compression.SNAPPY:
            return _snappy_compress(data)
        case Compression.LZ4:
            return _lz4_compress(data)
        case Compression.ZSTD:
            return bytes(_cramjam("zstd").zstd.compress(data))


def decompress(codec: Compression, data: bytes, *, max_bytes: int = MAX_DECOMPRESSED_BYTES) -> bytes:
    """The inverse of `compress`; snappy may also be one raw block without framing.

    Raises ProtocolError (malformed), DecompressedTooLongError, CompressionUnavailableError.
    """
    match codec:
        case Compression.NONE:
            return data
        case Compression.GZIP:
            return _gunzip(data, max_bytes)
        case Compression.SNAPPY:
            return _snappy_decompress(data, max_bytes)
        case Compression.LZ4:
            return _decompress_into_buffer(_cramjam("lz4"), "lz4", data, max_bytes)
        case Compression.ZSTD:
            return _decompress_into_buffer(_cramjam("zstd"), "zstd", data, max_bytes)


def _cramjam(codec: str) -> Any:
    try:
        import cramjam
    except ImportError:
        raise CompressionUnavailableError(
            f"{codec} record batches need the package cramjam: pip install kshim[compression]"
        ) from None
    return cramjam


def _gunzip(data: bytes, max_bytes: int) -> bytes:
    import zlib

    unpacker = zlib.decompressobj(wbits=31)
    try:
        plain = unpacker.decompress(data, max_bytes + 1)
    except zlib.error as error:
        raise _malformed("gzip", str(error)) from None
    if len(plain) > max_bytes:
        raise _too_long("gzip", max_bytes)
    if not unpacker.eof:
        raise _malformed("gzip", "data ends too early")
    if unpacker.unused_data:
        raise _malformed("gzip", f"{len(unpacker.unused_data)} bytes after the end")
    return plain


def _snappy_compress(data: bytes) -> bytes:
    snappy = _cramjam("snappy").snappy
    parts = [_XERIAL_HEADER]
    for at in range(0, len(data), _XERIAL_BLOCK_BYTES):
        block = bytes(snappy.compress_raw(data[at : at + _XERIAL_BLOCK_BYTES]))
        parts += (len(block).to_bytes(4, "big"), block)
    return b"".join(parts)


def _snappy_decompress(data: bytes, max_bytes: int) -> bytes:
    cramjam = _cramjam("snappy")
    parts: list[bytes] = []
    left = max_bytes
    for block in _snappy_blocks(data):
        try:
            size_bytes: int = cramjam.snappy.decompress_raw_len(block)
            left -= size_bytes
            if left < 0:
                raise _too_long("snappy", max_bytes)
            parts.append(bytes(cramjam.snappy.decompress_raw(block)))
        except cramjam.DecompressionError as error:
            raise _malformed("snappy", str(error)) from None
    return b"".join(parts)


def _snappy_blocks(data: bytes) -> Iterator[bytes]:
    if not data.startswith(_XERIAL_MAGIC):
        yield data
        return
    # The two version numbers are ignored: some producers write them little-endian.
    at = len(_XERIAL_HEADER)
    if len(data) < at:
        raise _malformed("snappy", "data ends inside the header")
    while at < len(data):
        size_bytes = int.from_bytes(data[at : at + 4], "big", signed=True)
        at += 4
        if not 0 <= size_bytes <= len(data) - at:
            raise _malformed("snappy", f"block of {size_bytes} bytes, {len(data) - at} left")
        yield data[at : at + size_bytes]
        at += size_bytes


def _lz4_compress(data: bytes) -> bytes:
    lz4 = _cramjam("lz4").lz4
    parts = [_LZ4_HEADER]
    for at in range(0, len(data), _LZ4_BLOCK_BYTES):
        plain = data[at : at + _LZ4_BLOCK_BYTES]
        block = bytes(lz4.compress_block(plain, store_size=False))
        if len(block) < len(plain):
            parts += (len(block).to_bytes(4, "little"), block)
        else:
            parts += ((len(plain) | _LZ4_STORED).to_bytes(4, "little"), plain)
    parts.append(b"\0\0\0\0")
    return b"".join(parts)


def _decompress_into_buffer(cramjam: ModuleType, codec: str, data: bytes, max_bytes: int) -> bytes:
    """Try buffers of growing size, for the frames need not say how long their content is."""
    module = getattr(cramjam, codec)
    size_bytes = min(max(4 * len(data), 65_536), max_bytes)
    while True:
        buffer = bytearray(size_bytes)
        try:
            written: int = module.decompress_into(data, buffer)
        except cramjam.DecompressionError as error:
            if _BUFFER_FULL not in str(error):
                raise _malformed(codec, str(error)) from None
        else:
            return bytes(memoryview(buffer)[:written])
        if size_bytes == max_bytes:
            raise _too_long(codec, max_bytes)
        size_bytes = min(4 * size_bytes, max_bytes)


def _malformed(codec: str, reason: str) -> ProtocolError:
    return ProtocolError(f"{codec}: {reason}", message="RecordBatch", version=2, field="records", offset=61)


def _too_long(codec: str, max_bytes: int) -> ProtocolError:
    reason = f"{codec}: more than {max_bytes} bytes when decompressed"
    return DecompressedTooLongError(reason, message="RecordBatch", version=2, field="records", offset=61)
