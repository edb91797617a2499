"""Small files are put together, and files without columns get them, whenever a run is killed; nothing is lost or doubled."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

import pytest

from kshim_pipeline.cli import main
from kshim_pipeline.errors import EXIT_OK, PipelineError
from kshim_pipeline.folder import LocalFolder
from kshim_pipeline.land import compaction
from kshim_pipeline.land.batches import NOTHING, Batches, Landed, LandedFile, Replaced, batch_of
from kshim_pipeline.land.compaction import KEPT_MS, LARGE, MOST_RECORDS, is_stale, to_rewrite
from kshim_pipeline.options import source_options
from kshim_pipeline.records import DECODER
from kshim_pipeline.report.made_of import made_of
from kshim_pipeline.report.published import Publications
from tests.pipeline.landing_world import DAY, Kill, Killed, Run, World, records_in

OFFSETS = "__consumer_offsets"
NOW_MS = 1_795_000_000_000


@pytest.fixture
def world() -> World:
    return World(OFFSETS, "orders")


@pytest.fixture
def lake(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Landed in four batches; four files of a day become one."""
    monkeypatch.setattr(compaction, "TOGETHER", 4)
    lake = tmp_path / "lake"
    for _ in range(4):
        for topic in world.topics.values():
            topic.append(5)
        Run(world, lake).land()
    return lake


def landed_in(path: Path) -> Landed:
    return Batches(LocalFolder(path)).landed()


def files_there(path: Path) -> set[str]:
    return {file.relative_to(path).as_posix() for file in path.rglob("*.parquet")}


def test_files_of_a_day_become_one_and_the_old_ones_stay_for_a_day(world: World, lake: Path) -> None:
    before = landed_in(lake)
    assert len(before.files) == 8
    after = Run(world, lake).land(compacting_at_ms=NOW_MS)
    assert sorted((file.topic, file.records) for file in after.files.values()) == [(OFFSETS, 40), ("orders", 40)]
    assert {each.path for each in after.replaced} == before.files.keys()
    assert records_in(lake) == world.places()
    assert files_there(lake) == {*before.files, *after.files}
    Run(world, lake).land(compacting_at_ms=NOW_MS + KEPT_MS - 1)
    assert files_there(lake) == {*before.files, *after.files}, "a report may still read them"
    Run(world, lake).land(compacting_at_ms=NOW_MS + KEPT_MS)
    assert files_there(lake) == after.files.keys()
    assert records_in(lake) == world.places()


def test_landing_goes_on_after_it(world: World, lake: Path) -> None:
    Run(world, lake).land(compacting_at_ms=NOW_MS)
    for topic in world.topics.values():
        topic.append(3)
    assert len(Run(world, lake).land().files) == 4
    assert records_in(lake) == world.places()


@pytest.mark.parametrize("later_ms", [0, KEPT_MS], ids=["at once", "a day later"])
def test_it_may_be_killed_at_any_moment(world: World, lake: Path, tmp_path: Path, later_ms: int) -> None:
    if later_ms:
        Run(world, lake).land(compacting_at_ms=NOW_MS)
        for _ in range(4):
            for topic in world.topics.values():
                topic.append(2)
            Run(world, lake).land()
    for number in range(1, 100):
        path = tmp_path / f"killed-{number}"
        shutil.copytree(lake, path)
        try:
            Run(world, path, kill=Kill(number)).land(compacting_at_ms=NOW_MS + later_ms)
        except Killed:
            assert records_in(path) == world.places(), path.name
            again = Run(world, path)
            assert len(again.land(compacting_at_ms=NOW_MS + later_ms).files) in (2, 4)
            assert again.said == [], "nothing was landed"
            assert records_in(path) == world.places(), path.name
            Run(world, path).land(compacting_at_ms=NOW_MS + later_ms + KEPT_MS)
            assert files_there(path) == landed_in(path).files.keys(), "and nothing is left of it"
        else:
            break
    assert number > 12


def test_what_a_compaction_wrote_is_found_again_without_the_names(world: World, lake: Path) -> None:
    Run(world, lake).land(compacting_at_ms=NOW_MS)
    before = landed_in(lake)
    shutil.rmtree(lake / "batches")
    assert Run(world, lake).land() == before
    assert records_in(lake) == world.places()


def test_a_compaction_that_lacks_records_replaces_nothing(world: World, lake: Path) -> None:
    class Losing(Run):
        def rewrite(self, attempt: str, files: tuple[LandedFile, ...]) -> None:
            super().rewrite(attempt, files[1:])

    with pytest.raises(PipelineError, match="has 30 records of 40: nothing was replaced"):
        Losing(world, lake).land(compacting_at_ms=NOW_MS)
    assert len(landed_in(lake).files) == 8


def test_a_run_beside_it_lands_and_the_compaction_gives_way(world: World, lake: Path) -> None:
    class Beside(Run):
        def rewrite(self, attempt: str, files: tuple[LandedFile, ...]) -> None:
            super().rewrite(attempt, files)
            for topic in world.topics.values():
                topic.append(1)
            Run(world, lake).land()

    with pytest.raises(PipelineError, match=r"Another run landed batch 4 .* Nothing is lost"):
        Beside(world, lake).land(compacting_at_ms=NOW_MS)
    assert records_in(lake) == world.places()
    without_names = lake.with_name("without names")
    shutil.copytree(lake, without_names)
    shutil.rmtree(without_names / "batches")
    Run(world, without_names).land()
    assert records_in(without_names) == world.places(), "the one that landed something counts"
    Run(world, lake).land(compacting_at_ms=NOW_MS)
    assert records_in(lake) == world.places()
    Run(world, lake).land(compacting_at_ms=NOW_MS + KEPT_MS)
    assert files_there(lake) == landed_in(lake).files.keys()
    assert len(list(lake.glob("records/*/_compaction.json"))) == 2, "nothing is left of the one that came too late"


def landed(*files: LandedFile) -> Landed:
    return NOTHING._replace(files={file.path: file for file in files})


def a_file(number: int, records: int, *, topic: str = OFFSETS, day: str = DAY, decoder: int = DECODER) -> LandedFile:
    return LandedFile(f"records/batch={number}-a/topic={topic}/day={day}/part-0.parquet", topic, day, records, decoder)


def test_only_files_of_a_topic_a_day_and_about_a_size_are_put_together() -> None:
    tens = [a_file(at, 10) for at in range(15)]
    others = [a_file(20, 10, day="2026-11-24"), a_file(21, 10, topic="orders"), a_file(22, 400), a_file(23, LARGE)]
    assert to_rewrite(landed(*tens, *others)) == ()
    assert len(to_rewrite(landed(*tens, *others, a_file(15, 12)))) == 16
    assert to_rewrite(landed(*(a_file(at, LARGE) for at in range(40)))) == ()


def test_a_record_is_written_again_a_few_times_however_many_batches_a_day_has() -> None:
    """A batch a minute, of a hundred records each."""
    files: dict[str, LandedFile] = {}
    written = 0
    for minute in range(1_440):
        new = a_file(minute, 100)
        files[new.path] = new
        while old := to_rewrite(landed(*files.values())):
            records = sum(file.records for file in old)
            written += records
            for file in old:
                del files[file.path]
            made = a_file(10_000 + written, records)
            files[made.path] = made
    assert sum(file.records for file in files.values()) == 144_000
    assert len(files) < 40
    assert written < 3 * 144_000


def test_files_of_an_older_decoder_are_written_again_a_day_at_a_time() -> None:
    old = [a_file(1, MOST_RECORDS - 9, decoder=0), a_file(2, 9, decoder=DECODER - 1), a_file(3, 5, decoder=0)]
    other = a_file(4, 7, day="2026-11-24", decoder=0)
    new = a_file(5, 100)
    of_events = a_file(6, 100, topic="__kshim_events", decoder=0)
    assert to_rewrite(landed(new, of_events, *old, other)) == (old[0], old[1])
    assert to_rewrite(landed(new, of_events, other)) == (other,)
    assert to_rewrite(landed(new, of_events)) == ()
    assert not is_stale(of_events)


def test_what_results_are_made_of_changes_with_what_is_landed_and_not_with_where_it_lies(
    world: World, lake: Path
) -> None:
    parser = argparse.ArgumentParser()
    source_options(parser)
    of_lake, with_log = ([f"--landed={lake}"], [f"--landed={lake}", "--broker-log=server.log"])

    def made(arguments: list[str] = of_lake) -> str | None:
        return made_of(parser.parse_args(arguments), lambda address: LocalFolder(Path(address)))

    first = made()
    assert first is not None
    assert made(with_log) is None
    Run(world, lake).land(compacting_at_ms=NOW_MS)
    assert made() == first, "nothing was landed"
    world.topics["orders"].append(1)
    Run(world, lake).land()
    second = made()
    (lake / "log_ends").mkdir()
    (lake / "log_ends/part-0.parquet").touch()
    assert len({first, second, made()}) == 3


def test_results_are_not_computed_again_and_spark_does_not_start_where_nothing_was_landed(
    world: World, lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "results"
    parser = argparse.ArgumentParser()
    source_options(parser)
    made = made_of(parser.parse_args([f"--landed={lake}"]), lambda address: LocalFolder(Path(address)))
    publications = Publications(LocalFolder(out))
    publications.publish(publications.start()._replace(left_out=("Left out: 3 records.",), made_of=made))
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    assert main(["analyse", f"--landed={lake}", f"--out={out}"]) == EXIT_OK
    said = capsys.readouterr()
    assert said.out.startswith(f"Nothing was landed since these results were computed; tables in {out}/runs/1-")
    assert said.err == "Left out: 3 records.\n"


def test_a_batch_says_what_it_replaced_and_one_of_the_first_version_is_read(world: World, lake: Path) -> None:
    Run(world, lake).land(compacting_at_ms=NOW_MS)
    newest = max((lake / "batches").iterdir())
    batch = batch_of(newest.read_text())
    assert batch_of(batch.text()) == batch
    assert batch.replaced[0] == Replaced(batch.replaced[0].path, NOW_MS)
    first = batch.text().replace('"v": 2', '"v": 1').replace(f',\n   "decoder": {DECODER}', "")
    first = first[: first.index(',\n "decoder"')] + "\n}"
    found = batch_of(first)
    assert {file.decoder for file in found.files} == {0}
    assert (found.decoder, found.replaced) == (0, ())
