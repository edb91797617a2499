"""The documentation builds without a warning: every page is in the contents, and every link leads somewhere."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.blocks import DOCS

TIMEOUT_S = 240
PACKAGES = ("furo", "myst_parser", "sphinx")


LOADED_FROM_ELSEWHERE = re.compile(
    r"""<(?:script|img|iframe|source)\b[^>]*\bsrc=["'](?:https?:)?//[^"']*|<link\b[^>]*\bhref=["'](?:https?:)?//[^"']*"""
    r"""|\bimport\b[^;<]{0,80}["']https?://[^"']*|@import[^;]*//[^;]*""",
)
"""What a browser fetches by itself, unlike links that a reader follows."""


def page_of(folder: Path, name: str) -> str:
    """A built page of docs/design."""
    return (folder / "html" / "design" / f"{name}.html").read_text(encoding="utf-8")


def missing() -> list[str]:
    """The packages of `kshim[docs]` that are not installed."""
    found = []
    for name in PACKAGES:
        try:
            if importlib.util.find_spec(name) is None:
                found.append(name)
        except ModuleNotFoundError:
            found.append(name)
    return found


@pytest.fixture(autouse=True)
def packages() -> None:
    """Skips without `kshim[docs]`, or fails where everything is required."""
    if missing():
        reason = f"needs {', '.join(missing())}: pip install 'kshim[docs]'"
        if os.environ.get("KSHIM_TEST_REQUIRE_ALL") == "1":
            pytest.fail(reason)
        pytest.skip(reason)


def build(source: Path, into: Path) -> subprocess.CompletedProcess[str]:
    """Run Sphinx with the options of `make docs`."""
    options = ("-q", "-W", "--keep-going", "-n", "-d", str(into / "doctrees"))
    command = [sys.executable, "-m", "sphinx", *options, str(source), str(into / "html")]
    return subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)


@pytest.mark.docs
def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    done = build(DOCS, tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "html" / "index.html").is_file()
    loaded = {
        str(page.relative_to(tmp_path / "html")): found
        for page in (tmp_path / "html").rglob("*.html")
        if (found := LOADED_FROM_ELSEWHERE.findall(page.read_text(encoding="utf-8")))
    }
    assert loaded == {}, "pages must be complete without a network"
    for page, state in (("coordinator", "PreparingRebalance"), ("transactions", "PrepareCommit")):
        assert f"{state}</text>" in page_of(tmp_path, page)


@pytest.mark.docs
def test_broken_links_fail_the_build(tmp_path: Path) -> None:
    source = tmp_path / "docs"
    source.mkdir()
    shutil.copy(DOCS / "conf.py", source)
    links = ("[gone](gone.md)", "[a heading](index.md#nowhere)", "```{toctree}\nabsent\n```")
    (source / "index.md").write_text("\n\n".join(("# A site", *links)))
    done = build(source, tmp_path)
    assert done.returncode != 0
    for name in ("gone.md", "nowhere", "absent"):
        assert name in done.stderr
