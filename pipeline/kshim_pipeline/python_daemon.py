"""The process that Spark forks its Python workers from on this machine: pyspark's own, which prepares them for short tasks.

Before each task a worker asks Python to look for modules anew, and Python 3.11 then reads the contents of each archive that it has
found modules in, among them pyspark.zip and a jar of Spark with thousands of names; after it, a worker looks for garbage in all
modules that it has loaded. That took 200 ms of a core a task. So modules are found in folders alone, and what every worker needs
is loaded before the fork, and never looked at for garbage. Rows make many objects, few of them garbage: to look for it whenever there
are 700 more, as Python does, takes a tenth of the diagnosis.
"""

from __future__ import annotations

import gc
import os
import sys
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Final

_GARBAGE_AFTER: Final = 50_000
"""So many objects more than before are looked through for garbage: some 10 MB."""


def leave_out_archives(spark_home: Path) -> None:
    """Find no modules in the archives of Spark any more, if pyspark is found in a folder, too."""
    archives = {entry for entry in sys.path if Path(entry).is_relative_to(spark_home) and Path(entry).is_file()}
    others = [entry for entry in sys.path if entry not in archives]
    if PathFinder.find_spec("pyspark", others) is None:
        return
    sys.path[:] = others
    for archive in archives:
        sys.path_importer_cache.pop(archive, None)


def main() -> None:
    """Run as `pyspark.daemon` until Spark ends."""
    leave_out_archives(Path(os.environ["SPARK_HOME"]))
    from pyspark import daemon

    import kshim_pipeline.decode  # noqa: F401

    gc.freeze()
    gc.set_threshold(_GARBAGE_AFTER)
    daemon.manager()  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    main()
