"""Two processes race the version of each batch of one Delta table. The law: one of them wins, and only its row is there."""

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from uuid import UUID

import pytest

from faults import lake_races
from faults.share import Share
from loads import lake_tables
from loads.lake_tables import Lake
from servers import s3_server


def test_of_two_processes_exactly_one_commits_each_batch_to_a_folder(tmp_path: Path, share: Share):
    _race(lake_tables.in_folder(tmp_path), share.delta_races)


def test_of_two_processes_exactly_one_commits_each_batch_to_an_object_store(tmp_path: Path, share: Share):
    with s3_server.running(tmp_path / "s3.log") as store:
        _race(lake_tables.in_store(store), share.delta_races // 5)


def _race(lake: Lake, n_batches: int) -> None:
    table = lake.created()
    context = multiprocessing.get_context("spawn")
    with context.Manager() as manager, ProcessPoolExecutor(2, mp_context=context) as processes:
        start = manager.Barrier(2)
        running = [processes.submit(race, lake, start, n_batches) for race in (lake_races.older, lake_races.newer)]
        older, newer = (one.result() for one in running)
    rows = table.rows()
    committed = {batch_id for batch_id, _, _ in rows}
    assert len(committed) == len(rows)
    log = table.reopened()
    by_batch = {
        int(made["tideline_batch"]): UUID(made["tideline_attempt"])
        for made in log.history()
        if "tideline_attempt" in made
    }
    for batch_id, (first, second) in enumerate(zip(older, newer, strict=True)):
        winners = [one.attempt for one in (first, second) if one.attempt is not None]
        if batch_id % 2:  # the newer one only fences: it finds the commit, or keeps it from happening
            assert winners == [one for one in (second.found,) if one is not None]
        else:
            assert len(winners) == 1
        assert [by_batch[batch_id]] == winners if batch_id in by_batch else winners == []
        assert (batch_id in committed) == bool(winners)
    by_fence = [sum(one.attempt is not None for one in outcomes) for outcomes in (older, newer)]
    print(f"{n_batches} races: {by_fence[0]} won by the older process, {by_fence[1]} by the newer one")
    if n_batches >= 100:
        assert min(by_fence) > 0, "never the same winner: the two did not race"


@pytest.fixture(autouse=True)
def _say(capsys: pytest.CaptureFixture[str]):
    yield
    with capsys.disabled():
        print(capsys.readouterr().out, end="")
