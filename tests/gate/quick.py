"""A pytest plugin: `pytest --quick tests` runs what a change should be tried on every few minutes.

Left out is what needs a JVM, Spark or a package index, and what takes long for what it finds: random runs, a crash at
every byte, the same question asked of every version of every message. The modules are named here, and not marked where
they stand, so that a quick run does not even import them.
"""

from __future__ import annotations

from pathlib import Path

import pytest

MARKERS = frozenset({"docs", "java", "kafka", "long", "packaging"})
PATHS = (
    "integration",
    "tests/broker/*_like_kafka.py",
    "tests/cli/test_record.py",
    "tests/cli/test_serve.py",
    "tests/cli/test_serve_faults.py",
    "tests/cli/test_serve_security.py",
    "tests/cli/test_without_extras.py",
    "tests/control/test_metrics.py",
    "tests/control/test_openapi.py",
    "tests/control/test_reset.py",
    "tests/coordinator/groups/test_machine.py",
    "tests/coordinator/groups/test_replay.py",
    "tests/coordinator/transactions/test_atomicity.py",
    "tests/docs",
    "tests/faults/test_errors.py",
    "tests/faults/test_rule.py",
    "tests/gate",
    "tests/history/test_histories.py",
    "tests/mutation",
    "tests/packaging",
    "tests/pipeline",
    "tests/protocol/records/test_record_properties.py",
    "tests/protocol/records/test_selection.py",
    "tests/protocol/records/test_validation.py",
    "tests/protocol/test_codec.py",
    "tests/protocol/test_java_classes.py",
    "tests/protocol/test_kafka_python.py",
    "tests/protocol/test_large_requests.py",
    "tests/protocol/test_offsets_records.py",
    "tests/protocol/test_typing.py",
    "tests/pytest_plugin",
    "tests/repository/test_makefile.py",
    "tests/server/test_serve.py",
    "tests/simulation",
    "tests/storage/test_cleaner_files.py",
    "tests/storage/test_cleaner_model.py",
    "tests/storage/test_log_model.py",
    "tests/storage/test_recovery.py",
    "tests/testing/chaos/test_profiles.py",
    "tests/testing/test_loading.py",
    "tests/testing/test_security.py",
    "tests/tools/conform_client/test_judge.py",
    "tests/tools/demo/test_run.py",
)
"""Folders and files below the root of the project; in the name of a file `*` stands for anything."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--quick`."""
    parser.addoption("--quick", action="store_true", help="only the tests of `make check`")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave `PATHS` out of a quick run."""
    if config.getoption("quick") and any(collection_path.match(str(config.rootpath / path)) for path in PATHS):
        return True
    return None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave tests with one of `MARKERS` out of a quick run."""
    if not config.getoption("quick"):
        return
    left = [item for item in items if not MARKERS.isdisjoint(mark.name for mark in item.iter_markers())]
    config.hook.pytest_deselected(items=left)
    items[:] = [item for item in items if item not in left]


def pytest_report_header(config: pytest.Config) -> list[str] | None:
    """Say what a quick run leaves to others."""
    if not config.getoption("quick"):
        return None
    return [f"left to `make test`: {', '.join(PATHS)}", f"and tests marked {', '.join(sorted(MARKERS))}"]
