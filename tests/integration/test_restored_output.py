"""A ledger restored without its output tables: docs/operating.md says what is refused and what to delete, and these tests follow it."""

import re
from dataclasses import replace

import pytest
from psycopg2.extensions import parse_dsn

import records
from given_ledger.ledgers import execute
from ledger_dump import at_server
from tideline.errors import TidelineError
from tideline.ledger import invariants
from tideline.settings import PROJECT

PAGE = (PROJECT / "docs" / "operating.md").read_text(encoding="utf-8").partition("\n## Restoring the ledger\n")[2]
DELETE = re.search(r"^    (DELETE FROM ads\.impressions .*?;)$", PAGE, re.DOTALL | re.MULTILINE)[1]
TABLE = "ads.output"


def unknown(loading):
    with loading.ledger() as ledger:
        return [(row["partition"], row["kafka_offset"]) for row in invariants.unknown_rows(ledger, "loads", TABLE)]


@pytest.fixture
def restored(loading, tmp_path):
    """Load 100 records of two partitions before the dump and 40 of one partition after it, then restore the ledger only."""
    topic = records.create(loading.bootstrap, partitions=2)
    loading.declare(topic)
    records.produce(loading.bootstrap, topic, map(records.record, range(50)), first_partition=0)
    records.produce(loading.bootstrap, topic, map(records.record, range(50, 100)), first_partition=1)
    loading.run()
    assert unknown(loading) == []
    file, name = str(tmp_path / "ledger.dump"), parse_dsn(loading.url)["dbname"]
    at_server("pg_dump", loading.url, "--format=custom", "--schema=tideline", f"--file={file}")
    records.produce(loading.bootstrap, topic, map(records.record, range(100, 140)), first_partition=1)
    loading.run()
    assert unknown(loading) == []
    at_server("pg_restore", loading.url, "--clean", "--if-exists", "--exit-on-error", f"--dbname={name}", file)
    return loading


def test_rows_unknown_to_a_restored_ledger_are_named_and_deleted_as_documented(restored):
    assert unknown(restored) == [(1, 50)]
    with pytest.raises(TidelineError, match=r"already holds a row of partition 1 offset 50"):
        restored.run()
    assert restored.published() == 140, "neither doubled nor gone"
    assert unknown(restored) == [(1, 50)], "a batch that is not published has written nothing"
    with restored.ledger() as ledger:
        execute(ledger, DELETE.replace("ads.impressions", TABLE).replace("'impressions'", "'loads'"))
    assert restored.published() == 100
    assert unknown(restored) == []
    restored.run()
    assert restored.rows("SELECT count(*)::int, count(DISTINCT id)::int FROM ads.output") == [(140, 140)]
    assert unknown(restored) == []


def test_rows_of_another_pipeline_in_a_shared_table_are_known(loading, tmp_path):
    """One pipeline is ahead of the other, in the same partition of the same topic."""
    topic = records.create(loading.bootstrap)
    ahead = replace(loading, folder=tmp_path / "ahead")
    for number, one in enumerate((loading, ahead)):
        keep = f"batch.filter(pc.equal(pc.bit_wise_and(batch['id'], 1), {number}))"
        one.declare(
            topic, shared=True, transform=f"import pyarrow.compute as pc\n\ndef records(batch): return {keep}\n"
        )
        records.produce(loading.bootstrap, topic, map(records.record, range(50 * number, 50 * number + 50)))
        one.run()
    assert loading.rows("SELECT max(id)::int FROM ads.output") == [(99,)]
    assert loading.heads() == [50, 100]
    assert unknown(loading) == []
