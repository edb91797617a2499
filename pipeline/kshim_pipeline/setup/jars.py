"""The jars that Spark's Kafka source needs besides pyspark's own: pinned, fetched once, verified at each use.

pyspark 4.0.4 with connector 4.0.0 is the newest set of which every part is published. Resolving is left to the Ivy
inside pyspark with its default central repository, and happens only in `fetch`.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from kshim_pipeline.errors import EXIT_UNAVAILABLE, PipelineError
from kshim_pipeline.setup.cache import cache_dir
from kshim_pipeline.setup.java import find_java, java_home_for_spark

SPARK_VERSION: Final = "4.0.4"

JARS: Final[Mapping[str, str]] = {
    "spark-sql-kafka-0-10_2.13-4.0.0.jar": "33a3b8b04df4a2e43c9d5bf8ca5972936a1ac662f2714e014d00ef6f27468bf3",
    "spark-token-provider-kafka-0-10_2.13-4.0.0.jar": "f2be3b76f9e6cbe63379d4e4e0dc14f59dbf056ae2ad16ff15ac108004c86767",
    "kafka-clients-3.9.0.jar": "15c1e137f2c2c94398e27abc4060a03b6bde10bf9fac15e8f70c02320b202f18",
    "commons-pool2-2.12.0.jar": "6d3bd18df8410f3e31b031aca582cc109342358a62a2759ebd0c4cdf30d06f8b",
}
"""File name to sha256."""

_PACKAGE: Final = "org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0"
_IN_PYSPARK: Final = (
    "com.google.code.findbugs:jsr305",
    "org.apache.hadoop:hadoop-client-api",
    "org.apache.hadoop:hadoop-client-runtime",
    "org.lz4:lz4-java",
    "org.scala-lang.modules:scala-parallel-collections_2.13",
    "org.slf4j:slf4j-api",
    "org.xerial.snappy:snappy-java",
)
"""What the connector also names and pyspark brings: 50 MB that need not be fetched."""

_FETCH_TIMEOUT_S: Final = 600

# One resolver, so that a half-filled ~/.m2 cannot stand in for it: Ivy takes a pom found there for a promise of its jar.
_IVY_SETTINGS: Final = """\
<ivysettings>
  <settings defaultResolver="central"/>
  <resolvers><ibiblio name="central" m2compatible="true"/></resolvers>
</ivysettings>
"""


def jars_dir(cache: Path | None = None) -> Path:
    """The directory of these jars, below `cache` (default: `cache_dir()`). It need not exist."""
    return (cache or cache_dir()) / f"spark-{SPARK_VERSION}-kafka"


def kafka_jars(cache: Path | None = None) -> tuple[Path, ...]:
    """The jars, verified. Nothing is fetched.

    Raises PipelineError: one is missing, or its checksum differs.
    """
    home = jars_dir(cache)
    missing = [name for name in JARS if not (home / name).is_file()]
    if missing:
        raise PipelineError(
            f"{len(missing)} of {len(JARS)} jars of Spark's Kafka source are missing from {home} ({missing[0]} ...). "
            "Fetch them with: kshim pipeline setup",
            EXIT_UNAVAILABLE,
        )
    for name in JARS:
        _check(home / name)
    return tuple(home / name for name in JARS)


def take_from(folder: Path, cache: Path | None = None) -> tuple[Path, ...]:
    """Copy the jars from `folder`, for machines without a network.

    Raises PipelineError: one is missing there, or its checksum differs.
    """
    for name in JARS:
        if not (folder / name).is_file():
            raise PipelineError(f"{folder} does not contain {name}", EXIT_UNAVAILABLE)
        _check(folder / name)
    _move_in({name: folder / name for name in JARS}, jars_dir(cache))
    return kafka_jars(cache)


def fetch(cache: Path | None = None, *, ivy_settings: Path | None = None) -> tuple[Path, ...]:
    """Fetch the jars with pyspark's Ivy, verify them, and put them into the cache.

    `ivy_settings` replaces the default settings, for example for a mirror. Raises PipelineError, with Ivy's output;
    jars that fail verification do not get into the cache.
    """
    home = jars_dir(cache)
    home.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="ivy.", dir=home.parent) as folder:
        aside = Path(folder)
        if ivy_settings is None:
            ivy_settings = aside / "settings.xml"
            ivy_settings.write_text(_IVY_SETTINGS)
        output = _run_ivy(aside, ivy_settings)
        # Ivy puts the organisation in front of the name.
        found = {jar.name.partition("_")[2]: jar for jar in (aside / "jars").glob("*.jar")}
        if missing := [name for name in JARS if name not in found]:
            raise PipelineError(
                f"Ivy could not fetch {', '.join(missing)}. Its output ends with:\n{_last_lines(output)}\n"
                "Use --ivy-settings FILE for a mirror, or --jars DIR for jars that you have.",
                EXIT_UNAVAILABLE,
            )
        for name in JARS:
            _check(found[name])
        _move_in({name: found[name] for name in JARS}, home)
    return kafka_jars(cache)


def _run_ivy(aside: Path, ivy_settings: Path) -> str:
    """Let spark-submit resolve the package for an application that does nothing; returns its output."""
    import pyspark

    spark_home = Path(pyspark.__file__).parent
    application = aside / "nothing.py"
    application.write_text("")
    command = [str(spark_home / "bin" / "spark-submit"), "--master", "local[1]"]
    command += ["--packages", _PACKAGE, "--exclude-packages", ",".join(_IN_PYSPARK)]
    command += ["--conf", f"spark.jars.ivy={aside}", "--conf", f"spark.jars.ivySettings={ivy_settings}"]
    environment = {
        **os.environ,
        "JAVA_HOME": str(java_home_for_spark(find_java())),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_HOME": str(spark_home),
    }
    try:
        done = subprocess.run(
            [*command, str(application)],
            env=environment,
            capture_output=True,
            text=True,
            timeout=_FETCH_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise PipelineError(f"Ivy did not fetch the jars within {_FETCH_TIMEOUT_S} s", EXIT_UNAVAILABLE) from error
    return done.stdout + done.stderr


def _move_in(jars: Mapping[str, Path], home: Path) -> None:
    """Each jar appears under its name atomically: another run may be reading or fetching them."""
    home.mkdir(parents=True, exist_ok=True)
    for name, jar in jars.items():
        aside = home / f"{name}.{os.getpid()}"
        shutil.copyfile(jar, aside)
        aside.replace(home / name)


def _check(jar: Path) -> None:
    name = next(name for name in JARS if jar.name.endswith(name))
    found = hashlib.sha256(jar.read_bytes()).hexdigest()
    if found != JARS[name]:
        raise PipelineError(
            f"{jar} has a checksum mismatch: its sha256 is {found}, not {JARS[name]}. Delete it and run: kshim pipeline setup",
            EXIT_UNAVAILABLE,
        )


def _last_lines(text: str) -> str:
    telling = [line for line in text.splitlines() if any(word in line for word in ("WARN", "ERROR", "FAILED", "::"))]
    return "\n".join((telling or text.splitlines())[-12:])
