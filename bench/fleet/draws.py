"""Chance as a function: the same seed, purpose and ids give the same number, on whatever machine and in any order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F

_BITS: Final = 53
"""Of a double: every integer below is exact, so that the quotient is, too."""


def uniform(seed: int, purpose: str, *ids: Column) -> Column:
    """A double in [0, 1) for (seed, purpose, ids); `ids` are integers."""
    drawn = _hash(seed, purpose, *ids).bitwiseAND(F.lit((1 << _BITS) - 1))
    return drawn / F.lit(float(1 << _BITS))


def token(seed: int, purpose: str, *ids: Column) -> Column:
    """Sixteen hexadecimal digits for (seed, purpose, ids), as clients make their member ids unique."""
    return F.lpad(F.lower(F.hex(_hash(seed, purpose, *ids))), 16, "0")


def _hash(seed: int, purpose: str, *ids: Column) -> Column:
    # The hash of an int is another than that of the same number as a long.
    return F.xxhash64(F.lit(seed).cast("long"), F.lit(purpose), *(number.cast("long") for number in ids))


def log_uniform(drawn: Column, least: Column | int, most: Column | int) -> Column:
    """`drawn` in [0, 1) as an integer (long) of [least, most] whose logarithm is even: each doubling is as likely."""
    low, high = (F.lit(bound) if isinstance(bound, int) else bound for bound in (least, most))
    return F.least(F.floor(low * F.pow((high + 1) / low, drawn)), high).cast("long")


def chosen(drawn: Column, choices: Sequence[tuple[Column | str, float]]) -> Column:
    """The value in whose share `drawn` lies; shares sum up to 1."""
    assert abs(sum(share for _, share in choices) - 1) < 1e-9, choices
    values = [F.lit(value) if isinstance(value, str) else value for value, _ in choices]
    found, upto = values[-1], 1.0
    for value, (_, after) in zip(values[-2::-1], choices[:0:-1], strict=True):
        upto -= after
        found = F.when(drawn < upto, value).otherwise(found)
    return found


def div(number: Column, by: Column | int) -> Column:
    """Whole quotient of integers, rounded down, as an int."""
    return F.floor(number / by).cast("int")


def mod(number: Column, by: Column | int) -> Column:
    """What `div` leaves, never negative."""
    return F.pmod(number, F.lit(by) if isinstance(by, int) else by)
