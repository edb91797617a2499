"""What the documentation shows is so: its commands run, its snippets print what stands beside them."""

from __future__ import annotations

import argparse
import doctest
import importlib.util
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kshim.cli import exit_codes
from kshim.tools.api_table import with_table
from kshim_pipeline.cli import COMMANDS
from tests.cli.process import TIMEOUT_S
from tests.docs import command_page
from tests.docs.blocks import DOCS, README, ROOT, blocks
from tests.docs.session import Session

ELSEWHERE = {
    "testing-java.md": "integration/docs",
    "testing-go.md": "integration/docs",
    "testing-node.md": "integration/docs",
}
"""Pages that need more than Python, and who plays them."""
TUTORIALS = [page for page in sorted((DOCS / "tutorials").glob("*.md")) if page.name not in ELSEWHERE]
PAGES = [
    README,
    DOCS / "index.md",
    DOCS / "installing.md",
    DOCS / "kshim-protocol.md",
    DOCS / "testing" / "index.md",
    DOCS / "testing" / "pytest.md",
    DOCS / "testing" / "chaos.md",
    DOCS / "testing" / "recording.md",
    DOCS / "testing" / "control.md",
    *TUTORIALS,
]
SPARK = "kshim pipeline "


def commands(beginning: str) -> list[str]:
    """The commands of all pages that begin so, each once."""
    lines = (line for page in PAGES for block in blocks(page, "sh") for line in block.splitlines())
    return sorted({line for line in lines if line.startswith(beginning)})


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_does_what_it_says(page: Path, tmp_path: Path) -> None:
    for command in ("openssl", "curl"):
        if shutil.which(command) is None and re.search(rf"^{command} ", page.read_text(), re.MULTILINE):
            pytest.skip(f"needs the {command} command")
    with Session(tmp_path, ignored=(SPARK,)) as session:
        session.play(page)


@pytest.mark.parametrize("command", commands(SPARK))
def test_a_pipeline_command_takes_its_options(command: str) -> None:
    """`integration/spark/test_tutorial.py` runs them: that takes Spark, and minutes."""
    _, _, name, *options = shlex.split(command)
    parser = argparse.ArgumentParser(exit_on_error=False)
    COMMANDS[name].add_options(parser)
    _, unknown = parser.parse_known_args(options)
    assert unknown == []


@pytest.mark.parametrize("command", commands("make "))
def test_a_make_target_exists(command: str) -> None:
    done = subprocess.run(
        [*command.split(), "-n"], cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("command", commands("python -m pip install "))
def test_pip_takes_the_project(command: str) -> None:
    if importlib.util.find_spec("hatchling") is None:
        pytest.skip("without hatchling pip would have to fetch it")
    arguments = shlex.split(command)[1:]
    # Nothing is fetched and nothing changed: what is missing to the real thing is the network.
    dry = [*arguments, "--dry-run", "--no-deps", "--no-build-isolation", "--no-index"]
    done = subprocess.run(
        [sys.executable, *dry], cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    assert done.returncode == 0, done.stderr


def test_the_examples_of_the_protocol_library_print_what_they_show() -> None:
    page = doctest.DocTestParser().get_doctest(
        (DOCS / "kshim-protocol.md").read_text(), {}, "kshim-protocol.md", None, 0
    )
    assert page.examples
    assert doctest.DocTestRunner().run(page).failed == 0


def test_the_command_line_page_is_generated() -> None:
    """`python -m tests.docs.command_page --write` writes it."""
    assert command_page.PAGE.read_text() == command_page.page()


def test_the_table_of_apis_is_generated() -> None:
    """`python -m kshim.tools.api_table --write docs/reference/apis.md` writes it."""
    page = (DOCS / "reference" / "apis.md").read_text()
    assert page == with_table(page)


def test_every_exit_code_is_listed() -> None:
    listed = {int(code) for code in re.findall(r"^\| (\d+) \|", command_page.page(), re.MULTILINE)}
    assert listed == {value for name, value in vars(exit_codes).items() if name.startswith("EXIT_")}


@pytest.mark.parametrize(
    "page", [README, ROOT / ".github" / "CONTRIBUTING.md", DOCS / "README.md"], ids=lambda page: page.name
)
def test_links_of_pages_outside_the_site_lead_somewhere(page: Path) -> None:
    targets = [target for target in re.findall(r"\]\(([^)#]+)", page.read_text()) if "://" not in target]
    assert [target for target in targets if not (page.parent / target).exists()] == []
