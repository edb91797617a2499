"""Which stages `make test-all` has."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.gate.full_run import LONG, OPTIONAL, ROOT, chosen, files_named, readers_of_pages, stages

LONG_MARK = re.compile(r"^@pytest\.mark\.long$|^pytestmark = .*mark\.long|marks=pytest\.mark\.long", re.MULTILINE)


def test_without_names_all_but_the_optional_stages_run() -> None:
    everything = stages()
    names = [stage.name for stage in chosen(everything, [])]
    assert names[0] == "lint"
    assert set(names) == {stage.name for stage in everything} - set(OPTIONAL)


def test_stages_named_run_in_their_order() -> None:
    assert [stage.name for stage in chosen(stages(), ["soak", "lint"])] == ["lint", "soak"]


def test_a_name_that_no_stage_has_is_an_error() -> None:
    with pytest.raises(ValueError, match="no such stage: nightly"):
        list(chosen(stages(), ["lint", "nightly"]))


def test_every_path_of_the_long_stages_is_there() -> None:
    assert [path for paths in LONG.values() for path in paths if not (ROOT / path).exists()] == []


def test_every_long_test_outside_of_integration_is_in_a_stage() -> None:
    long = [path for path in (ROOT / "tests").rglob("test_*.py") if LONG_MARK.search(path.read_text())]
    folders = [ROOT / path for paths in LONG.values() for path in paths]
    assert len(long) > 3
    assert [path for path in long if not any(path.is_relative_to(folder) for folder in folders)] == []


def test_tests_that_read_pages_are_found_through_their_modules(tmp_path: Path) -> None:
    files = {
        "tests/history/page.py": 'PAGE = (ROOT / "docs/events.md").read_text()\n',
        "tests/history/builders.py": "from tests.history.page import PAGE\n",
        "tests/history/test_events.py": "from tests.history.builders import a_group\n",
        "tests/history/test_ring.py": '"""As docs/events.md says."""\nfrom tests.history.other import ring\n',
        "integration/test_readme.py": 'TEXT = (ROOT / "README.md").read_text()\n',
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert readers_of_pages(tmp_path) == ["tests/history/test_events.py", "integration/test_readme.py"]


def test_modules_are_followed_through_what_they_name(tmp_path: Path) -> None:
    files = {
        "integration/java/test_groups.py": "from integration.java.jars import MODULE\n",
        "integration/java/jars.py": 'MODULE = "integration.clients.matrix"\n',
        "integration/java/conftest.py": "",
        "integration/java/pins.toml": "",
        "integration/clients/__init__.py": "",
        "integration/clients/matrix.py": "from tests.conftest import make_node\nfrom tests.page import browser\n",
        "integration/clients/other.py": "",
        "integration/support/jvm.py": 'FACTS = ROOT / "tests/rules.toml"\n',
        "tests/page/browser.py": "",
        "tests/rules.toml": "",
        "integration/hostile/test_frames.py": "",
        "tests/conftest.py": "from tests.gate.quick import PATHS\n",
        "tests/gate/quick.py": 'PATHS = ("integration/hostile",)\n',
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    expected = [
        "integration/clients/__init__.py",
        "integration/clients/matrix.py",
        "integration/java/conftest.py",
        "integration/java/jars.py",
        "integration/java/pins.toml",
        "integration/java/test_groups.py",
        "integration/support",
        "tests/conftest.py",
        "tests/page",
        "tests/rules.toml",
    ]
    assert files_named(tmp_path, ("integration/java/test_groups.py",)) == expected


def test_a_stage_of_some_folders_does_not_depend_on_the_others() -> None:
    depends_on = {stage.name: stage.depends_on for stage in stages()}
    assert {"shim", "integration/hostile", "integration/support"} <= set(depends_on["long-hostile"])
    assert not {"tests", "integration", "integration/exactly_once"} & set(depends_on["long-hostile"])
    assert {"tests", "integration"} <= set(depends_on["gate"]) & set(depends_on["long-others"])
