"""XXH3 against the values of its reference implementation, around each length at which the recipe changes."""

from __future__ import annotations

import pytest

from kshim.coordinator.xxh3 import xxh3_64

# fmt: off
EXPECTED = [
    (4, 0xD3D60C1519014E89),
    (7, 0x0FFC4827844C63A6),
    (8, 0xB88DEE77F6BF6980),
    (9, 0x03688DCAD730D826),
    (16, 0x9DA23836ADF2BE1E),
    (17, 0xF34C3C9CF5A112D1),
    (32, 0x99CB9AD0F1A11FBE),
    (33, 0xC077B45492D29CDE),
    (64, 0x6EFB76FF16F37561),
    (65, 0x2640848E9137156B),
    (96, 0x764D2D5DB92942DF),
    (97, 0x077ACB7E5F4FD940),
    (128, 0x65F3C2C00FA93185),
    (129, 0x28065C6EC25F5B25),
    (160, 0xCC592DA68FEA2254),
    (239, 0x6CE0B13191E635EA),
    (240, 0x4917A75C0EF8EED7),
    (241, 0x541B19226F0052E8),
    (320, 0xA1DE328CC060B895),
    (1024, 0x71BEE625238ADDB4),
    (1025, 0xD9B414F4E1BBF7AD),
    (1088, 0xB74E423E955E509D),
    (1089, 0x6ACAA6909CDBE786),
    (4050, 0x92EF17B28538B027),
]
# fmt: on


@pytest.mark.parametrize(("size", "expected"), EXPECTED)
def test_the_hash_is_that_of_the_reference(size: int, expected: int) -> None:
    assert xxh3_64(bytes(index * 7 + index // 256 & 255 for index in range(size))) == expected


def test_nothing_shorter_than_a_number_is_hashed() -> None:
    with pytest.raises(AssertionError):
        xxh3_64(b"abc")
