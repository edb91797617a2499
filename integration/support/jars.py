"""Sets of jars: fetched once by Maven, checked against a list of checksums that is kept beside the POM.

`KAFKA` is Apache Kafka 4.4.0: the real broker, the real Java client, the JSON message schemas
(`common/message/*.json` inside `kafka-clients`) and the classes of the `__consumer_offsets` records.
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
_MAVEN_TIMEOUT_S = 900


def cache_dir() -> Path:
    """Where fetched things are kept: `$KSHIM_TEST_CACHE`, or `.cache/` in the checkout."""
    return Path(os.environ.get("KSHIM_TEST_CACHE") or _ROOT / ".cache")


class JarSet:
    """What one POM asks for: `pom.xml` and `jars.sha256` (as `sha256sum` writes it) in a folder of the repository."""

    def __init__(self, name: str, folder: Path) -> None:
        """`name` says what and which version: the jars are kept in a folder of that name."""
        self.name = name
        self.pom = folder / "pom.xml"
        self.checksums = folder / "jars.sha256"

    @functools.cached_property
    def jars(self) -> tuple[Path, ...]:
        """The paths of all jars, sorted by name, fetched when first asked for.

        Raises:
            Unavailable: Maven or Java is not installed, or Maven could not fetch them.
            AssertionError: a jar is not the one the checksums name.
        """
        expected = self._expected()
        home = cache_dir() / self.name
        if not all((home / name).is_file() for name in expected):
            self._fetch(home)
        self._verify(home, expected)
        return tuple(home / name for name in sorted(expected))

    @property
    def classpath(self) -> str:
        """All jars, joined as `java -cp` wants them. Raises as `jars` does."""
        return os.pathsep.join(map(str, self.jars))

    def _expected(self) -> dict[str, str]:
        """Jar name to sha256."""
        lines = self.checksums.read_text().splitlines()
        return {name: digest for digest, name in (line.split() for line in lines if line)}

    def _verify(self, home: Path, expected: dict[str, str]) -> None:
        for name, digest in expected.items():
            found = hashlib.sha256((home / name).read_bytes()).hexdigest()
            assert found == digest, f"{home / name} has sha256 {found}, {self.checksums} says {digest}"

    def _fetch(self, home: Path) -> None:
        """Let Maven copy the jars aside, then move each into place: another run may be doing the same."""
        if shutil.which("mvn") is None:
            raise Unavailable(f"Apache Maven (`mvn`) is not installed: it fetches the jars of {self.name}")
        home.parent.mkdir(parents=True, exist_ok=True)
        aside = Path(tempfile.mkdtemp(prefix=f"{home.name}.", dir=home.parent))
        try:
            self._copy_dependencies(aside)
            home.mkdir(exist_ok=True)
            for jar in aside.iterdir():
                jar.replace(home / jar.name)
        finally:
            shutil.rmtree(aside, ignore_errors=True)

    def _copy_dependencies(self, target: Path) -> None:
        command = ["mvn", "-B", "-q", "-f", str(self.pom), "dependency:copy-dependencies"]
        command += ["-DincludeScope=runtime", f"-DoutputDirectory={target}"]
        environment = {**os.environ, "JAVA_HOME": str(Path(java()).resolve().parents[1])}
        try:
            done = subprocess.run(
                command, env=environment, capture_output=True, text=True, timeout=_MAVEN_TIMEOUT_S, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise Unavailable(f"Maven did not fetch {self.name} within {_MAVEN_TIMEOUT_S} s") from error
        if done.returncode != 0:
            raise Unavailable(f"Maven could not fetch {self.name}: {(done.stdout + done.stderr).strip()[-600:]}")


KAFKA = JarSet(f"kafka-{KAFKA_VERSION}", _ROOT / "integration" / "java")


def jars() -> tuple[Path, ...]:
    """The jars of `KAFKA`. Raises as `JarSet.jars` does."""
    return KAFKA.jars


def classpath() -> str:
    """All jars of `KAFKA`, joined as `java -cp` wants them. Raises as `JarSet.jars` does."""
    return KAFKA.classpath


def kafka_clients_jar() -> Path:
    """The Java client, which also carries the JSON message schemas. Raises as `JarSet.jars` does."""
    return next(jar for jar in jars() if jar.name == f"kafka-clients-{KAFKA_VERSION}.jar")


if __name__ == "__main__":
    try:
        print(f"Kafka {KAFKA_VERSION}: {len(jars())} jars in {cache_dir()}")
    except Unavailable as missing:
        raise SystemExit(str(missing)) from None
