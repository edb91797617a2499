"""versitygw on loopback: an S3-compatible server whose buckets are directories, and objects files in them.

`go.mod` pins it, `go.sum` has its checksums.
"""

from __future__ import annotations

import socket
from pathlib import Path
from types import TracebackType
from typing import Final

from pyarrow.fs import S3FileSystem

from integration.spark.standalone import wait
from integration.support.broker import Child
from integration.support.go import go_program
from integration.support.kafka import free_ports

ACCESS_KEY: Final = "kshim"
SECRET_KEY: Final = "kshim-secret"
REGION: Final = "us-east-1"
_PACKAGE: Final = "github.com/versity/versitygw/cmd/versitygw"
_STOP_TIMEOUT_S: Final = 20


class S3Server:
    """Runs inside `with`; its buckets are kept in `directory`."""

    def __init__(self, directory: Path, *options: str) -> None:
        """`options` are those of versitygw. Raises as `go_program` does."""
        self._program = go_program(Path(__file__).parent, _PACKAGE)
        self._directory = directory
        self._options = options
        (self._port,) = free_ports(1)
        self._child: Child | None = None

    @property
    def url(self) -> str:
        """Its endpoint."""
        return f"http://127.0.0.1:{self._port}"

    def __enter__(self) -> S3Server:
        for path in (self._buckets, self._attributes):
            path.mkdir(parents=True, exist_ok=True)
        command = [str(self._program), "--port", f"127.0.0.1:{self._port}", "--region", REGION, "--quiet"]
        command += ["--access", ACCESS_KEY, "--secret", SECRET_KEY, *self._options]
        # Not as attributes of the files, which some file systems do not have.
        command += ["posix", "--sidecar", str(self._attributes), str(self._buckets)]
        child = self._child = Child(command, self._directory / f"versitygw-{self._port}.log")
        try:
            wait(child, self._answers, "the S3 server listens")
        except BaseException:
            child.kill()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        assert self._child is not None
        self._child.terminate(timeout_s=_STOP_TIMEOUT_S)

    def client(self) -> S3FileSystem:
        """A client that is not Hadoop's; paths begin with the bucket."""
        return S3FileSystem(
            access_key=ACCESS_KEY,
            secret_key=SECRET_KEY,
            region=REGION,
            endpoint_override=self.url,
            allow_bucket_creation=True,
        )

    def new_bucket(self, name: str) -> Path:
        """Create a bucket; returns the directory where its objects are files."""
        self.client().create_dir(name)
        return self._buckets / name

    @property
    def _buckets(self) -> Path:
        return self._directory / "buckets"

    @property
    def _attributes(self) -> Path:
        return self._directory / "attributes"

    def _answers(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self._port), timeout=1).close()
        except OSError:
            return False
        return True
