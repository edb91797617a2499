"""What analyses measured does not contradict what the diagnosis says of the same time and member."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kshim_pipeline.diagnosis.settled import settled
from kshim_pipeline.schemas import FINDINGS, INCIDENTS
from tests.pipeline.model_rows import rows_of, table
from tests.pipeline.report_pages import a_row

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def measured(analysis: str, group_id: str | None, **fields: Any) -> dict[str, Any]:
    """A row of FINDINGS about client app on host h, from 1 s to 9 s."""
    member = {"client_id": "app", "client_host": "h"}
    row = {"analysis": analysis, "group_id": group_id, "member": member, "from_ts_ms": 1_000, "to_ts_ms": 9_000}
    return row | {"severity": "warning", "sentence": "s", "advice": "a", "value": 3.0, "basis": "observed", "evidence": []} | fields  # fmt: skip


def an_incident(cause: str, group_id: str, from_ms: int = 2_000, clients: str = "app@h") -> dict[str, Any]:
    return a_row(
        cause,
        group_id,
        clients=[clients],
        host="h" if clients == "app@h" else "x",
        from_ms=from_ms,
        to_ms=from_ms + 3_000,
    )


def test_one_definition_decides_what_happened_to_a_member(spark: SparkSession) -> None:
    incidents = [
        an_incident("paused", "paused"),
        an_incident("paused", "later", from_ms=20_000),
        an_incident("paused", "another", clients="other@x"),
        an_incident("killed", "killed"),
        an_incident("slow_poll", "slow"),
    ]
    rows = [
        measured("crash_loops", "paused"),  # it was paused, three times
        measured("crash_loops", "later"),
        measured("crash_loops", "another"),
        measured("timeouts", "paused", from_ts_ms=None, to_ts_ms=None),  # a longer session helps
        measured("timeouts", "killed", from_ts_ms=None, to_ts_ms=None),  # and here it does not
        measured("timeouts", "slow", value=0.0),  # shorten max.poll.interval.ms, which is too short
        measured("timeouts", "slow", value=1.0),
        measured("timeouts", "quiet", value=0.0),
        measured("storms", "paused"),
        measured("storms", "quiet"),
        measured("correlation", None),
    ]
    found = settled(table(spark, FINDINGS, rows), table(spark, INCIDENTS, incidents))
    assert found.schema.names == FINDINGS.names
    assert rows_of(found, "analysis", "group_id", "value", "advice") == [
        ("correlation", None, 3.0, "a"),
        ("crash_loops", "another", 3.0, "a"),
        ("crash_loops", "later", 3.0, "a"),
        ("storms", "paused", 3.0, None),
        ("storms", "quiet", 3.0, "a"),
        ("timeouts", "paused", 3.0, "a"),
        ("timeouts", "quiet", 0.0, "a"),
        ("timeouts", "slow", 1.0, "a"),
    ]
