"""Why something failed in the JVM: what the storage says, and not what Spark wraps around it."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from py4j.protocol import Py4JJavaError

from kshim_pipeline.java_errors import told


class JavaClass(NamedTuple):
    """As py4j shows a class."""

    name: str

    def getName(self) -> str:
        return self.name


class Thrown:
    """As py4j shows an exception."""

    _target_id = "o1"
    _gateway_client = None

    def __init__(self, name: str, message: str | None, cause: Thrown | None = None) -> None:
        self.name, self.message, self.cause = name, message, cause

    def getClass(self) -> JavaClass:
        return JavaClass(self.name)

    def getMessage(self) -> str | None:
        return self.message

    def getCause(self) -> Thrown | None:
        return self.cause


DENIED = Thrown(
    "software.amazon.awssdk.services.s3.model.S3Exception",
    "Access Denied. (Service: S3, Status Code: 403, Request ID: K5T, Extended Request ID: 6l9/F59=)",
)
TRANSLATED = Thrown("java.nio.file.AccessDeniedException", f"s3a://lake/x: PUT on x: {DENIED.message}", DENIED)
NO_CLASS = Thrown("java.lang.ClassNotFoundException", "Class a.b.S3AFileSystem not found")


@pytest.mark.parametrize(
    ("thrown", "said"),
    [
        (TRANSLATED, "Access Denied."),
        (Thrown("org.apache.spark.SparkException", "Job aborted", TRANSLATED), "Access Denied."),
        (Thrown("org.apache.spark.SparkException", "Job aborted"), "SparkException: Job aborted"),
        (Thrown("java.io.IOException", "No space\nat all", NO_CLASS), "IOException: No space"),
        (Thrown("java.lang.RuntimeException", "a.b", NO_CLASS), f"ClassNotFoundException: {NO_CLASS.message}"),
    ],
)
def test_an_error_of_java_is_a_line(thrown: Thrown, said: str) -> None:
    error = Py4JJavaError("An error occurred while calling o114.parquet.\n", thrown)
    assert told(error) == said


def test_another_error_is_its_first_line() -> None:
    assert told(ValueError("\nfirst\nsecond")) == "first"
