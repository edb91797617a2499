"""What the workers of a cluster run: our modules and the packages that these need, in an archive that Spark unpacks for each of them.

So workers need nothing but Python, of our own minor version and platform, and Spark. The archive is made once for each state of what
is in it, and kept.
"""

from __future__ import annotations

import hashlib
import os
import sys
import tarfile
import uuid
from collections.abc import Iterator, Mapping
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from kshim_pipeline.setup.cache import cache_dir

FOLDER: Final = "kshim_workers"
"""Where Spark unpacks the archive, below the folder in which a worker runs."""

_OURS: Final = ("kshim", "kshim_pipeline", "kshim_protocol")
_PACKAGES: Final = (
    "construct",
    "cramjam",
    "numpy",
    "pandas",
    "pyarrow",
    "python-dateutil",
    "pytz",
    "six",
    "tzdata",
)
"""Distributions: of the dependencies of the extra `pipeline` those that run in workers, and what these depend on, where it is installed."""
_NEEDLESS: Final = frozenset({"__pycache__", "include", "tests"})
_QUICKLY: Final = 1
"""Level of compression: it is unpacked once by each worker, and sent over their network."""


def settings_of_workers(configured: Mapping[str, str], cache: Path | None = None) -> dict[str, str]:
    """Settings with which Spark sends the archive to each worker, and its Python finds what is in it: added to what is `configured`.

    Makes the archive if need be, below `cache` (default: `cache_dir()`).
    """
    archives = configured.get("spark.archives", "")
    if f"#{FOLDER}" in archives:
        return {}  # somebody has packed one of their own
    paths = configured.get("spark.executorEnv.PYTHONPATH", "")
    return {
        "spark.archives": ",".join(filter(None, (archives, f"{archive(cache)}#{FOLDER}"))),
        "spark.executorEnv.PYTHONPATH": os.pathsep.join(filter(None, (FOLDER, paths))),
    }


def python_of_workers() -> str:
    """The Python that is looked for on their PATH: one that loads what was compiled for ours."""
    return f"python{sys.version_info.major}.{sys.version_info.minor}"


def archive(cache: Path | None = None) -> Path:
    """The archive, made if it is not there."""
    files = dict(_files())
    path = (cache or cache_dir()) / f"workers-{_digest(files)}.tar.gz"
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        aside = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
        try:
            with tarfile.open(aside, "w:gz", compresslevel=_QUICKLY) as packed:
                for name, file in files.items():
                    packed.add(file, name, recursive=False)
            aside.replace(path)  # another run may be making the same
        finally:
            aside.unlink(missing_ok=True)
    return path


def _files() -> Iterator[tuple[str, Path]]:
    """All that is packed: where it is in the archive, and where it is here."""
    for package in _OURS:
        spec = find_spec(package)
        assert spec is not None
        for root in map(Path, spec.submodule_search_locations or ()):
            for file in sorted(root.rglob("*")):
                place = file.relative_to(root.parent)
                if file.is_file() and _NEEDLESS.isdisjoint(place.parts):
                    yield place.as_posix(), file
    for package in _PACKAGES:
        with suppress(PackageNotFoundError):
            for entry in distribution(package).files or ():
                # What is not below the folder of packages is a script.
                file = Path(str(entry.locate()))
                if ".." not in entry.parts and _NEEDLESS.isdisjoint(entry.parts) and file.is_file():
                    yield entry.as_posix(), file


def _digest(files: Mapping[str, Path]) -> str:
    """Of what would be packed: sizes and times tell as well as contents, and are read in no time."""
    found = hashlib.sha256(python_of_workers().encode())
    for name, file in files.items():
        about = file.stat()
        found.update(f"{name}\0{about.st_size}\0{about.st_mtime_ns}\n".encode())
    return found.hexdigest()[:16]
