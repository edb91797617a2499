"""Java programs of the suites, compiled on first use: Eclipse's compiler runs on any Java, one without `javac` too."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from integration.support.jars import JarSet, cache_dir
from integration.support.java import java

_COMPILER = JarSet("ecj-3.46.0", Path(__file__).resolve().parents[1] / "clients" / "java" / "compiler")
_SOURCE_LEVEL = "17"
_COMPILE_TIMEOUT_S = 300


def java_program(main: str, sources: Sequence[Path], jar_set: JarSet, *options: str) -> list[str]:
    """The command that runs class `main` of these source files, with `jar_set` on its class path.

    Classes are kept in the cache, in a folder named by what they were made of. `options` go to `java`.

    Raises:
        Unavailable: no Java, or the jars cannot be had.
        AssertionError: the sources do not compile; the compiler's words follow.
    """
    digest = hashlib.sha256(jar_set.checksums.read_bytes() + _COMPILER.checksums.read_bytes())
    for source in sorted(sources):
        digest.update(source.name.encode() + b"\0" + source.read_bytes())
    classes = cache_dir() / "java-programs" / digest.hexdigest()[:16]
    if not classes.is_dir():
        compile_java(sorted(sources), jar_set.classpath, classes)
    logging = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
    classpath = os.pathsep.join((str(classes), jar_set.classpath))
    return [java(), "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", logging, *options, "-cp", classpath, main]


def compile_java(sources: Sequence[Path], classpath: str, classes: Path) -> None:
    """Compile sources into a new folder `classes`. Raises as `java_program`."""
    classes.parent.mkdir(parents=True, exist_ok=True)
    aside = Path(tempfile.mkdtemp(prefix=f"{classes.name}.", dir=classes.parent))
    try:
        command = [java(), "-jar", *map(str, _COMPILER.jars), "-source", _SOURCE_LEVEL, "-target", _SOURCE_LEVEL]
        command += ["-encoding", "UTF-8", "-proc:none", "-nowarn", "-d", str(aside), "-classpath", classpath]
        done = subprocess.run(
            [*command, *map(str, sources)], capture_output=True, text=True, timeout=_COMPILE_TIMEOUT_S, check=False
        )
        assert done.returncode == 0, f"the Java sources do not compile:\n{done.stdout}{done.stderr}"
        try:
            aside.rename(classes)
        except OSError:  # another run was faster
            assert classes.is_dir()
    finally:
        shutil.rmtree(aside, ignore_errors=True)
