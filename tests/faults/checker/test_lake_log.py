"""The checker reads a Delta table as other readers do, and reports a log that breaks its laws."""

from dataclasses import replace
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from faults.checker.facts import Commit, Found, Stream
from faults.checker.lake_log import LakeLog
from identities import batch
from loads import lake_tables
from loads.lake_tables import TOPIC_ID, Table, own
from tideline.sinks.delta import delta_log

STREAM = Stream(1, "cluster", "ads", UUID(TOPIC_ID), 0, 0, 0)
NOTHING = Found(
    streams=[STREAM], batches=[], ranges=[], coverage=[], attempts=[], events=[], outbox=[],
    rows=lambda _: iter(()), rejects=lambda _: iter(()),
)  # fmt: skip


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return lake_tables.in_folder(tmp_path).created()


@pytest.fixture
def log(table: Table, tmp_path: Path) -> LakeLog:
    return LakeLog(tmp_path / "events", "events", ["value"])


def rows(log: LakeLog, found: Found = NOTHING) -> list[tuple[int, int, str]]:
    log.read()
    return [(row.batch_id, row.offset, *row.values) for row in log.shown_in(found).rows(STREAM)]


def test_a_table_that_does_not_exist_has_no_rows(tmp_path: Path):
    assert rows(LakeLog(tmp_path / "nowhere", "events", ["value"])) == []


def test_it_has_the_rows_that_the_library_reads_after_each_commit(table: Table, log: LakeLog):
    first, second = own(2), own(1)
    for batch_id, attempt, offsets in ((7, first, [1, 2]), (8, second, [3])):
        table.output.fence(batch(batch_id), attempt.fence)
        table.commit(batch_id, attempt, offsets)
        assert rows(log) == table.rows()
    assert log.commits == [Commit(7, first.attempt, 2), Commit(8, second.attempt, 1)]
    assert log.broken == []


def test_rows_of_a_topic_that_nobody_follows_are_strangers(table: Table, log: LakeLog):
    table.commit(7, own(1), [1])
    log.read()
    elsewhere = replace(NOTHING, streams=[replace(STREAM, topic_id=uuid4())])
    assert log.shown_in(elsewhere).strangers == [(UUID(TOPIC_ID), 0)]


def test_a_file_that_is_gone_is_reported(table: Table, log: LakeLog, tmp_path: Path):
    table.commit(7, own(1), [1])
    for file in tmp_path.glob("events/tideline/*/1-*/*.parquet"):
        file.unlink()
    log.read()
    assert [violation.law for violation in log.broken] == ["lost"]


def test_a_batch_whose_version_does_not_rise_is_reported(table: Table, log: LakeLog):
    name = f"tideline/events/{batch(7).identity}"
    for fence, version in ((2, 5), (1, 3)):
        added = table.staged(7, fence, [1])
        metadata = {"tideline_attempt": str(uuid4()), "tideline_batch": "7"}
        delta_log.commit(table.reopened(), [added], transaction=(name, version), metadata=metadata)
    log.read()
    assert [(violation.law, violation.text) for violation in log.broken] == [
        ("committed", "batch 7 goes from version 5 to 3")
    ]
    assert [commit.batch_id for commit in log.commits] == [7, 7]
