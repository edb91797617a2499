"""How fast a broker's clock runs, in thousandths of real time: `real`, `manual`, or `x` and a rate."""

from __future__ import annotations

import re
from typing import Final

REAL: Final = 1_000
MANUAL: Final = 0
"""It stands still unless it is moved."""
MAX_RATE: Final = 10_000

_RATE: Final = re.compile(r"x(\d{1,5}(?:\.\d{1,3})?)", re.ASCII)


def clock_rate(text: str) -> int:
    """The rate of the clock that `text` asks for, such as `x60`, in thousandths. Raises ValueError."""
    if text == "real":
        return REAL
    if text == "manual":
        return MANUAL
    found = _RATE.fullmatch(text)
    rate = MANUAL if found is None else round(float(found[1]) * REAL)
    if not 0 < rate <= MAX_RATE * REAL:
        raise ValueError(
            f"{text!r} is not a clock: use real, manual, or x and a rate of up to {MAX_RATE}, such as x60 or x0.5"
        )
    return rate
