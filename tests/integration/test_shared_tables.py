"""Two pipelines share a table only if both declare it, and a replay of one never changes rows of the other."""

from dataclasses import replace

import pytest

import records
from loads.loading import Loading, ranges
from tideline.domain.requests import OneBatch
from tideline.errors import FatalError
from tideline.ledger import claimed_outputs, reservations
from tideline.ledger.claimed_outputs import ROWS, ClaimedOutput


def half(remainder: int) -> str:
    """Return a transform that keeps every second id."""
    return f"""
        import pyarrow as pa, pyarrow.compute as pc
        def records(batch): return batch.filter(pc.equal(pc.bit_wise_and(batch["id"], 1), {remainder}))
    """


@pytest.fixture
def pair(loading, tmp_path) -> tuple[Loading, Loading]:
    """Load even and odd ids of one topic of 1,000 records into one table, with two pipelines."""
    topic = records.create(loading.bootstrap)
    records.produce(loading.bootstrap, topic, map(records.record, range(1000)))
    other = replace(loading, folder=tmp_path / "others")
    for one, remainder in ((loading, 0), (other, 1)):
        one.declare(topic, transform=half(remainder), shared=True)
        one.run()
    assert loading.published() == 1000
    return loading, other


def rows_by_pipeline(loading: Loading) -> dict[str, int]:
    return dict(
        loading.rows(
            "SELECT pipeline, count(*)::int FROM ads.output JOIN tideline.batch ON batch_id = tideline_batch GROUP BY 1"
        )
    )


def test_what_one_pipeline_loads_again_never_touches_rows_of_another(pair):
    loads, _ = pair
    theirs = "SELECT to_jsonb(o) FROM ads.output o WHERE id %% 2 = 1 ORDER BY id"
    before = loads.rows(theirs)
    (first,) = loads.rows("SELECT batch_id FROM tideline.batch WHERE pipeline = 'loads'")[0]
    loads.run(OneBatch(batch_id=first, replace=True))
    assert rows_by_pipeline(loads) == {"loads": 500, "others": 500}
    # Replay again over a part whose rows belong to a replay and to the first batch, with a transform that now returns nothing.
    loads.transform("def records(batch): return batch.slice(0, 0)")
    topic = loads.pipeline.source.topics[0]
    loads.run(ranges(f"{topic}/0 [100, 300)", replace=True))
    assert rows_by_pipeline(loads) == {"loads": 400, "others": 500}
    assert loads.rows(theirs) == before


def test_a_write_asks_once_more_who_has_the_table(loading):
    """The declaration may have changed since the plan."""
    topic = records.create(loading.bootstrap)
    records.produce(loading.bootstrap, topic, [records.record(0)])
    loading.declare(topic, table="ads.mine")
    batch_ids = loading.plan("one")
    with loading.ledger() as ledger, ledger.transaction():
        reservations.lock_pipeline(ledger, "older")
        output = ClaimedOutput(purpose=ROWS, kind="postgres", place="ads.output", shared=False)
        claimed_outputs.claim(ledger, "older", [output])
    loading.declare(topic)
    with pytest.raises(FatalError, match=r"loads: expected table ads\.output for itself, found that pipeline older"):
        loading.write("one", batch_ids)
    assert loading.rows("SELECT to_regclass('ads.output')") == [(None,)]


def test_a_record_that_two_pipelines_load_is_refused_and_its_owner_is_named(loading, tmp_path):
    topic = records.create(loading.bootstrap)
    records.produce(loading.bootstrap, topic, [records.record(0)])
    other = replace(loading, folder=tmp_path / "others")
    for one in (loading, other):
        one.declare(topic, shared=True)
    loading.run()
    with pytest.raises(FatalError, match=r"already holds a row of partition 0 offset 0, of batch 1, of pipeline loads"):
        other.run()
    assert rows_by_pipeline(loading) == {"loads": 1}
