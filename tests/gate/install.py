"""`python -m tests.gate.install ARGUMENTS`: what `pip install ARGUMENTS` does, by uv, in a fifth of the time.

Uses the standard library only, for it runs before anything is installed. Where pip is told of an index, of folders with
wheels or of certificates, by files or by its environment, uv is told the same. Where uv cannot install, pip does.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

UV_NAMES = {
    "index-url": "UV_DEFAULT_INDEX",
    "extra-index-url": "UV_INDEX",
    "find-links": "UV_FIND_LINKS",
    "trusted-host": "UV_INSECURE_HOST",
    "cert": "SSL_CERT_FILE",
}
"""Settings of pip and the variables that uv reads the same from."""
SEPARATORS = {"UV_FIND_LINKS": ","}
"""Where uv wants no blank between the values."""


def uv_environment(pip_settings: str, environment: Mapping[str, str]) -> dict[str, str]:
    """`environment` with what uv must know, from the lines of `pip config list`. What is set for uv already stays."""
    found: dict[str, str] = {}
    for line in pip_settings.splitlines():
        key, _, value = line.partition("=")
        name = UV_NAMES.get(key.rpartition(".")[2])
        if name is not None:  # pip names what comes from its environment last, which is what holds
            found[name] = SEPARATORS.get(name, " ").join(str(ast.literal_eval(value)).split())
    return {**found, **environment}


def uv_requirement(root: Path) -> str:
    """The versions of uv that the project takes."""
    extras = tomllib.loads((root / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    return next(str(requirement) for requirement in extras["check"] if requirement.startswith("uv>="))


def uv_command() -> Path:
    """uv of this environment, installed when it is not there."""
    command = Path(sys.executable).with_name("uv")
    if not command.exists():
        _pip("install", "--quiet", uv_requirement(ROOT), check=True)
    return command


def run_uv(*arguments: str) -> int:
    """Run uv with pip's settings; the exit code."""
    settings = _pip("config", "list", check=True, capture=True).stdout
    done = subprocess.run([uv_command(), *arguments], env=uv_environment(settings, os.environ), check=False)
    return done.returncode


def _pip(*arguments: str, check: bool, capture: bool = False) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments]
    return subprocess.run(command, stdout=subprocess.PIPE if capture else None, text=True, check=check)


def main() -> int:
    """Install; the exit code is that of the installer."""
    arguments = sys.argv[1:]
    try:
        if run_uv("pip", "install", "--quiet", "--python", sys.executable, *arguments) == 0:
            return 0
    except (OSError, subprocess.CalledProcessError) as error:
        print(error, file=sys.stderr)
    if "UV_CONSTRAINT" in os.environ:
        return 1  # pip knows nothing of the lock file
    print("uv could not install this; trying pip", file=sys.stderr)
    return _pip("install", "--quiet", *arguments, check=False).returncode


if __name__ == "__main__":
    raise SystemExit(main())
