"""The table of APIs is the registry's, beside Kafka's versions."""

from __future__ import annotations

from pathlib import Path

import pytest

from kshim.tools.api_table import BEGIN, END, api_table, main, with_table
from kshim_protocol.apis import API_TABLE, Api, api_named


def test_the_table_has_one_row_for_every_api_by_key() -> None:
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in api_table().splitlines()[2:]]
    assert [int(row[1]) for row in rows] == sorted(API_TABLE)
    assert [row[0] for row in rows] == [API_TABLE[key].name for key in sorted(API_TABLE)]


def test_a_row_names_versions_and_the_first_flexible_one() -> None:
    api = api_named("JoinGroup")
    cells = next(line for line in api_table().splitlines() if "| JoinGroup " in line).replace(" ", "").split("|")
    versions = f"{api.min_version}-{api.max_version}"
    assert cells[1:6] == ["JoinGroup", "11", versions, versions, str(api.flexible_from)]


def test_a_row_shows_where_kafka_serves_more_versions() -> None:
    older = Api(28, "TxnOffsetCommit", "txn_offset_commit", (0, 5), 3)
    cells = api_table({28: older}).splitlines()[2].replace(" ", "").split("|")
    assert cells[3:5] == ["0-5", "0-6"]


def test_every_line_of_the_table_has_the_same_width() -> None:
    assert len({len(line) for line in api_table().splitlines()}) == 1


def test_writing_replaces_only_what_stands_between_the_markers(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    assert main(["--write", str(page)]) == 0
    assert page.read_text() == f"before\n{BEGIN}\n{api_table()}{END}\nafter\n"


def test_checking_finds_a_row_that_was_changed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.md"
    page.write_text(with_table(f"{BEGIN}\n{END}\n"))
    assert main(["--check", str(page)]) == 0
    page.write_text(page.read_text().replace("JoinGroup", "JoinGroups"))
    assert main(["--check", str(page)]) == 1
    assert "--write" in capsys.readouterr().out


@pytest.mark.parametrize("text", ["", BEGIN, f"{END}\n{BEGIN}", f"{BEGIN}{END}{BEGIN}{END}"])
def test_a_page_without_one_pair_of_markers_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="needs one line"):
        with_table(text)


def test_without_options_the_table_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    assert capsys.readouterr().out == api_table()
