"""What went wrong in the JVM, in words for the user."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from py4j.protocol import Py4JJavaError

_OF_S3: Final = "software.amazon.awssdk."
_WRAPPERS: Final = ("java.lang.RuntimeException", "org.apache.spark.SparkException")
_IDS: Final = re.compile(r"\s*\((Service|Request ID): [^)]*\)")


def told(error: Exception) -> str:
    """The reason in one line; of an error of the JVM, that of the storage and not of what Spark was about to do."""
    return _first_line(str(error) if not isinstance(error, Py4JJavaError) else _of_java(error.java_exception))


def _of_java(thrown: Any) -> str:
    causes = list(_causes(thrown))
    for cause in causes:
        if _name(cause).startswith(_OF_S3):
            # What wraps it says the same twice, with the ids of the request.
            return _IDS.sub("", str(cause.getMessage()))
    telling = next((cause for cause in causes if _name(cause) not in _WRAPPERS), thrown)
    return f"{_name(telling).rpartition('.')[2]}: {telling.getMessage()}"


def _causes(thrown: Any) -> Iterator[Any]:
    while thrown is not None:
        yield thrown
        thrown = thrown.getCause()


def _name(thrown: Any) -> str:
    return str(thrown.getClass().getName())


def _first_line(text: str) -> str:
    return next((line for line in text.splitlines() if line.strip()), text)
