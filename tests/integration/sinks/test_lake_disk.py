"""The law: what a receipt of a Delta table in a folder stands for is on disk before it is returned. The machine may lose its power then."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from identities import batch
from loads import lake_tables
from loads.lake_tables import Table, own
from tideline.errors import RetryableError
from tideline.sinks.delta import delta_disk, delta_upkeep
from tideline.sinks.delta.delta_table import DeltaOutput


class Disk:
    """Sees each flush of this process, and can fail."""

    def __init__(self) -> None:
        self.flushed: list[tuple[str, int]] = []
        """What was flushed, relative to the table, and how many commits the log had then."""
        self.broken: Callable[[str], bool] = lambda _: False
        self.root = Path("/")
        self._real = os.fsync

    def fsync(self, opened: int) -> None:
        path = os.path.relpath(Path(f"/proc/self/fd/{opened}").readlink(), self.root)
        if self.broken(path):
            raise OSError(errno.EIO, "the disk has an error")
        self._real(opened)
        self.flushed.append((path, len([*self.root.glob("_delta_log/*.json")])))


@pytest.fixture
def disk(monkeypatch) -> Disk:
    made = Disk()
    monkeypatch.setattr(os, "fsync", made.fsync)
    return made


@pytest.fixture
def table(tmp_path, disk) -> Table:
    made = lake_tables.in_folder(tmp_path / "new" / "folder").created()
    disk.root = Path(made.output.location.uri)
    return made


def new_process(disk: Disk) -> None:
    """Forget what this process has flushed, as one that begins."""
    delta_disk._flushed.clear()
    disk.flushed.clear()


def test_files_are_flushed_before_their_commit_and_the_commit_before_its_receipt(table, disk):
    disk.flushed.clear()
    staged = table.staged(7, 1, [1])
    table.output.commit(batch(7), own(1), lambda _: [staged], ranges="")
    folder = str(Path(staged.path).parent)
    before, after = ({path for path, n in disk.flushed if n == commits} for commits in (1, 2))
    assert before >= {staged.path, folder, str(Path(folder).parent), "tideline", "."}
    assert after >= {"_delta_log", f"_delta_log/{1:020}.json"}
    names = [path for path, _ in disk.flushed]
    assert names.index(f"_delta_log/{1:020}.json") < names.index("_delta_log")


def test_a_new_table_is_flushed_with_all_folders_that_were_made_for_it(tmp_path, disk):
    disk.root = tmp_path / "a" / "b" / "events"
    DeltaOutput(location=lake_tables.in_folder(tmp_path / "a" / "b").location()).fence(batch(7), 2)
    flushed = {path for path, _ in disk.flushed}
    assert flushed >= {
        f"_delta_log/{0:020}.json",
        f"_delta_log/{1:020}.json",
        "_delta_log",
        ".",
        "..",
        "../..",
        "../../..",
    }


def test_files_that_cannot_be_flushed_are_not_committed(table, disk):
    disk.broken = lambda path: path.endswith(".parquet")
    with pytest.raises(RetryableError, match="the disk has an error"):
        table.commit(7, own(1), [1])
    assert table.reopened().version() == 0


def test_a_commit_that_cannot_be_flushed_has_no_receipt_before_it_can(table, disk):
    disk.broken = lambda path: path.startswith("_delta_log")
    attempt, staged = own(1), table.staged(7, 1, [1])
    for call in (
        lambda: table.output.commit(batch(7), attempt, lambda _: [staged], ranges=""),
        lambda: table.output.look(batch(7)),
        lambda: table.output.fence(batch(7), 2),
    ):
        with pytest.raises(RetryableError, match="the disk has an error"):
            call()
    disk.broken = lambda _: False
    assert table.output.fence(batch(7), 2) == attempt
    assert table.rows() == [(7, 1, "attempt 1")]


def test_who_finds_the_receipt_of_a_process_that_was_killed_flushes_all_that_it_rests_on(table, disk):
    for number in range(3):
        table.commit(number, own(1), [number])
    new_process(disk)
    assert table.output.look(batch(1)) is not None
    assert {path for path, _ in disk.flushed} >= {
        *(f"_delta_log/{n:020}.json" for n in range(4)),
        "_delta_log",
        ".",
        "..",
    }
    disk.flushed.clear()
    assert table.output.look(batch(2)) is not None
    assert disk.flushed == [], "it is on disk"


def test_a_merged_file_is_flushed_before_the_small_ones_are_removed(table, disk):
    for number in range(3):
        table.commit(number, own(1), [number])
    disk.flushed.clear()
    delta_upkeep.of_table(table.output)
    merged = {path for path, n in disk.flushed if n == 4 and path.endswith(".parquet")}
    assert merged == {*table.reopened().get_add_actions(flatten=True).column("path").to_pylist()}


def test_from_a_checkpoint_on_only_it_and_what_comes_after_it_is_flushed(table, disk):
    for number in range(3):
        table.commit(number, own(1), [number])
    table.reopened().create_checkpoint()
    table.commit(3, own(1), [3])
    new_process(disk)
    table.output.look(batch(3))
    flushed = {path for path, _ in disk.flushed if path.startswith("_delta_log/")}
    kept = (f"{3:020}.checkpoint.parquet", f"{3:020}.json", f"{4:020}.json", "_last_checkpoint")
    assert flushed == {f"_delta_log/{name}" for name in kept}


def test_drafts_and_versions_that_go_away_meanwhile_keep_no_receipt_from_being_read(table):
    """Links to nothing stand for files that another process deletes between the listing of the log and the look at one."""
    mine = own(1)
    table.output.commit(batch(7), mine, lambda _: [table.staged(7, 1, [1])], ranges="")
    log = Path(table.output.location.uri, "_delta_log")
    for name in ("00000000000000000002.json#1", "00000000000000000000.crc"):
        (log / name).symlink_to("gone")
    delta_disk._flushed.clear()
    assert table.output.look(batch(7)) == mine
