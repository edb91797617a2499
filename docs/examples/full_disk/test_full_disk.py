import os
import shutil
import subprocess
from pathlib import Path

import pytest

from integration.clients import platformatic_kafka
from integration.support.fixtures import available
from integration.support.node import node, node_program

pytestmark = pytest.mark.kshim(topics={"audit": 1})


@pytest.fixture
def audit(kshim, tmp_path):
    """Runs `audit.mjs` of this folder with some input; returns how it ended."""
    _, driver = available(lambda: node_program(Path(platformatic_kafka.__file__).parent, "driver.js"))
    (tmp_path / "node_modules").symlink_to(Path(driver).parent / "node_modules")
    shutil.copy(Path(__file__).with_name("audit.mjs"), tmp_path)

    def run(*lines):
        return subprocess.run(
            [node(), tmp_path / "audit.mjs"],
            env={**os.environ, "BOOTSTRAP_SERVERS": kshim.bootstrap_servers},
            input="".join(f"{line}\n" for line in lines),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    return run


def test_entries_are_safe_when_the_disk_was_full_for_a_moment(kshim, audit):
    kshim.faults.on("Produce", topic="audit").disk_full().times(2)
    ended = audit("ann logs in", "ann reads a letter")
    assert ended.stdout.splitlines() == ["safe: ann logs in", "safe: ann reads a letter"], ended.stderr
    assert ended.returncode == 0
    assert [record.value for record in kshim.records("audit")] == [b"ann logs in", b"ann reads a letter"]
    kshim.faults.assert_all_used()


def test_an_entry_that_cannot_be_written_is_not_called_safe(kshim, audit):
    kshim.faults.on("Produce", topic="audit").disk_full().always()
    ended = audit("ann deletes the letter")
    assert ended.stdout.splitlines() == ["NOT SAFE: ann deletes the letter"]
    assert ended.returncode == 1
    assert kshim.records("audit") == []
