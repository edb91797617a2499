"""The directory where downloaded and generated files are kept between runs."""

from __future__ import annotations

import os
from pathlib import Path


def cache_dir() -> Path:
    """`$KSHIM_CACHE`, else `kshim` below `$XDG_CACHE_HOME` or `~/.cache`. It need not exist."""
    if named := os.environ.get("KSHIM_CACHE"):
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kshim"
