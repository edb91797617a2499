"""What a user tells Spark to use an S3-compatible storage: jars, endpoint and keys, in `spark-defaults.conf`."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from integration.spark.s3a.server import ACCESS_KEY, REGION, SECRET_KEY
from integration.support.jars import JarSet

JARS: Final = JarSet("spark-4.0.4-s3a", Path(__file__).parent)


def environment(
    directory: Path, url: str, *, secret_key: str = SECRET_KEY, classpath: str | None = None
) -> dict[str, str]:
    """The variables of a process with these settings, which are kept in `directory`. `url`: of the server.

    `classpath` is that of `JARS` unless it is given. Raises as `JarSet.jars` does.
    """
    classpath = JARS.classpath if classpath is None else classpath
    settings = {
        "spark.driver.extraClassPath": classpath,
        "spark.executor.extraClassPath": classpath,
        "spark.hadoop.fs.s3a.endpoint": url,
        "spark.hadoop.fs.s3a.endpoint.region": REGION,
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.hadoop.fs.s3a.access.key": ACCESS_KEY,
        "spark.hadoop.fs.s3a.secret.key": secret_key,
    }
    directory.mkdir(parents=True)
    lines = [f"{key} {value}\n" for key, value in settings.items() if value]
    (directory / "spark-defaults.conf").write_text("".join(lines))
    return {"SPARK_CONF_DIR": str(directory)}
