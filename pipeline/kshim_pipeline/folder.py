"""Directories at any address that Spark can use: a path of this machine, `file:///`, `hdfs://`, `s3a://`."""

from __future__ import annotations

import os
import re
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from py4j.protocol import Py4JJavaError

from kshim_pipeline.java_errors import told

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_OF_PATTERNS: Final = re.compile(r"[*?\[\]{}\\]")
_NO_JARS: Final = ("ClassNotFoundException", "UnsupportedFileSystemException")


def is_path(address: str) -> bool:
    """Whether it is a path of this machine, and not the address of a storage.

    >>> is_path("history"), is_path("s3a://bucket/history")
    (True, False)
    """
    return "://" not in address


def is_pattern(address: str) -> bool:
    """Whether Spark would read other files than those it wrote there, or none.

    >>> is_pattern("history"), is_pattern("history[1]")
    (False, True)
    """
    return _OF_PATTERNS.search(address) is not None


class Folder(Protocol):
    """A directory, which need not exist. Names are relative to it. What cannot be read or written raises OSError."""

    @property
    def address(self) -> str:
        """Where it is, in full."""

    def find(self, pattern: str) -> list[str]:
        """Names of files that match, sorted; `*` is any text without a slash."""

    def read_text(self, name: str) -> str:
        """The text of a file. Raises FileNotFoundError."""

    def write_new(self, name: str, text: str) -> None:
        """Write a file that nobody sees before it is whole. Raises FileExistsError: the name is taken."""

    def delete(self, name: str) -> None:
        """Delete a file, or a directory with all that is in it; one that is not there is no error."""


def folder_at(spark: SparkSession, address: str) -> Folder:
    """The directory that Spark means by `address`. Raises OSError: it has no such storage."""
    storage = StorageFolder(spark, address)
    return storage if storage.local_path is None else LocalFolder(storage.local_path)


class LocalFolder:
    """A directory of this machine. What was written stays written if the machine loses power."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def address(self) -> str:
        """Its path."""
        return str(self.path)

    def find(self, pattern: str) -> list[str]:
        """As Folder."""
        return sorted(found.relative_to(self.path).as_posix() for found in self.path.glob(pattern) if found.is_file())

    def read_text(self, name: str) -> str:
        """As Folder."""
        return (self.path / name).read_text(encoding="utf-8")

    def write_new(self, name: str, text: str) -> None:
        """As Folder. Where the disk has no links, a kill can leave half of the file."""
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        aside = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
        try:
            _write_through(aside, text)
            try:
                os.link(aside, path)  # a rename would replace what is there
            except FileExistsError:
                raise
            except OSError:
                _write_through(path, text)
        finally:
            aside.unlink(missing_ok=True)
        directory = os.open(path.parent, os.O_RDONLY)
        try:
            with suppress(OSError):  # some disks cannot
                os.fsync(directory)
        finally:
            os.close(directory)

    def delete(self, name: str) -> None:
        """As Folder."""
        path = self.path / name
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def _write_through(path: Path, text: str) -> None:
    """Raises FileExistsError."""
    with path.open("xb") as file:
        file.write(text.encode())
        file.flush()
        os.fsync(file.fileno())


class StorageFolder:
    """A directory elsewhere, through Hadoop as Spark is configured for it."""

    def __init__(self, spark: SparkSession, address: str) -> None:
        jvm: Any = spark._jvm
        session: Any = spark._jsparkSession
        self._jvm = jvm
        try:
            path = jvm.org.apache.hadoop.fs.Path(address)
            self._configuration = session.sessionState().newHadoopConf()
            self._files = path.getFileSystem(self._configuration)
            self._path = self._files.makeQualified(path)
        except Py4JJavaError as error:
            reason = told(error)
            way_out = "; its jars have to be named in spark-defaults.conf" if reason.startswith(_NO_JARS) else ""
            raise OSError(f"Spark cannot use {address}: {reason}{way_out}") from error

    @property
    def local_path(self) -> Path | None:
        """Where it is on this machine; None: elsewhere."""
        uri = self._path.toUri()
        return Path(uri.getPath()) if uri.getScheme() == "file" else None

    @property
    def address(self) -> str:
        """With its scheme."""
        return str(self._path.toString()).rstrip("/")

    def find(self, pattern: str) -> list[str]:
        """As Folder."""
        with self._as_os_error():
            found = self._files.globStatus(self._below(pattern)) or ()
            paths = [str(status.getPath().toString()) for status in found if status.isFile()]
        start = len(self.address) + 1
        return sorted(path[start:] for path in paths)

    def read_text(self, name: str) -> str:
        """As Folder."""
        with self._as_os_error():
            if not self._files.exists(self._below(name)):
                raise FileNotFoundError(f"{self.address}/{name}")
            stream = self._files.open(self._below(name))
            try:
                return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
            finally:
                stream.close()

    def write_new(self, name: str, text: str) -> None:
        """As Folder. Two writers at the same time are told apart as well as the storage's own rename can."""
        directory, slash, last = name.rpartition("/")
        aside = f"{directory}{slash}.{last}.{uuid.uuid4().hex}"
        with self._as_os_error():
            stream = self._files.create(self._below(aside), False)
            try:
                stream.write(text.encode())
            finally:
                stream.close()
            try:
                self._rename_new(aside, name)
            finally:
                self._files.delete(self._below(aside), False)

    def delete(self, name: str) -> None:
        """As Folder."""
        with self._as_os_error():
            self._files.delete(self._below(name), True)

    def _rename_new(self, aside: str, name: str) -> None:
        options = self._jvm.org.apache.hadoop.fs.Options.Rename
        keeping = _array(self._jvm, options, options.NONE)
        context = self._jvm.org.apache.hadoop.fs.FileContext.getFileContext(self._path.toUri(), self._configuration)
        try:
            context.rename(self._below(aside), self._below(name), keeping)
        except Py4JJavaError as error:
            if self._files.exists(self._below(name)):
                raise FileExistsError(f"{self.address}/{name}") from error
            raise

    def _below(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self._path, name)

    @contextmanager
    def _as_os_error(self) -> Iterator[None]:
        try:
            yield
        except Py4JJavaError as error:
            raise OSError(f"{self.address}: {told(error)}") from error


def _array(jvm: Any, kind: Any, *values: Any) -> Any:
    """A Java array, for a method with a variable number of arguments."""
    array = jvm.java.lang.reflect.Array
    made = array.newInstance(jvm.java.lang.Class.forName(kind._fqn), len(values))
    for at, value in enumerate(values):
        array.set(made, at, value)
    return made
