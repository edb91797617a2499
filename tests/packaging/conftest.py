"""The project's wheel and sdist, and its image as far as that can be made without an engine; each made once."""

from __future__ import annotations

import fcntl
import sys
import tarfile
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import NamedTuple

import pytest

from tests.packaging import dockerfile
from tests.packaging.environments import BUILD_TOOLS, PACKAGES, UV, Environment, pack_wheels, run
from tests.repository.checkout import ROOT


class Built(NamedTuple):
    """What a release uploads."""

    wheel: Path
    sdist: Path


class Image(NamedTuple):
    """An environment that holds what the image's does, and the folder that stands for /src."""

    environment: Environment
    source: Path


Once = Callable[[str, Callable[[Path], object]], Path]


@pytest.fixture(scope="session")
def once(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Once:
    """Makes a folder by name once for all workers of this run."""
    base = tmp_path_factory.getbasetemp()
    home = base.parent if hasattr(request.config, "workerinput") else base

    def make(name: str, fill: Callable[[Path], object]) -> Path:
        folder, done = home / f"packaging-{name}", home / f"packaging-{name}.done"
        with (home / f"packaging-{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not done.exists():
                fill(folder)
                done.touch()
        return folder

    return make


def build(source: Path, to: Path, *targets: str) -> None:
    """Build what is below `source` with hatchling, as a frontend does, without the network."""
    options = [word for target in targets for word in ("--target", target)]
    command = ["sh", "-c", 'cd "$0" && exec "$@"', str(source), sys.executable, "-m", "hatchling", "build"]
    run([*command, *options, "--directory", str(to)])


@pytest.fixture(scope="session")
def built(once: Once) -> Built:
    """Wheel and sdist of this checkout."""
    folder = once("built", lambda folder: build(ROOT, folder, "wheel", "sdist"))
    return Built(wheel=next(folder.glob("*.whl")), sdist=next(folder.glob("*.tar.gz")))


@pytest.fixture(scope="session")
def wheel_of_sdist(once: Once, built: Built) -> Path:
    """The wheel that the sdist makes."""

    def fill(folder: Path) -> None:
        folder.mkdir()
        with tarfile.open(built.sdist) as archive:
            archive.extractall(folder, filter="data")
        (source,) = folder.iterdir()
        build(source, folder, "wheel")

    return next(once("wheel-of-sdist", fill).glob("*.whl"))


@pytest.fixture(scope="session")
def wheels(once: Once) -> Path:
    """What kshim needs to be built and to run, as wheels."""
    return once("wheels", lambda folder: pack_wheels([*PACKAGES, *BUILD_TOOLS], folder))


@pytest.fixture(scope="session")
def installed(once: Once, built: Built, wheels: Path) -> Environment:
    """An environment with nothing but the wheel and what it requires."""
    return Environment(once("installed", lambda folder: Environment.make(folder, [str(built.wheel)], wheels)))


@pytest.fixture(scope="session")
def image(once: Once, wheels: Path) -> Image:
    """What the Dockerfile's instructions make of this checkout."""

    def fill(folder: Path) -> None:
        source = folder / "src"
        dockerfile.copy_sources(source)
        environment = Environment.make(folder / "environment", [], wheels)
        variables = environment.variables(UV_OFFLINE="1", UV_NO_INDEX="1", UV_FIND_LINKS=str(wheels))
        for words in dockerfile.install_commands(source):
            run([UV, "pip", *words], variables)  # the same as pip, in a tenth of the time

    folder = once("image", fill)
    return Image(Environment(folder / "environment"), folder / "src")


@pytest.fixture(scope="session")
def index(once: Once, built: Built, wheels: Path) -> Iterator[str]:
    """The address of a package index on loopback with kshim and what it needs: a folder a project, as PEP 503 has it."""

    def fill(folder: Path) -> None:
        for wheel in (built.wheel, *wheels.glob("*.whl")):
            project = folder / wheel.name.partition("-")[0].replace("_", "-").lower()
            project.mkdir(parents=True, exist_ok=True)
            (project / wheel.name).symlink_to(wheel)

    handler = partial(_QuietHandler, directory=str(once("index", fill)))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


class _QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Leave the terminal to pytest."""
