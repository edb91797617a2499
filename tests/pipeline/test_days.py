"""Days that are landed whole, when the results of one have to be computed again, and who reads the results of several."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kshim_pipeline.errors import PipelineError
from kshim_pipeline.folder import LocalFolder
from kshim_pipeline.inputs.window import Window
from kshim_pipeline.land.batches import NOTHING, Landed, LandedFile
from kshim_pipeline.report.gather import check
from kshim_pipeline.report.made_of import made_of_day, whole_days, window_of
from kshim_pipeline.report.published import Publications, published_in, require_all_or_days
from kshim_pipeline.report.stored import require_all, rows
from kshim_pipeline.topics import OFFSETS_TOPIC

FIRST, SECOND, THIRD = "2026-11-22", "2026-11-23", "2026-11-24"
HOUR_MS: Final = 3_600_000


def landed(**records: int) -> Landed:
    """A file for each day, d22=7 having seven records."""
    files = [
        LandedFile(
            f"records/batch={number}-a/topic={OFFSETS_TOPIC}/day=2026-11-{day[1:]}/{day}.parquet",
            OFFSETS_TOPIC,
            f"2026-11-{day[1:]}",
            count,
        )
        for number, (day, count) in enumerate(records.items())
    ]
    return NOTHING._replace(files={file.path: file for file in files}, cluster_id="east")


def starts_ms(day: str) -> int:
    found = window_of(day).since_ms
    assert found is not None
    return found


def options(**given: Any) -> argparse.Namespace:
    names = ("results", "landed", "bootstrap_server", "data_dir", "broker_log", "since", "until")
    return argparse.Namespace(**{**dict.fromkeys(names), **given})


def test_a_day_is_whole_when_an_hour_more_is_landed() -> None:
    found = landed(d22=7, d23=7, d24=1)
    assert window_of(SECOND).until_ms == starts_ms(THIRD)
    assert list(whole_days(found, starts_ms(THIRD) + HOUR_MS, Window())) == [FIRST, SECOND]
    assert list(whole_days(found, starts_ms(THIRD) + HOUR_MS - 1, Window())) == [FIRST]
    assert list(whole_days(found, starts_ms(THIRD) + 30 * HOUR_MS, Window(starts_ms(SECOND)))) == [SECOND, THIRD]
    assert list(whole_days(found, starts_ms(THIRD) + 30 * HOUR_MS, Window(None, starts_ms(THIRD)))) == [FIRST, SECOND]


def test_the_results_of_a_day_hold_until_records_of_that_time_or_before_are_landed_late(tmp_path: Path) -> None:
    place = LocalFolder(tmp_path)
    made = made_of_day(place, landed(d22=7, d23=7, d24=1), SECOND)
    assert made is not None
    assert made == made_of_day(place, landed(d22=7, d23=7, d24=900), SECOND)
    assert made == made_of_day(place, landed(d24=1, d23=7, d22=7), SECOND), "compaction puts files together"
    others = [
        landed(d22=7, d23=8, d24=1),
        landed(d22=8, d23=7, d24=1),
        landed(d22=7, d23=7)._replace(cluster_id="west"),
    ]
    assert len({made, *(made_of_day(place, other, SECOND) for other in others)}) == 4
    assert made != made_of_day(place, landed(d22=7, d23=7, d24=1), FIRST)


def test_the_results_of_several_days_are_read_together(tmp_path: Path) -> None:
    for day in (SECOND, FIRST):
        for run in ("old", "new"):
            publications = Publications(LocalFolder(tmp_path / day))
            started = publications.start()
            folder = tmp_path / day / started.run / "incidents"
            folder.mkdir(parents=True)
            pq.write_table(pa.table({"cause": [f"{run} of {day}"]}), folder / "part-0.parquet")
            publications.publish(started._replace(tables=("incidents",)))
    found = published_in(LocalFolder(tmp_path))
    assert [each.day for each in found] == [FIRST, SECOND]
    assert [row["cause"] for row in rows(str(tmp_path), found, "incidents")] == [f"new of {FIRST}", f"new of {SECOND}"]
    require_all_or_days(LocalFolder(tmp_path), is_of_days=True)
    with pytest.raises(PipelineError, match="has results of days"):
        require_all_or_days(LocalFolder(tmp_path), is_of_days=False)
    with pytest.raises(PipelineError, match="has results of all that was read"):
        require_all_or_days(LocalFolder(tmp_path / FIRST), is_of_days=True)
    (alone,) = published_in(LocalFolder(tmp_path / FIRST))
    assert alone.day == ""
    with pytest.raises(PipelineError, match="contains no results"):
        published_in(LocalFolder(tmp_path / THIRD))


def test_a_part_of_stored_results_is_refused_and_so_are_days_of_what_is_not_landed(tmp_path: Path) -> None:
    require_all(options(results="r"))
    require_all(options(landed="l", since=1))
    with pytest.raises(PipelineError, match="give them to `kshim pipeline analyse`"):
        require_all(options(results="r", until=1))
    with pytest.raises(PipelineError, match="--each-day needs --landed, and no other source"):
        check(options(landed=str(tmp_path), data_dir=str(tmp_path), each_day=True))
    with pytest.raises(PipelineError, match="--each-day needs --landed, and no other source"):
        check(options(bootstrap_server="127.0.0.1:9", each_day=True))
