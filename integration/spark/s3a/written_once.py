"""`python -m integration.spark.s3a.written_once ADDRESS PATH`: what `tests.pipeline.test_folder` asks of a directory elsewhere.

`PATH` is where this machine sees the same directory. A process of its own, as the settings of a JVM are those it began with.
"""

from __future__ import annotations

import sys
from pathlib import Path

from kshim_pipeline.folder import StorageFolder
from kshim_pipeline.setup.session import make_session
from tests.pipeline.test_folder import is_written_once_and_found

if __name__ == "__main__":
    session = make_session("written once", "local[1]")
    is_written_once_and_found(StorageFolder(session, sys.argv[1]), Path(sys.argv[2]))
    session.stop()
