"""Results are published at once: whoever reads beside a run, and whenever that is killed, sees the old ones or the new ones."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kshim_pipeline.errors import EXIT_UNAVAILABLE, PipelineError
from kshim_pipeline.folder import LocalFolder
from kshim_pipeline.report.published import Publication, Publications, publication_of
from tests.pipeline.landing_world import Disk, Kill, Killed

TABLES = ("tables/rebalances", "analyses/why", "incidents")


def published(path: Path) -> Publication | None:
    return Publications(LocalFolder(path)).newest()


def run(path: Path, text: str, kill: Kill | None = None) -> None:
    """As `analyse`: every table has the text."""
    disk = Disk(path, kill or Kill())
    publications = Publications(disk)
    started = publications.start()
    for table in TABLES:
        disk.write_new(f"{started.run}/{table}/part-0", text)
    publications.publish(started._replace(tables=TABLES, sources=(text,)))


def texts(path: Path, publication: Publication) -> set[str]:
    """What a reader finds in the tables of a publication."""
    return {(path / publication.run / table / "part-0").read_text() for table in publication.tables}


def seen(path: Path) -> str:
    """The one text that a reader finds everywhere."""
    newest = Publications(LocalFolder(path)).required()
    (text,) = {*newest.sources, *texts(path, newest)}
    assert newest.tables == TABLES
    return text


def test_readers_see_the_newest_results(tmp_path: Path) -> None:
    assert published(tmp_path) is None
    for text in ("first", "second", "third"):
        run(tmp_path, text)
        assert seen(tmp_path) == text


def test_a_reader_that_began_before_keeps_what_it_reads(tmp_path: Path) -> None:
    run(tmp_path, "first")
    before = Publications(LocalFolder(tmp_path)).required()
    run(tmp_path, "second")
    assert texts(tmp_path, before) == {"first"}
    run(tmp_path, "third")
    assert sorted(path.name[0] for path in (tmp_path / "runs").iterdir()) == ["2", "3"], "the others are deleted"
    assert len(list((tmp_path / "published").iterdir())) == 2


@pytest.mark.parametrize("before", [("first",), ("first", "second", "third")], ids=["one before", "three before"])
def test_a_run_may_be_killed_at_any_moment(tmp_path: Path, before: tuple[str, ...]) -> None:
    results = tmp_path / "results"
    for text in before:
        run(results, text)
    found = []
    for number in range(1, 100):
        path = tmp_path / f"killed-{number}"
        shutil.copytree(results, path)
        try:
            run(path, "new", Kill(number))
        except Killed:
            found.append(seen(path))
            run(path, "newer")
            assert seen(path) == "newer"
            assert len(list((path / "runs").iterdir())) == 2, "nothing is left of what was killed"
        else:
            break
    assert found == [before[-1]] * found.index("new") + ["new"] * (len(found) - found.index("new"))
    assert found.index("new") >= 9


def test_a_reader_beside_a_run_sees_the_old_results_or_the_new_at_each_moment(tmp_path: Path) -> None:
    class Watched(Kill):
        def moment(self) -> None:
            super().moment()
            sights.append(seen(tmp_path))

    sights: list[str] = []
    run(tmp_path, "old")
    run(tmp_path, "new", Watched())
    assert sights == sorted(sights, reverse=True)
    assert set(sights) == {"old", "new"}


def test_of_two_runs_at_the_same_time_one_is_refused(tmp_path: Path) -> None:
    first, second = (Publications(LocalFolder(tmp_path)).start() for _ in range(2))
    Publications(LocalFolder(tmp_path)).publish(second)
    with pytest.raises(PipelineError, match="Another run published results"):
        Publications(LocalFolder(tmp_path)).publish(first)
    assert published(tmp_path) == second


def test_a_directory_of_a_later_run_that_is_at_work_is_left_alone(tmp_path: Path) -> None:
    publications = Publications(LocalFolder(tmp_path))
    first = publications.start()
    publications.publish(first)
    at_work = publications.start()
    publications._delete_old(first.number)
    assert (tmp_path / at_work.run).is_dir()


def test_a_run_that_was_half_deleted_is_deleted_by_the_next_one(tmp_path: Path) -> None:
    for text in ("first", "second"):
        run(tmp_path, text)
    for left in ("tables/rebalances/part-0", "incidents/part-0", ".aside"):
        path = tmp_path / "runs" / f"1-{len(left)}" / left
        path.parent.mkdir(parents=True)
        path.touch()
    (tmp_path / "runs/notes").mkdir()
    (tmp_path / "runs/notes/mine.txt").touch()
    run(tmp_path, "third")
    assert sorted(path.name[0] for path in (tmp_path / "runs").iterdir()) == ["2", "3", "n"]


def test_results_of_an_earlier_version_are_replaced(tmp_path: Path) -> None:
    (tmp_path / "tables/rebalances").mkdir(parents=True)
    for name in ("sources.txt", "left_out.txt", "notes.txt"):
        (tmp_path / name).touch()
    assert published(tmp_path) is None
    run(tmp_path, "first")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["notes.txt", "published", "runs"]


def test_nothing_published_and_what_cannot_be_read_are_said(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="contains no results; create them with") as caught:
        Publications(LocalFolder(tmp_path)).required()
    assert caught.value.exit_code == EXIT_UNAVAILABLE
    run(tmp_path, "first")
    (newest,) = (tmp_path / "published").iterdir()
    newest.write_text(newest.read_text().replace('"v": 1', '"v": 9'))
    with pytest.raises(PipelineError, match="version 9 is not known"):
        Publications(LocalFolder(tmp_path)).required()


def test_a_publication_is_read_as_it_was_written() -> None:
    publication = Publication(7, "runs/7-a", TABLES, ("history",), ("Left out: é",), "history to 5")
    assert publication_of(publication.text()) == publication
    for text in ("", "[]", '{"v": 1}', '{"v": 1, "tables": 5}'):
        with pytest.raises(ValueError, match=r"no publication|Expecting value"):
            publication_of(text)
