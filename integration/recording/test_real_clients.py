"""What real clients did is recorded and replayed without a difference, and much faster than it took."""

from __future__ import annotations

from pathlib import Path

import pytest

from integration.recording.sessions import record_a_session
from kshim.replay.replay import replay
from kshim.replay.summary import Summary


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("recording") / "session.rec"
    record_a_session(path)
    return path


def test_a_session_of_real_clients_replays_without_a_difference(recording: Path) -> None:
    summary = Summary()
    with recording.open("rb") as file:
        result = replay(file, on_event=summary.observe)
    assert (result.differences, result.notes, result.defects, result.damage) == ([], [], [], None)
    assert result.is_ended
    assert result.connection_count > 5
    causes = [rebalance.cause for rebalance in summary.groups["g"].rebalances]
    causes = [cause for cause in causes if cause != "leader-rejoined"]  # when its metadata came after it had joined
    assert causes == ["member-joined", "member-joined", "session-expired", "member-left"]
    assert summary.groups["other"].state == "Empty"


def test_another_setting_shows_what_would_have_been(recording: Path) -> None:
    with recording.open("rb") as file:
        result = replay(file, {"group.max.size": "1"})
    first = result.differences[0]
    assert (first.api, first.group_id) == ("JoinGroup", "g")
    assert [(field.path, field.recorded, field.replayed) for field in first.fields][:1] == [
        ("error_code", "MEMBER_ID_REQUIRED", "GROUP_MAX_SIZE_REACHED")
    ]
    assert not any(found.group_id == "other" for found in result.differences)
