"""Upkeep of a Delta table changes no row, whatever commits beside it, and deletes nothing that an open attempt may still commit."""

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from uuid import UUID

import pytest
from deltalake import CommitProperties, DeltaTable
from pyarrow import fs

from identities import batch as known
from loads import lake_tables
from loads.lake_tables import TOPIC_ID, Table, own
from tideline.domain.offsets import OffsetRange
from tideline.domain.receipts import Receipt
from tideline.ledger.attempts import Range
from tideline.sinks.delta import delta_files, delta_log, delta_upkeep
from tideline.sinks.delta.delta_log import Change
from tideline.sinks.delta.replacing import Replacing

LONG_AGO = 1_000_000_000


@pytest.fixture
def table(lake) -> Table:
    return lake.created()


@pytest.fixture
def aged(tmp_path) -> Table:
    """Return a table in a folder, of which files can be made old."""
    return lake_tables.in_folder(tmp_path).created()


def of_range(start: int, end: int) -> Range:
    return Range(
        stream_id=1,
        cluster_id="c",
        topic="t",
        topic_id=UUID(TOPIC_ID),
        partition=0,
        offsets=OffsetRange(start, end),
        gaps_allowed=False,
    )


def replay(
    table: Table,
    batch_id: int,
    attempt: Receipt,
    *,
    start: int,
    end: int,
    before_commit: Callable[[], object] = lambda: None,
) -> None:
    """Replace the rows of a range in one commit. Calls `before_commit` when the files to remove are chosen."""
    location = table.output.location
    folder = delta_files.folder(known(batch_id).identity, attempt)
    ours = range(batch_id)
    replacing = Replacing(
        delta_files.filesystem(location), folder, [of_range(start, end)], frozenset(ours), lambda asked: frozenset()
    )
    added = table.staged(batch_id, attempt.fence, range(start, end))

    def changes(found: DeltaTable) -> list[Change]:
        made = [*replacing.changes(found), added]
        before_commit()
        return made

    table.output.commit(known(batch_id), attempt, changes, ranges="")


def names(table: Table) -> set[str]:
    return {file.path for file in delta_files.staged(table.output.location)}


def last_commit(table: Table) -> list[str]:
    found = table.reopened()
    files = delta_files.filesystem(table.output.location)
    with files.open_input_stream(f"_delta_log/{found.version():020}.json") as source:
        return source.read().decode().splitlines()


def test_small_files_are_merged_and_no_row_changes(table):
    for batch in range(5):
        table.commit(batch, own(1), [batch])
    rows = table.rows()
    assert delta_upkeep.of_table(table.output) == [f"{table.output.location.uri}: 5 small files merged into 1"]
    assert table.rows() == rows
    assert len(table.reopened().file_uris()) == 1
    assert [table.output.look(known(batch)) is not None for batch in range(5)] == [True] * 5
    assert all('dataChange":false' in line for line in last_commit(table) if "Info" not in line)
    assert delta_upkeep.of_table(table.output) == []


def test_a_replay_whose_files_are_merged_before_its_commit_replaces_them_all_the_same(table):
    for batch in range(4):
        table.commit(batch, own(1), [2 * batch, 2 * batch + 1])
    merged = []

    def merge_once():
        if not merged:
            merged.extend(delta_upkeep.of_table(table.output))

    replay(table, 9, own(1), start=1, end=4, before_commit=merge_once)
    assert merged == [f"{table.output.location.uri}: 4 small files merged into 1"]
    assert [(batch, offset) for batch, offset, _ in table.rows()] == sorted(
        [(0, 0), (9, 1), (9, 2), (9, 3), (2, 4), (2, 5), (3, 6), (3, 7)]
    )


def test_a_merge_of_files_that_are_replaced_meanwhile_is_refused(table):
    for batch in range(4):
        table.commit(batch, own(1), [batch])
    (parts,) = delta_upkeep.small_files(table.output)
    replay(table, 9, own(1), start=0, end=1)
    assert delta_upkeep.merge(table.output, parts) == 0
    assert [(batch, offset) for batch, offset, _ in table.rows()] == [(1, 1), (2, 2), (3, 3), (9, 0)]


def test_of_two_merges_of_the_same_files_one_is_refused(table):
    for batch in range(4):
        table.commit(batch, own(1), [batch])
    (parts,) = delta_upkeep.small_files(table.output)
    assert [delta_upkeep.merge(table.output, parts) for _ in range(2)] == [4, 0]
    assert len(table.rows()) == 4


def test_a_merge_that_is_overtaken_before_its_commit_happens_not_at_all(table, monkeypatch):
    for batch in range(4):
        table.commit(batch, own(1), [batch])
    (parts,) = delta_upkeep.small_files(table.output)
    real, overtaken = delta_log.commit, []

    def overtake(*given, **named):
        if not overtaken:
            overtaken.append(True)
            replay(table, 9, own(1), start=0, end=1)
        real(*given, **named)

    monkeypatch.setattr(delta_log, "commit", overtake)
    assert delta_upkeep.merge(table.output, parts) == 0
    assert [(batch, offset) for batch, offset, _ in table.rows()] == [(1, 1), (2, 2), (3, 3), (9, 0)]
    files = delta_files.filesystem(table.output.location)
    assert not files.get_file_info(fs.FileSelector(delta_files.MERGED, allow_not_found=True))


def test_the_library_s_own_compaction_would_double_the_rows(table):
    """Why upkeep merges files by itself. If this fails, delta-rs finds the conflict by now."""
    for batch in range(4):
        table.commit(batch, own(1), [batch])
    first, second = table.reopened(), table.reopened()
    first.optimize.compact()
    second.optimize.compact(commit_properties=CommitProperties(max_commit_retries=0))
    assert len(table.rows()) == 8


def test_what_an_open_attempt_may_still_commit_stays_however_old_it_is(aged):
    staged = aged.staged(7, 2, [1])
    path = Path(aged.output.location.uri, staged.path)
    os.utime(path, (LONG_AGO, LONG_AGO))
    delta_upkeep.of_table(aged.output)
    aged.output.fence(known(7), 2)  # rules out the first attempt, not this one
    delta_upkeep.of_table(aged.output)
    attempt = own(2)
    aged.output.commit(known(7), attempt, lambda _: [staged], ranges="")
    assert aged.rows() == [(7, 1, "attempt 2")]


def test_files_of_an_attempt_are_removed_only_after_it_is_fenced(aged):
    staged = aged.staged(7, 1, [1])
    fragment = Path(aged.output.location.uri, staged.path).with_name("3-1.parquet#1")
    fragment.write_bytes(b"PAR1")
    assert delta_upkeep.of_table(aged.output) == []
    assert names(aged) == {staged.path}
    aged.output.fence(known(7), 2)
    assert delta_upkeep.of_table(aged.output) == [
        f"{aged.output.location.uri}: 1 files of attempts that can no longer commit deleted"
    ]
    assert not fragment.parent.exists()


def test_files_of_attempts_beside_the_one_that_has_committed_are_removed(table):
    lost = table.staged(7, 1, [1])
    newer = table.staged(7, 3, [1])
    table.output.fence(known(7), 2)
    table.commit(7, own(2), [1])
    kept = {path for path in names(table) if "/2-" in path}
    assert {lost.path, newer.path} < names(table)
    delta_upkeep.of_table(table.output)
    assert names(table) == kept


def test_a_losing_task_of_a_committed_attempt_leaves_a_file_that_is_removed_after_the_retention(aged):
    attempt = own(1)
    aged.commit(7, attempt, [1])
    young, old = aged.staged(7, 1, [1]), aged.staged(7, 1, [1])
    os.utime(Path(aged.output.location.uri, old.path), (LONG_AGO, LONG_AGO))
    delta_upkeep.of_table(aged.output)
    assert young.path in names(aged)
    assert old.path not in names(aged)
    assert aged.rows() == [(7, 1, "attempt 1")]


def test_files_that_were_replaced_are_deleted_after_the_retention_and_no_staged_ones(each_lake):
    table = each_lake.created()
    for batch in range(3):
        table.commit(batch, own(1), [batch])
    replaced, rows = names(table), table.rows()
    staged = table.staged(7, 1, [7])
    delta_upkeep.of_table(table.output)
    assert names(table) >= replaced, "a reader of the version before the merge may still need them"
    table.reopened().alter.set_table_properties({"delta.deletedFileRetentionDuration": "interval 0 seconds"})
    assert delta_upkeep.of_table(table.output) == [
        f"{table.output.location.uri}: 3 files deleted that were replaced long ago"
    ]
    assert names(table) == {staged.path}
    assert delta_upkeep.of_table(table.output) == []
    assert table.rows() == rows
    table.output.commit(known(7), own(1), lambda _: [staged], ranges="")
    assert table.rows() == [*rows, (7, 7, "attempt 1")]
    done = [line.partition(": ")[2] for _ in range(3) for line in delta_upkeep.of_table(table.output)]
    assert done == ["2 small files merged into 1", "2 files deleted that were replaced long ago"]
    assert table.rows() == [*rows, (7, 7, "attempt 1")]


def test_loads_and_replays_beside_upkeep_lose_and_double_nothing(table):
    ended, merged = threading.Event(), threading.Event()

    def keep_up() -> None:
        while not ended.is_set():
            if any("merged" in line for line in delta_upkeep.of_table(table.output)):
                merged.set()

    beside = threading.Thread(target=keep_up)
    beside.start()
    batches = 0
    try:
        deadline = time.monotonic() + 120
        # On a busy machine each merge may be overtaken by a replay: loads alone go on until one is not.
        while batches < 25 or not merged.is_set():
            assert time.monotonic() < deadline
            table.commit(2 * batches, own(1), [10 * batches + n for n in range(10)])
            if batches < 25 and batches % 2:
                replay(table, 2 * batches + 1, own(1), start=10 * batches - 5, end=10 * batches + 5)
            batches += 1
    finally:
        ended.set()
        beside.join()
    rows = table.rows()
    assert sorted(offset for _, offset, _ in rows) == list(range(10 * batches))
    owners = {offset: batch for batch, offset, _ in rows}
    for batch in range(1, 25, 2):
        assert {owners[offset] for offset in range(10 * batch - 5, 10 * batch + 5)} == {2 * batch + 1}
