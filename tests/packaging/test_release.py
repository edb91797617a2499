"""What the workflows do with this checkout, as far as that can be known without them."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.gate.matrix import CELLS
from tests.packaging.release import NotReleasable, notes
from tests.repository.checkout import ROOT

CHANGELOG = "# Changelog\n\n## Unreleased\n\n- New.\n\n## 0.2.0 (2026-02-01)\n\n- Faster.\n\n## 0.1.0\n"
BIN = Path(sys.executable).parent
SCHEMAS = {
    "vendor.compose-spec": ["compose.yaml"],
    "vendor.dependabot": [".github/dependabot.yml"],
    "vendor.github-issue-config": [".github/ISSUE_TEMPLATE/config.yml"],
    "vendor.github-issue-forms": [".github/ISSUE_TEMPLATE/[!c]*.yml"],
    "vendor.github-workflows": [".github/workflows/*.yml"],
    "custom.github-workflows-require-timeout": [".github/workflows/*.yml"],
}


def check(schema: str, *files: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, *map(str, files)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("schema", SCHEMAS)
def test_what_services_read_follows_their_schema(schema: str) -> None:
    files = [file for pattern in SCHEMAS[schema] for file in ROOT.glob(pattern)]
    assert files
    done = check(schema, *files)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("schema", "file", "right", "wrong"),
    [
        ("vendor.github-workflows", ".github/workflows/gate.yml", "runs-on", "run-on"),
        ("vendor.compose-spec", "compose.yaml", "depends_on:", "depend_on:"),
        ("vendor.compose-spec", "compose.yaml", "service_healthy", "healthy"),
    ],
)
def test_the_schemas_refuse_mistakes(schema: str, file: str, right: str, wrong: str, tmp_path: Path) -> None:
    mistaken = tmp_path / "mistaken.yml"
    mistaken.write_text((ROOT / file).read_text().replace(right, wrong))
    assert check(schema, mistaken).returncode == 1


def make_commands() -> Iterator[list[str]]:
    """The arguments of every `make` of the workflows, once for each cell of a job's matrix."""
    for file in (ROOT / ".github/workflows").glob("*.yml"):
        for job in yaml.safe_load(file.read_text())["jobs"].values():
            matrix = job.get("strategy", {}).get("matrix", {})
            for values in itertools.product(*matrix.values()):
                for step in job.get("steps", []):
                    command = step.get("run", "")
                    for name, value in zip(matrix, values, strict=True):
                        command = command.replace(f"${{{{ matrix.{name} }}}}", value)
                    if command.startswith("make "):
                        yield command.split()[1:]


def test_every_make_target_of_a_workflow_exists() -> None:
    commands = list(make_commands())
    assert commands
    for arguments in commands:
        done = subprocess.run(["make", "-n", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"make {' '.join(arguments)}: {done.stderr}"


def test_every_cell_of_the_matrix_is_run() -> None:
    options = {option for arguments in make_commands() for option in arguments if option.startswith("CELLS=")}
    assert options == {f"CELLS={name}" for name in CELLS}


def test_hooks_before_a_commit_are_tools_of_this_environment() -> None:
    subprocess.run([BIN / "pre-commit", "validate-config"], cwd=ROOT, check=True)
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"][0]["hooks"]
    assert all((BIN / Path(hook["entry"].split()[0]).name).exists() for hook in hooks)


def test_a_release_has_the_text_of_its_section() -> None:
    assert notes("v0.2.0", "0.2.0", CHANGELOG) == "- Faster.\n"


@pytest.mark.parametrize(
    ("tag", "version", "problem"),
    [
        ("v0.3.0", "0.2.0", r"the tag is v0\.3\.0, but pyproject\.toml says 0\.2\.0"),
        ("v0.3.0", "0.3.0", r"no section 0\.3\.0"),
        ("v0.1.0", "0.1.0", r"nothing in its section 0\.1\.0"),
    ],
)
def test_a_tag_without_its_version_or_its_section_is_not_released(tag: str, version: str, problem: str) -> None:
    with pytest.raises(NotReleasable, match=problem):
        notes(tag, version, CHANGELOG)


def test_the_check_of_a_tag_runs_without_any_package(tmp_path: Path) -> None:
    command = [sys.executable, "-I", "-S", "-c", "import sys; sys.path.insert(0, '.'); sys.argv[1:] = ['v0.0'];"
               "import runpy; runpy.run_module('tests.packaging.release', run_name='__main__')"]  # fmt: skip
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert "the tag is v0.0, but pyproject.toml says" in done.stderr
