"""A process is killed while it commits batch after batch to a Delta table. The law: each batch has its row and a receipt, or neither ever."""

import multiprocessing
import multiprocessing.connection
import os
import random
import sys
import time
from pathlib import Path

import pytest

from faults import lake_races
from faults.share import Share
from identities import batch
from loads import lake_tables
from loads.lake_tables import Lake, own
from servers import s3_server

_LONGEST_S = 0.4
"""A commit takes a tenth of a second: the moment of a death is anywhere in some of them."""


def test_a_process_that_is_killed_leaves_no_commit_to_a_folder_in_doubt(tmp_path: Path, share: Share, first_seed: int):
    _die(lake_tables.in_folder(tmp_path), share.delta_deaths, first_seed)


def test_a_process_that_is_killed_leaves_no_commit_to_an_object_store_in_doubt(
    tmp_path: Path, share: Share, first_seed: int
):
    with s3_server.running(tmp_path / "s3.log") as store:
        _die(lake_tables.in_store(store), share.delta_deaths, first_seed)


@pytest.fixture(autouse=True)
def _imported_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the server from which processes are forked import what they need; otherwise each death takes a second more."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    multiprocessing.get_context("forkserver").set_forkserver_preload(["faults.lake_races"])


def _die(lake: Lake, n_deaths: int, first_seed: int) -> None:
    table, next_batch = lake.created(), 0
    context = multiprocessing.get_context("forkserver")
    for seed in range(first_seed, first_seed + n_deaths):
        heard, said = context.Pipe(duplex=False)
        process = context.Process(target=lake_races.endless, args=(lake, said, next_batch))
        process.start()
        said.close()
        committed = [heard.recv()]
        time.sleep(random.Random(seed).uniform(0, _LONGEST_S))
        process.kill()
        process.join()
        committed += _rest(heard)
        assert committed == list(range(next_batch, next_batch + len(committed)))
        in_doubt = committed[-1] + 1
        receipt = table.output.fence(batch(in_doubt), 2)
        there = {batch_id for batch_id, _, _ in table.rows()}
        assert (in_doubt in there) == (receipt is not None), f"seed {seed}"
        if receipt is None:
            table.commit(in_doubt, own(2), [in_doubt])
        next_batch = in_doubt + 1
    assert [(batch_id, offset) for batch_id, offset, _ in table.rows()] == [(n, n) for n in range(next_batch)]


def _rest(heard: multiprocessing.connection.Connection) -> list[int]:
    """Return what the process has sent before its death."""
    rest = []
    try:
        while True:
            rest.append(heard.recv())
    except EOFError:
        return rest
