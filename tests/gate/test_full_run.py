"""Which stages `make test-all` has."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.gate.full_run import LONG, OPTIONAL, ROOT, chosen, readers_of_pages, stages


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
