"""Empty virtual environments, and the packages of this one as wheels, so that no test asks a registry."""

from __future__ import annotations

import base64
import hashlib
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterable, Sequence
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement

BUILD_TOOLS = ("hatchling",)
PACKAGES = ("construct", "crc32c", "trio", "cramjam", "h11", "kafka-python", "msgspec", "prometheus-client")
TIMEOUT_S = 120
UV = str(Path(sys.executable).with_name("uv"))


class Environment:
    """A virtual environment that does not see the packages of the one that runs the tests."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.bin = home / "bin"
        self.python = str(self.bin / "python")

    @classmethod
    def make(cls, home: Path, requirements: Sequence[str], wheels: Path) -> Environment:
        """A new one with what is required, out of a folder of wheels."""
        made = cls(home)
        run([UV, "venv", "--quiet", "--offline", "--python", sys.executable, str(home)])
        if requirements:
            source = ["--offline", "--no-index", "--find-links", str(wheels)]
            run([UV, "pip", "install", "--quiet", *source, "--python", made.python, *requirements])
        return made

    def variables(self, **more: str) -> dict[str, str]:
        """Those of a process in which this environment is active."""
        path = f"{self.bin}{os.pathsep}{os.environ['PATH']}"
        return clean_variables(PATH=path, VIRTUAL_ENV=str(self.home), **more)


def clean_variables(**more: str) -> dict[str, str]:
    """The variables of this process, and others, without those of kshim, Python and the installers."""
    foreign = ("KSHIM_", "PIP_", "PIPX_", "PYTHON", "UV_", "XDG_")
    return {name: value for name, value in os.environ.items() if not name.startswith(foreign)} | more


def run(command: Sequence[str], environment: dict[str, str] | None = None) -> str:
    """What a command wrote to stdout; fails with what it wrote to stderr."""
    variables = clean_variables() if environment is None else environment
    done = subprocess.run(command, capture_output=True, text=True, env=variables, check=False, timeout=TIMEOUT_S)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr or done.stdout}"
    return done.stdout


def pack_wheels(names: Iterable[str], folder: Path) -> None:
    """Write wheels of installed packages and of all they need here."""
    folder.mkdir()
    left, seen = list(names), set[str]()
    while left:
        requirement = Requirement(left.pop())
        name = re.sub(r"[-_.]+", "-", requirement.name).lower()
        if name in seen:
            continue
        seen.add(name)
        found = distribution(name)
        _pack(found, folder)
        needed = map(Requirement, found.requires or [])
        left += [str(each) for each in needed if each.marker is None or each.marker.evaluate({"extra": ""})]


def _pack(found: Distribution, folder: Path) -> None:
    tags = re.findall(r"^Tag: (\S+)-(\S+)-(\S+)$", found.read_text("WHEEL") or "", re.MULTILINE)
    tag = "-".join(".".join(dict.fromkeys(part)) for part in zip(*tags, strict=True))
    name = re.sub(r"[-_.]+", "_", found.metadata["Name"])
    record = []
    with zipfile.ZipFile(folder / f"{name}-{found.version}-{tag}.whl", "w") as wheel:
        for file in found.files or []:
            is_made_by_installer = file.name in ("RECORD", "INSTALLER", "REQUESTED", "direct_url.json")
            if is_made_by_installer or file.parts[0] == ".." or "__pycache__" in file.parts:
                continue
            content = file.read_binary()
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            record.append(f"{file.as_posix()},sha256={digest},{len(content)}")
            wheel.writestr(file.as_posix(), content)
        info = next(file.parent for file in found.files or [] if file.name == "METADATA")
        wheel.writestr(f"{info}/RECORD", "\n".join([*record, f"{info}/RECORD,,", ""]))
