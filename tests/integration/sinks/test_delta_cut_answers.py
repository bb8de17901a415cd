"""The network cuts the PUT of a commit, before the object store gets it or after it has answered: the rows are there once all the same."""

import multiprocessing
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from urllib.parse import urlsplit

import pytest

from identities import batch
from loads import lake_tables
from loads.lake_tables import Lake, own
from servers import cutting_proxy
from servers.cutting_proxy import Act, cut_after, cut_before
from servers.s3_server import Store
from tideline.domain import receipts


@contextmanager
def cut_lake(store: Store, act: Act) -> Iterator[tuple[Lake, Callable[[], None], Callable[[], bool]]]:
    """Yield a lake behind a proxy, a function that lets the proxy act on the next commit, and one that tells whether it has."""
    server = urlsplit(store.address)
    if server.scheme != "http":
        pytest.skip("the proxy does not see what TLS hides")
    ours, its = multiprocessing.Pipe()
    context = multiprocessing.get_context("forkserver")
    process = context.Process(target=cutting_proxy.forward, args=(its, f"host={server.hostname} port={server.port}"))
    process.start()
    try:
        lake = lake_tables.in_store(replace(store, address=f"http://127.0.0.1:{ours.recv()}"))
        log = f"PUT {lake.root.removeprefix('s3:/')}/events/_delta_log/"

        def at_commit() -> None:
            ours.send((log, act))
            assert ours.recv()

        yield lake, at_commit, ours.recv
    finally:
        process.kill()
        process.join()


@pytest.mark.parametrize("act", [cut_before, cut_after])
def test_a_commit_and_a_fence_whose_put_is_cut_happen_once(store, act):
    with cut_lake(store, act) as (lake, at_commit, has_acted):
        table, attempt = lake.created(), own(1)
        at_commit()
        assert table.commit(7, attempt, [1]) == attempt
        assert has_acted()
        assert table.rows() == [(7, 1, "attempt 1")]
    with cut_lake(store, act) as (lake, at_commit, has_acted):
        table = lake.created()
        at_commit()
        assert table.output.fence(batch(7), 2) is None
        assert has_acted()
        assert table.output.version(table.reopened(), batch(7).identity) == receipts.marker(2)
