"""`tideline doctor` compares the rows of outputs with what the ledger has published: a receipt does not tell that its rows are gone."""

import pytest
from deltalake import DeltaTable

import records
from given_ledger.ledgers import execute
from loads import lake_tables
from loads.lake_tables import into_lake, output
from loads.loading import ALL, TARGET, faulty
from tideline import flow
from tideline.domain.checks import Check, Verdict
from tideline.domain.requests import OneBatch
from tideline.kafka.broker import Broker
from tideline.ledger import published_rows
from tideline.ledger.sessions import moment
from tideline.reports.checks import rows
from tideline.sinks.delta import delta_upkeep

pytestmark = pytest.mark.topic(partitions=3, records=30, others={7: b"{bad", 20: None})


@pytest.fixture
def topic(loading, topic) -> str:
    """Declare a pipeline over thirty records of three partitions, of which three are rejects and the others make two batches."""
    loading.declare(topic, batch_records=15, transform=faulty({"n3": "not yet"}))
    return topic


@pytest.fixture
def lake(loading, topic, tmp_path) -> str:
    """Load the topic into a Delta table, and return where it is."""
    into_lake(loading, lake_tables.in_folder(tmp_path))
    assert loading.run() == [1, 2]
    return output(loading).location.uri


def of_lake(loading, most: int | None = rows.NEWEST) -> Check:
    with loading.ledger() as ledger:

        def read() -> list[published_rows.Published]:
            with moment(ledger):
                return published_rows.published(ledger, "loads", loading.pipeline.sink.output, most=most)

        (check,) = rows.of_ranges(loading.pipeline, read)
    return check


def of_table(loading, most: int | None = rows.NEWEST) -> Check:
    with loading.ledger() as ledger, moment(ledger):
        (check,) = rows.of_table(ledger, loading.pipeline, most=most)
    return check


def test_rows_of_a_delta_table_are_where_the_ledger_has_them_after_loads_a_replay_a_redrive_and_a_merge(loading, lake):
    assert of_lake(loading) == rows.ok(
        "loads", "rows", f"{loading.pipeline.sink.output} holds the 27 records of 2 batches that were compared"
    )
    loading.run(OneBatch(batch_id=1, replace=True), reason="again")
    assert of_lake(loading).verdict is Verdict.OK
    loading.transform("")
    loading.run(ALL, reason="the transform is corrected")
    delta_upkeep.of_table(output(loading))
    assert "28 records" in of_lake(loading).found
    assert of_lake(loading).verdict is Verdict.OK


def test_a_delta_table_that_was_restored_to_an_older_version_lacks_batches_and_replays_bring_them_back(loading, lake):
    table = DeltaTable(lake)
    before = next(
        made["version"] for made in table.history() if made.get("tideline_batch") == "1" and "tideline_attempt" in made
    )
    table.restore(before)
    check = of_lake(loading)
    assert check.verdict is Verdict.BAD
    assert "batch 2 " in check.found
    assert "batch 1 " not in check.found
    assert "tideline replay loads --batch 2 " in str(check.next_step)
    loading.run(OneBatch(batch_id=2, replace=True), reason="restored")
    assert of_lake(loading).verdict is Verdict.OK


def test_rows_that_another_program_has_deleted_from_a_delta_table_are_named_with_their_batch(loading, lake):
    DeltaTable(lake).delete("tideline_batch = 1 AND kafka_partition = 0 AND kafka_offset = 0")
    check = of_lake(loading)
    assert "batch 1 " in check.found
    assert "4 records were published, 3 are there" in check.found
    assert of_lake(loading, most=1).verdict is Verdict.OK, "only the newest is compared"
    assert of_lake(loading, most=None).verdict is Verdict.BAD
    loading.run(OneBatch(batch_id=1, replace=True), reason="deleted")
    assert of_lake(loading).verdict is Verdict.OK


def test_rows_of_other_offsets_under_the_number_of_a_batch_do_not_count(loading, lake):
    DeltaTable(lake).update({"kafka_offset": "kafka_offset + 1000"}, predicate="tideline_batch = 2")
    check = of_lake(loading)
    assert "batch 2 " in check.found
    assert "0 are there" in check.found


def test_rows_of_a_table_in_the_ledgers_database_are_where_the_ledger_has_them_after_a_replay_and_a_redrive(
    loading, topic
):
    loading.run()
    assert of_table(loading).found == "ads.output holds the 27 records of 2 batches that were compared"
    loading.run(OneBatch(batch_id=1, replace=True), reason="again")
    loading.transform("")
    loading.run(ALL, reason="the transform is corrected")
    assert "28 records" in of_table(loading).found
    assert of_table(loading).verdict is Verdict.OK


@pytest.mark.parametrize(
    "statement", ["TRUNCATE ads.output", "DELETE FROM ads.output WHERE tideline_batch = 2 AND kafka_partition = 0"]
)
def test_rows_that_another_program_has_deleted_from_a_table_are_named_with_their_batch(loading, topic, statement):
    loading.run()
    with loading.ledger() as ledger:
        execute(ledger, statement)
    check = of_table(loading)
    assert check.verdict is Verdict.BAD
    assert "batch 2 " in check.found
    assert " records were published, 0 are there" in check.found
    loading.run(OneBatch(batch_id=2, replace=True), reason="deleted")
    if "DELETE" in statement:
        assert of_table(loading).verdict is Verdict.OK


def test_batches_from_before_an_output_was_moved_are_not_said_to_be_gone(loading, topic):
    loading.run()
    loading.declare(topic, table="ads.moved", target=TARGET.replace("ads.output", "ads.moved"))
    with loading.ledger() as ledger:
        flow.move_output(ledger, Broker(loading.pipeline.source), loading.pipeline, reason="partitioned")
    records.produce(loading.bootstrap, topic, [records.record(n) for n in range(30, 36)], partitions=3)
    assert loading.run() == [3]
    assert of_table(loading, most=None).found == "ads.moved holds the 6 records of 1 batches that were compared"
    loading.run(OneBatch(batch_id=1, replace=True), reason="into the new one as well")
    assert "of 2 batches" in of_table(loading).found
    with loading.ledger() as ledger:
        execute(ledger, "TRUNCATE ads.moved")
    assert "batch 3 " in of_table(loading).found


def test_batches_from_before_a_table_was_shared_are_compared(loading, topic):
    loading.run()
    loading.declare(topic, shared=True)
    assert loading.plan("shared") == []
    assert "of 2 batches" in of_table(loading).found


def test_an_upsert_table_that_was_emptied_is_named(loading, topic):
    target = "CREATE TABLE ads.offers (id bigint PRIMARY KEY, name text, price numeric, kafka_topic_id uuid NOT NULL, kafka_partition int NOT NULL, "
    target += "kafka_offset bigint NOT NULL, tideline_batch bigint NOT NULL)"
    loading.declare(
        topic,
        target=f"CREATE SCHEMA IF NOT EXISTS ads; {target}",
        sink={"table": "ads.offers", "mode": "upsert", "key": ["id"]},
    )
    loading.run()
    assert of_table(loading).verdict is Verdict.OK
    with loading.ledger() as ledger:
        execute(ledger, "TRUNCATE ads.offers")
    assert "ads.offers has no row" in of_table(loading).found
