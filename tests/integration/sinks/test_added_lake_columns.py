"""With `sink.evolve: add`, a Delta table gets the columns that a batch needs right before its commit, from an attempt that may still commit it."""

import json
from dataclasses import dataclass, field

import pyarrow as pa
import pytest

import records
from identities import batch
from loads.lake_tables import COLUMNS as OF_TABLE
from loads.lake_tables import Table, committed, into_lake, lake_query, output, own
from loads.loading import COLUMNS
from servers.cli_process import Cli
from servers.concurrency import together
from tideline.domain.requests import OneBatch
from tideline.errors import FatalError, RetryableError, SupersededError
from tideline.sinks.delta import added_columns, delta_upkeep
from tideline.sinks.delta.delta_log import TakenError

MORE = {**COLUMNS, "source": "string", "geo": "struct<lat: double>"}
WITH_MORE = pa.schema([*OF_TABLE, pa.field("more", pa.int64())])


def send(loading, topic, numbers, **more):
    values = [json.dumps({"id": number, "name": f"n{number}", "price": 1, **more}) for number in numbers]
    records.produce(loading.bootstrap, topic, values)


def added(loading):
    return loading.rows(
        "SELECT batch_id, detail->>'column', detail->>'type' FROM tideline.event WHERE action = 'add column' ORDER BY event_id"
    )


def test_a_delta_table_gets_the_columns_that_a_batch_needs(loading, lake):
    topic = records.create(loading.bootstrap)
    send(loading, topic, range(5))
    loading.declare(topic)
    into_lake(loading, lake, evolve="add")
    [first] = loading.run()
    send(loading, topic, range(5, 9), source="web", geo={"lat": 1.5})
    loading.declare(topic, columns=MORE)
    into_lake(loading, lake)
    with pytest.raises(FatalError, match="source: missing in the table; geo: missing in the table"):
        loading.run()
    into_lake(loading, lake, evolve="add")
    cli = Cli(
        folder=loading.folder.parent,
        variables={"TIDELINE_LEDGER_URL": loading.url, "TIDELINE_KAFKA": loading.bootstrap, **lake.secrets},
    )
    said = " ".join(cli("plan", loading.pipeline.name, "--dry-run").stdout.split())
    assert ": source string, geo struct<lat: double>" in said.partition("the next batch adds to Delta table")[2]
    (second,) = loading.rows("SELECT max(batch_id) FROM tideline.batch")[0]
    loading.run()
    assert added(loading) == [(second, "source", "string"), (second, "geo", "struct<lat: double>")]
    rows = "SELECT tideline_batch, source, geo.lat FROM lake ORDER BY id"
    assert lake_query(loading, rows) == [(first, None, None)] * 5 + [(second, "web", 1.5)] * 4
    # A merge and a replay keep what is there, over files with the columns and without them.
    assert delta_upkeep.of_table(output(loading))
    assert len(committed(loading)) == 1
    [third] = loading.run(OneBatch(batch_id=first, replace=True), reason="again")
    assert lake_query(loading, rows) == [(third, None, None)] * 5 + [(second, "web", 1.5)] * 4
    assert len(added(loading)) == 2


@dataclass
class Adding:
    """An attempt at one batch, whose files have one column more than the table."""

    table: Table
    number: int
    columns: pa.Schema = WITH_MORE
    announced: list[str] = field(default_factory=list)

    def add(self, table):
        added_columns.add(
            self.table.output.location, table, self.columns, lambda lacks: self.announced.extend(lacks.names)
        )

    def commit(self, receipt=None):
        def changes(table):
            self.add(table)
            return [staged]

        staged = self.table.staged(self.number, 1, [self.number])
        return self.table.output.commit(batch(self.number), receipt or own(1), changes, ranges="")


def names(table):
    return pa.schema(table.reopened().schema()).names


def test_a_crash_after_the_column_was_added_leaves_one_that_the_next_attempt_finds(each_lake):
    table = each_lake.created()
    crashed, second = Adding(table, 1), Adding(table, 1)
    with pytest.raises(TakenError):
        crashed.add(table.reopened())
    assert (crashed.announced, names(table)[-1], table.rows()) == (["more"], "more", [])
    second.commit()
    assert (second.announced, len(table.rows())) == ([], 1)
    assert table.reopened().version() == 2, "one commit for the column, one for the rows"


def test_of_two_attempts_that_lack_the_same_column_both_commit_and_it_is_there_once(lake):
    table = lake.created()
    together(*(Adding(table, number).commit for number in range(4)))
    assert names(table) == WITH_MORE.names
    assert len(table.rows()) == 4


def test_an_attempt_that_was_fenced_adds_no_column(lake):
    table = lake.created()
    table.output.fence(batch(1), 2)
    with pytest.raises(SupersededError):
        Adding(table, 1).commit(own(1))
    assert names(table) == OF_TABLE.names


def test_an_attempt_that_is_fenced_between_its_look_and_its_column_adds_none(lake):
    table = lake.created()

    class Fenced(Adding):
        def add(self, loaded):
            table.output.fence(batch(1), 2)
            super().add(loaded)

    with pytest.raises(SupersededError):
        Fenced(table, 1).commit(own(1))
    assert names(table) == OF_TABLE.names


def test_files_are_not_added_to_a_table_that_has_another_type_for_their_column(lake):
    table = lake.created()
    Adding(table, 1, pa.schema([*OF_TABLE, pa.field("more", pa.string())])).commit()
    with pytest.raises(RetryableError, match="expected its column more with type int64, found string"):
        Adding(table, 2).commit()
    assert len(table.rows()) == 1


def test_a_column_that_is_gone_is_not_added_unless_it_is_declared(lake):
    """Somebody has created the table anew since the attempt has looked at it."""
    table = lake.created()
    with pytest.raises(RetryableError, match="expected its column more with type int64, found no such column"):
        added_columns.add(table.output.location, table.reopened(), WITH_MORE, None)
    assert names(table) == OF_TABLE.names
