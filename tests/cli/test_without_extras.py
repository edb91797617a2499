"""An installation of kshim without its extras: every command explains itself, and names the extra that it needs."""

from __future__ import annotations

import subprocess
import venv
from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

REPOSITORY = Path(__file__).parents[2]
COMMANDS = ["serve", "demo", "conform", "ctl", "dump-offsets", "import", "page", "pipeline", "top", "why"]
PIPELINE_COMMANDS = ["setup", "land", "watch", "analyse", "report", "explain", "budget", "demo"]
ARGUMENTS = {
    "setup": [],
    "land": ["--bootstrap-server=127.0.0.1:1", "--out=landed"],
    "watch": ["--bootstrap-server=127.0.0.1:1", "--checkpoint=checkpoint"],
    "analyse": ["--landed=landed", "--out=results"],
    "report": ["--landed=landed", "--out=report.html"],
    "explain": ["orders", "--landed=landed"],
    "budget": ["--max-per-hour=6", "--landed=landed"],
    "demo": ["--incidents=1"],
}
EXIT_UNAVAILABLE = 3


@pytest.fixture(scope="module")
def without_extras(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment that holds kshim and the packages it cannot do without, and nothing else."""
    home = tmp_path_factory.mktemp("core")
    venv.create(home, symlinks=True)
    site = next(home.glob("lib/python*/site-packages"))
    for installed in required(distribution("kshim"), {}).values():
        for name in {file.parts[0] for file in installed.files or () if file.parts[0] not in ("..", "__pycache__")}:
            found = Path(str(installed.locate_file(name)))
            if found.suffix != ".pth" and not (site / name).exists():
                (site / name).symlink_to(found)
    (site / "sources.pth").write_text("".join(f"{REPOSITORY / root}\n" for root in ("shim", "protocol", "pipeline")))
    return home / "bin" / "python"


def required(found: Distribution, known: dict[str, Distribution]) -> dict[str, Distribution]:
    """A distribution and those that it requires without any extra."""
    known[found.name] = found
    for needed in map(Requirement, found.requires or ()):
        if needed.name not in known and (needed.marker is None or needed.marker.evaluate({"extra": ""})):
            required(distribution(needed.name), known)
    return known


def kshim(python: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(python), "-c", "import sys; from kshim.cli.main import main; sys.exit(main())", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("module", ["pyspark", "numpy", "pyarrow", "kafka", "cramjam", "pytest"])
def test_the_environment_has_no_extra(without_extras: Path, module: str) -> None:
    done = subprocess.run([without_extras, "-c", f"import {module}"], capture_output=True, text=True, check=False)
    assert f"No module named '{module}'" in done.stderr


@pytest.mark.parametrize(
    "command", [[], *([name] for name in COMMANDS), *(["pipeline", name] for name in PIPELINE_COMMANDS)]
)
def test_every_command_has_a_help(without_extras: Path, tmp_path: Path, command: list[str]) -> None:
    done = kshim(without_extras, tmp_path, *command, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(" ".join(["usage: kshim", *command]))


@pytest.mark.parametrize("name", PIPELINE_COMMANDS)
def test_every_command_of_the_pipeline_names_its_extra(without_extras: Path, tmp_path: Path, name: str) -> None:
    done = kshim(without_extras, tmp_path, "pipeline", name, *ARGUMENTS[name])
    assert (done.returncode, done.stdout) == (EXIT_UNAVAILABLE, "")
    assert done.stderr.count("\n") == 1
    assert "pip install 'kshim[pipeline]'" in done.stderr


def test_the_demo_names_its_extra(without_extras: Path, tmp_path: Path) -> None:
    done = kshim(without_extras, tmp_path, "demo")
    assert (done.returncode, done.stderr.count("\n")) == (EXIT_UNAVAILABLE, 1)
    assert "pip install 'kshim[demo]'" in done.stderr


def test_control_over_http_names_its_extra(without_extras: Path, tmp_path: Path) -> None:
    done = kshim(without_extras, tmp_path, "serve", "--listen=127.0.0.1:0", "--control=127.0.0.1:0")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (EXIT_UNAVAILABLE, "", 1)
    assert "pip install 'kshim[control]'" in done.stderr


@pytest.mark.parametrize(
    "arguments", [["conform", "--bootstrap-server=127.0.0.1:1"], ["dump-offsets", "--bootstrap-server=127.0.0.1:1"]]
)
def test_the_other_commands_need_no_extra(without_extras: Path, tmp_path: Path, arguments: list[str]) -> None:
    done = kshim(without_extras, tmp_path, *arguments)
    assert done.stderr.startswith("kshim: ")
    assert "pip install" not in done.stderr
    assert done.stderr.count("\n") == 1
