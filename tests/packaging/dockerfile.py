"""What the Dockerfile says, and the folder that its build sees."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path, PurePosixPath

from tests.repository.checkout import ROOT


def instructions() -> list[tuple[str, str]]:
    """Each instruction with the rest of its line, continuation lines joined."""
    text = re.sub(r"\\\n\s*", " ", (ROOT / "Dockerfile").read_text())
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [(name, rest.strip()) for name, _, rest in (line.partition(" ") for line in lines)]


def only(name: str) -> str:
    """The rest of the one instruction of that name."""
    (rest,) = [rest for instruction, rest in instructions() if instruction == name]
    return rest


def environment() -> dict[str, str]:
    """The variables that ENV sets."""
    pairs = [pair for name, rest in instructions() if name == "ENV" for pair in rest.split()]
    return dict(pair.split("=", 1) for pair in pairs)


def command() -> list[str]:
    """What a container runs: ENTRYPOINT and CMD."""
    return [*json.loads(only("ENTRYPOINT")), *json.loads(only("CMD"))]


def health_command() -> list[str]:
    """What HEALTHCHECK runs."""
    words: list[str] = json.loads(only("HEALTHCHECK").partition("CMD ")[2])
    return words


def install_commands(source: Path) -> list[list[str]]:
    """What follows `pip` in the commands of RUN, with `source` instead of the folder that COPY fills."""
    steps = [shlex.split(step) for name, rest in instructions() if name == "RUN" for step in rest.split("&&")]
    return [[word.replace("/src", str(source)) for word in words[1:]] for words in steps if words[0] == "pip"]


def copy_sources(to: Path) -> None:
    """Do what the COPY instructions do with this checkout as the context, leaving out what .dockerignore names.

    `to` stands for /src.
    """
    ignored = _Ignored((ROOT / ".dockerignore").read_text().splitlines())
    for name, rest in instructions():
        if name != "COPY":
            continue
        *sources, destination = rest.split()
        target = to / PurePosixPath(destination).relative_to("/src")
        for source in sources:
            if (ROOT / source).is_dir():
                _copy_folder(ROOT / source, target, ignored)
            else:
                assert not ignored.holds(source), f"{source} is copied but ignored"
                target.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / source, target / source)


def _copy_folder(folder: Path, target: Path, ignored: _Ignored) -> None:
    for path in folder.rglob("*"):
        if path.is_file() and not ignored.holds(path.relative_to(ROOT).as_posix()):
            copy = target / path.relative_to(folder)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, copy)


class _Ignored:
    """The rules of a .dockerignore: the last pattern that matches a path, or a folder above it, decides."""

    def __init__(self, lines: list[str]) -> None:
        rules = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
        self._rules = [(not rule.startswith("!"), _expression(rule.removeprefix("!"))) for rule in rules]

    def holds(self, path: str) -> bool:
        """Whether the path, from the context with slashes, is left out."""
        names = [path, *(str(parent) for parent in PurePosixPath(path).parents)]
        verdicts = [verdict for verdict, pattern in self._rules if any(map(pattern.fullmatch, names))]
        return bool(verdicts) and verdicts[-1]


def _expression(pattern: str) -> re.Pattern[str]:
    escaped = re.escape(pattern.strip("/"))
    return re.compile(escaped.replace(r"\*\*/", "(?:.*/)?").replace(r"\*\*", ".*").replace(r"\*", "[^/]*"))
