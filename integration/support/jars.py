"""The Apache Kafka 4.4.0 jars: fetched once by Maven, checked against `integration/java/jars.sha256`.

They hold the real broker, the real Java client, the JSON message schemas (`common/message/*.json` inside
`kafka-clients`) and the classes of the `__consumer_offsets` records.
"""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from integration.support.java import java
from integration.support.unavailable import Unavailable

KAFKA_VERSION = "4.4.0"

_ROOT = Path(__file__).resolve().parents[2]
_POM = _ROOT / "integration" / "java" / "pom.xml"
_CHECKSUMS = _ROOT / "integration" / "java" / "jars.sha256"
_MAVEN_TIMEOUT_S = 900


def cache_dir() -> Path:
    """Where fetched things are kept: `$KSHIM_TEST_CACHE`, or `.cache/` in the checkout."""
    return Path(os.environ.get("KSHIM_TEST_CACHE") or _ROOT / ".cache")


@functools.cache
def jars() -> tuple[Path, ...]:
    """The paths of all jars, sorted by name, fetched on the first call.

    Raises:
        Unavailable: Maven or Java is not installed, or Maven could not fetch them.
        AssertionError: a jar is not the one the checksums name.
    """
    expected = _expected()
    home = cache_dir() / f"kafka-{KAFKA_VERSION}"
    if not all((home / name).is_file() for name in expected):
        _fetch(home)
    _verify(home, expected)
    return tuple(home / name for name in sorted(expected))


def classpath() -> str:
    """All jars, joined as `java -cp` wants them. Raises as `jars` does."""
    return os.pathsep.join(map(str, jars()))


def kafka_clients_jar() -> Path:
    """The Java client, which also carries the JSON message schemas. Raises as `jars` does."""
    return next(jar for jar in jars() if jar.name == f"kafka-clients-{KAFKA_VERSION}.jar")


def _expected() -> dict[str, str]:
    """Jar name to sha256, as `sha256sum` writes them."""
    lines = _CHECKSUMS.read_text().splitlines()
    return {name: digest for digest, name in (line.split() for line in lines if line)}


def _verify(home: Path, expected: dict[str, str]) -> None:
    for name, digest in expected.items():
        found = hashlib.sha256((home / name).read_bytes()).hexdigest()
        assert found == digest, f"{home / name} has sha256 {found}, {_CHECKSUMS.name} says {digest}"


def _fetch(home: Path) -> None:
    """Let Maven copy the jars aside, then move them into place in one step: another run may be doing the same."""
    if shutil.which("mvn") is None:
        raise Unavailable("Apache Maven (`mvn`) is not installed: it fetches the Kafka jars")
    home.parent.mkdir(parents=True, exist_ok=True)
    aside = Path(tempfile.mkdtemp(prefix=f"{home.name}.", dir=home.parent))
    try:
        command = ["mvn", "-B", "-q", "-f", str(_POM), "dependency:copy-dependencies"]
        command += ["-DincludeScope=runtime", f"-DoutputDirectory={aside}"]
        environment = {**os.environ, "JAVA_HOME": str(Path(java()).resolve().parents[1])}
        try:
            done = subprocess.run(
                command, env=environment, capture_output=True, text=True, timeout=_MAVEN_TIMEOUT_S, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise Unavailable(f"Maven did not fetch the Kafka jars within {_MAVEN_TIMEOUT_S} s") from error
        if done.returncode != 0:
            raise Unavailable(f"Maven could not fetch the Kafka jars: {(done.stdout + done.stderr).strip()[-600:]}")
        home.mkdir(exist_ok=True)
        for jar in aside.iterdir():
            jar.replace(home / jar.name)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


if __name__ == "__main__":
    try:
        print(f"Kafka {KAFKA_VERSION}: {len(jars())} jars in {cache_dir()}")
    except Unavailable as missing:
        raise SystemExit(str(missing)) from None
