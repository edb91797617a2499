"""Prints the changelog's section of the version that a tag names: `python -m tests.packaging.release v1.2.3`.

The release workflow runs it before anything is built, with the standard library only.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


class NotReleasable(Exception):
    """Why a tag cannot be released."""


def notes(tag: str, version: str, changelog: str) -> str:
    """The text of the section `## VERSION`, or `## VERSION (DATE)`. Raises NotReleasable."""
    if tag != f"v{version}":
        raise NotReleasable(f"the tag is {tag}, but pyproject.toml says {version}")
    sections = re.split(r"^## (?=\S)", changelog, flags=re.MULTILINE)[1:]
    for section in sections:
        title, _, text = section.partition("\n")
        if title.split()[0] == version:
            if not text.strip():
                raise NotReleasable(f"CHANGELOG.md says nothing in its section {version}")
            return text.strip() + "\n"
    raise NotReleasable(f"CHANGELOG.md has no section {version}")


def main() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    try:
        sys.stdout.write(notes(sys.argv[1], version, (ROOT / "CHANGELOG.md").read_text()))
    except NotReleasable as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
