"""A Delta table may be shared, and a replay of one pipeline never changes rows of another, nor rows that the ledger does not know."""

from dataclasses import replace

import pyarrow as pa
import pytest
from deltalake import DeltaTable

import records
from loads.lake_tables import into_lake, lake_query, lake_rows, output
from loads.loading import Loading, ranges
from tideline.domain.requests import OneBatch
from tideline.errors import FatalError
from tideline.sinks.delta import delta_upkeep
from tideline.sinks.delta.delta_table import COORDINATES, OWNER

OF_THE_TABLE = pa.schema([("id", pa.int64()), ("name", pa.string()), ("price", pa.decimal128(12, 4)), *COORDINATES])


def half(remainder: int) -> str:
    """Return a transform that keeps every second id."""
    return f"""
        import pyarrow as pa, pyarrow.compute as pc
        def records(batch): return batch.filter(pc.equal(pc.bit_wise_and(batch["id"], 1), {remainder}))
    """


@pytest.fixture
def pair(loading, lake, tmp_path) -> tuple[Loading, Loading]:
    """Load even and odd ids of one topic of 100 records into one table that was created beforehand, with two pipelines."""
    DeltaTable.create(str(lake.declared()["path"]), OF_THE_TABLE, storage_options=dict(lake.location("lake").options))
    topic = records.create(loading.bootstrap)
    records.produce(loading.bootstrap, topic, map(records.record, range(100)))
    other = replace(loading, folder=tmp_path / "others")
    for one, remainder in ((loading, 0), (other, 1)):
        one.declare(topic, transform=half(remainder))
        into_lake(one, lake, shared=True)
        one.run()
    assert len(lake_rows(loading)) == 100
    return loading, other


@pytest.mark.parametrize("merged", [False, True], ids=["files of each batch", "files that upkeep has merged"])
def test_a_replay_into_a_delta_table_removes_rows_of_its_own_pipeline_only(pair, merged):
    loads, _ = pair
    theirs = {place: row for place, row in lake_rows(loads).items() if row[0] % 2}
    if merged:
        assert delta_upkeep.of_table(output(loads))
    assert loads.run(OneBatch(batch_id=1, replace=True)) == [3]
    # Again over a part, whose rows are of the replay, with a transform that now returns nothing.
    loads.transform("def records(batch): return batch.slice(0, 0)")
    (topic,) = loads.pipeline.source.topics
    loads.run(ranges(f"{topic}/0 [0, 50)", replace=True))
    rows = lake_rows(loads)
    assert {place: row for place, row in rows.items() if row[0] % 2} == theirs
    assert sorted(row[0] for row in rows.values() if row[0] % 2 == 0) == list(range(50, 100, 2))


def test_a_replay_refuses_rows_of_its_offsets_that_no_batch_of_the_ledger_has_loaded(pair):
    loads, _ = pair
    table = output(loads).location.open()
    assert table is not None
    table.update({"tideline_batch": "77"}, predicate="id in (4, 6)")
    before = sorted(lake_query(loads, "SELECT * FROM lake"))
    with pytest.raises(FatalError, match=r"of batches that this ledger has not loaded them with: 77") as caught:
        loads.run(OneBatch(batch_id=1, replace=True))
    assert caught.value.entry == "rows-of-another-writer"
    assert sorted(lake_query(loads, "SELECT * FROM lake")) == before


def test_a_table_that_was_created_beforehand_gets_an_owner_and_is_shared_by_consent_of_both(pair, lake):
    loads, others = pair
    table = output(loads).location.open()
    assert table is not None
    properties = table.metadata().configuration
    assert (properties[OWNER], properties["tideline.shared"]) == ("loads", "true")
    into_lake(others, lake)
    with pytest.raises(
        FatalError, match=r"others: expected Delta table .* found that pipeline loads writes it as well"
    ):
        others.run()
    loads.rows("DELETE FROM tideline.claimed_output WHERE pipeline = 'loads' RETURNING 1")
    # As a pipeline of another ledger: no claim keeps it away, the table itself does.
    records.produce(others.bootstrap, *others.pipeline.source.topics, [records.record(101)])
    with pytest.raises(FatalError, match=r"it is the table of pipeline loads \(tideline\.pipeline\)"):
        others.run()


def test_two_pipelines_do_not_filter_one_topic_into_one_lake_without_consent(loading, lake, tmp_path):
    DeltaTable.create(str(lake.declared()["path"]), OF_THE_TABLE, storage_options=dict(lake.location("lake").options))
    topic = records.create(loading.bootstrap)
    records.produce(loading.bootstrap, topic, map(records.record, range(10)))
    other = replace(loading, folder=tmp_path / "others")
    for one, remainder in ((loading, 0), (other, 1)):
        one.declare(topic, transform=half(remainder))
        into_lake(one, lake)
    loading.run()
    with pytest.raises(
        FatalError, match=r"others: expected Delta table .* found that pipeline loads writes it as well"
    ):
        other.run()
    assert len(lake_rows(loading)) == 5
