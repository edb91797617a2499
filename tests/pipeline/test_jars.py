"""Jars are taken only when they are the files that were pinned, and fetched only by `setup`."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from kshim_pipeline.errors import EXIT_UNAVAILABLE, PipelineError
from kshim_pipeline.setup import jars
from kshim_pipeline.setup.jars import fetch, jars_dir, kafka_jars, take_from

NAMES = ("a-1.jar", "b-2.jar")


@pytest.fixture(autouse=True)
def _small_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Two little files stand for the four jars."""
    pinned = {name: hashlib.sha256(name.encode()).hexdigest() for name in NAMES}
    monkeypatch.setattr(jars, "JARS", pinned)
    monkeypatch.setenv("KSHIM_CACHE", str(tmp_path / "cache"))


def a_folder(home: Path, *, broken: str | None = None, without: str | None = None) -> Path:
    home.mkdir(parents=True, exist_ok=True)
    for name in NAMES:
        if name != without:
            (home / name).write_text("cut off" if name == broken else name)
    return home


def test_jars_in_the_cache_are_used_without_a_network() -> None:
    home = a_folder(jars_dir())
    assert kafka_jars() == tuple(home / name for name in NAMES)


def test_a_missing_jar_is_named_with_the_command_that_fetches_it() -> None:
    a_folder(jars_dir(), without="b-2.jar")
    with pytest.raises(PipelineError, match=r"1 of 2 jars .*b-2\.jar.*kshim pipeline setup") as seen:
        kafka_jars()
    assert seen.value.exit_code == EXIT_UNAVAILABLE


def test_a_jar_with_another_checksum_is_refused() -> None:
    a_folder(jars_dir(), broken="b-2.jar")
    with pytest.raises(PipelineError, match=r"b-2\.jar has a checksum mismatch: its sha256 is \w{64}, not \w{64}"):
        kafka_jars()


def test_jars_may_come_from_a_folder(tmp_path: Path) -> None:
    take_from(a_folder(tmp_path / "brought"))
    assert sorted(os.listdir(jars_dir())) == list(NAMES)


@pytest.mark.parametrize("broken", [{"broken": "a-1.jar"}, {"without": "b-2.jar"}], ids=["broken", "missing"])
def test_nothing_is_taken_from_a_folder_with_a_wrong_jar(tmp_path: Path, broken: dict[str, str]) -> None:
    with pytest.raises(PipelineError, match=r"does not contain b-2\.jar|a-1\.jar has a checksum mismatch"):
        take_from(a_folder(tmp_path / "brought", **broken))
    assert not jars_dir().exists()


def stand_in_for_spark_submit(home: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """A pyspark whose spark-submit is a script: it finds `spark.jars.ivy=DIR` as $ivy."""
    submit = home / "pyspark" / "bin" / "spark-submit"
    submit.parent.mkdir(parents=True)
    find_ivy = (
        'for argument do case $argument in spark.jars.ivy=*) ivy=${argument#*=} ;; esac; done; mkdir "$ivy/jars"\n'
    )
    submit.write_text(f"#!/bin/sh\n{find_ivy}{script}\n")
    submit.chmod(0o755)
    monkeypatch.setattr("pyspark.__file__", str(home / "pyspark" / "__init__.py"))
    monkeypatch.setattr(jars, "find_java", lambda: None)
    monkeypatch.setattr(jars, "java_home_for_spark", lambda java: home)


def test_what_ivy_fetched_is_checked_and_kept_under_its_own_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put = "; ".join(f'printf {name} > "$ivy/jars/org.example_{name}"' for name in NAMES)
    stand_in_for_spark_submit(tmp_path, monkeypatch, put)
    assert [path.name for path in fetch()] == list(NAMES)
    assert os.listdir(jars_dir().parent) == [jars_dir().name], "nothing is left beside it"


def test_a_fetched_jar_with_another_checksum_never_enters_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put = "; ".join(f'printf tampered > "$ivy/jars/org.example_{name}"' for name in NAMES)
    stand_in_for_spark_submit(tmp_path, monkeypatch, put)
    with pytest.raises(PipelineError, match=r"org\.example_a-1\.jar has a checksum mismatch"):
        fetch()
    assert not jars_dir().exists()


def test_without_a_network_the_output_of_ivy_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in_for_spark_submit(tmp_path, monkeypatch, 'echo ":: UNRESOLVED DEPENDENCIES ::" >&2; exit 1')
    with pytest.raises(PipelineError, match=r"could not fetch a-1\.jar, b-2\.jar.*\n:: UNRESOLVED DEPENDENCIES ::\n.*"):
        fetch()
