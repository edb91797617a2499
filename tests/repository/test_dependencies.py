"""What the project needs is written down, and nothing leans on the machine it was written on."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.repository.checkout import ROOT, relative

TEXT = {".md", ".py", ".toml", ".yaml", ".yml", ".txt", ".xml", ".json", ""}
FOLDERS = ("shim", "protocol", "pipeline", "tests", "integration", "bench", "docs", ".ci")
FOREIGN_PATH = re.compile(r"(?<![\w./-])/(?:work|farm|root|home)/\w")


def project() -> dict[str, Any]:
    table: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return table


def names(requirements: list[str]) -> set[str]:
    """The packages that requirements name, without versions and extras."""
    return {re.split(r"[\[<>=~!; ]", requirement)[0] for requirement in requirements}


def text_files() -> Iterator[Path]:
    yield from (path for path in ROOT.iterdir() if path.is_file() and path.suffix in TEXT)
    for folder in FOLDERS:
        for path in (ROOT / folder).rglob("*"):
            if path.is_file() and path.suffix in TEXT and "__pycache__" not in path.parts:
                yield path


def test_the_page_about_dependencies_names_each_one() -> None:
    page = (ROOT / "docs" / "dependencies.md").read_text()
    extras = project()["optional-dependencies"]
    needed = names(project()["dependencies"]).union(*map(names, extras.values()))
    rows = "\n".join(line for line in page.splitlines() if line.startswith(("|", "**")))
    assert {name for name in needed if not re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", rows)} == set()


def test_the_page_names_each_extra() -> None:
    page = (ROOT / "docs" / "dependencies.md").read_text()
    assert [extra for extra in project()["optional-dependencies"] if f"kshim[{extra}]" not in page] == []


def test_the_core_stays_small() -> None:
    assert names(project()["dependencies"]) == {"construct", "crc32c", "trio"}


def test_no_file_names_a_folder_of_the_machine_it_was_written_on() -> None:
    files = list(text_files())
    assert ROOT / "Makefile" in files
    found = [relative(path) for path in files if FOREIGN_PATH.search(path.read_text(errors="replace"))]
    assert found == []


def test_the_search_for_foreign_folders_finds_one() -> None:
    assert FOREIGN_PATH.search("see " + "/" + "work/shared")
    assert not FOREIGN_PATH.search("docs/work/in-progress, https://example.org/home/page")
