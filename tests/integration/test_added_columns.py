"""With `sink.evolve: add`, a column is in the table if and only if a batch that needed it is published; nothing else of the table changes."""

import json
import threading
from contextlib import suppress

import psycopg2
import pyarrow as pa
import pytest
from psycopg2.sql import SQL

import records
from given_ledger.ledgers import claim, execute, plan, query, stage, start_streams, wait_for_a_lock
from given_ledger.planners import declared
from loads import upserts
from loads.loading import COLUMNS, TARGET
from servers.cli_process import Cli
from servers.concurrency import together
from tideline.declaration import PostgresSink
from tideline.domain.facts import PartitionFacts
from tideline.domain.requests import OneBatch
from tideline.errors import FatalError, RetryableError
from tideline.ledger import publishing
from tideline.ledger.connection import Ledger
from tideline.ledger.publishing import Written
from tideline.sinks.postgres import target_table
from tideline.sinks.postgres.insertion import StagedRows, insert_output
from tideline.sinks.staging_tables import STAGING_SCHEMA

MORE = {**COLUMNS, "source": "string", "tags": "array<string>", "geo": "struct<lat: double>", "whole": "json"}
ADDED = [
    ("source", "text", "YES", None),
    ("tags", "ARRAY", "YES", None),
    ("geo", "jsonb", "YES", None),
    ("whole", "jsonb", "YES", None),
]
SAID = "source text, tags text[], geo jsonb, whole jsonb"


def columns(loading):
    return loading.rows(
        "SELECT column_name::text, data_type::text, is_nullable::text, column_default FROM information_schema.columns "
        "WHERE table_schema = 'ads' AND table_name = 'output' ORDER BY ordinal_position"
    )


def added(loading):
    return loading.rows(
        "SELECT batch_id, detail->>'output', detail->>'column', detail->>'type' FROM tideline.event WHERE action = 'add column' ORDER BY event_id"
    )


def send(loading, topic, numbers, **more):
    values = [json.dumps({"id": number, "name": f"n{number}", "price": 1, **more}) for number in numbers]
    records.produce(loading.bootstrap, topic, values, keys=[json.dumps({"id": n}).encode() for n in numbers])


@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_a_column_that_the_table_lacks_comes_with_the_batch_that_needs_it(loading, mode):
    topic = records.create(loading.bootstrap)
    send(loading, topic, range(5))

    def declare(columns):
        if mode == "append":
            loading.declare(topic, columns=columns, sink={"evolve": "add"})
        else:
            values = {name: kind for name, kind in columns.items() if name != "id"}
            upserts.declare(loading, topic, columns=values)
            text = (loading.folder / "pipeline.yaml").read_text()
            (loading.folder / "pipeline.yaml").write_text(text.replace('"mode":', '"evolve": "add", "mode":'))

    declare(COLUMNS)
    [first] = loading.run()
    before = columns(loading)
    send(loading, topic, range(5, 9), source="web", tags=["a", "b"], geo={"lat": 1.5}, whole={"x": [1]})
    declare(MORE)
    [second] = loading.run()
    assert columns(loading) == before + ADDED
    assert added(loading) == [(second, "ads.output", *part.split(" ", 1)) for part in SAID.split(", ")]
    rows = loading.rows("SELECT tideline_batch, source, tags, geo, whole FROM ads.output ORDER BY id")
    assert rows == [(first, None, None, None, None)] * 5 + [(second, "web", ["a", "b"], {"lat": 1.5}, {"x": [1]})] * 4
    # Nothing is added again, a replay writes the columns too, and a re-drive as well.
    [third] = loading.run(OneBatch(batch_id=first, replace=True), reason="again")
    assert loading.published() == 9
    assert len(added(loading)) == 4
    cli = Cli(folder=loading.folder.parent, variables={"TIDELINE_LEDGER_URL": loading.url})
    assert "type: text, column: source, output: ads.output" in " ".join(cli("batch", str(second)).stdout.split())
    assert "add column" not in cli("batch", str(third)).stdout


def test_plan_and_validate_say_what_the_next_batch_would_add(loading):
    topic = records.create(loading.bootstrap)
    send(loading, topic, range(5))
    loading.declare(topic, sink={"evolve": "add"})
    variables = {"TIDELINE_LEDGER_URL": loading.url, "TIDELINE_KAFKA": loading.bootstrap}
    cli = Cli(folder=loading.folder.parent, variables=variables)
    name = loading.pipeline.name
    assert "adds" not in cli("plan", name, "--dry-run").stdout, "there is no table, target.sql creates it"
    loading.run()
    send(loading, topic, range(5))
    assert "adds" not in cli("plan", name, "--dry-run").stdout, "the table has all columns"
    loading.declare(topic, columns=MORE, sink={"evolve": "add"})
    assert f"the next batch adds to ads.output: {SAID}" in " ".join(cli("plan", name, "--dry-run").stdout.split())
    found = " ".join(cli("validate", name, "--database").stdout.split())
    assert f"the next batch adds {SAID}" in found
    assert f"lacks {SAID}: the first batch adds this to ads.output" in found
    assert len(columns(loading)) == 7, "nothing was added"
    loading.transform("def frame(rows):\n    return rows\n")
    assert "only the run knows" in " ".join(cli("plan", name, "--dry-run").stdout.split())
    loading.declare(topic, columns=MORE)
    found = " ".join(cli("validate", name, "--database", code=20).stdout.split())
    assert "source: missing in the table" in found


def test_records_that_the_table_refuses_become_rejects_and_the_column_is_added_once(loading):
    topic = records.create(loading.bootstrap)
    send(loading, topic, [1, 2, 1, 3, 2], source="web")
    loading.declare(
        topic,
        columns={**COLUMNS, "source": "string"},
        sink={"evolve": "add"},
        target=TARGET.replace("id bigint NOT NULL", "id bigint UNIQUE"),
    )
    loading.run()
    assert loading.rows("SELECT id, source FROM ads.output ORDER BY id") == [(1, "web"), (2, "web"), (3, "web")]
    assert sorted(loading.rejects()) == [(0, 2), (0, 4)]
    assert len(added(loading)) == 1


def test_a_partitioned_table_gets_the_column_in_all_of_its_partitions(loading):
    topic = records.create(loading.bootstrap)
    send(loading, topic, range(6), source="web")
    by_id = TARGET.replace("kafka_offset)\n);", "kafka_offset, id)\n) PARTITION BY RANGE (id);").replace(
        "CREATE SCHEMA IF NOT EXISTS ads;", "CREATE SCHEMA IF NOT EXISTS ads; SET LOCAL search_path = ads;"
    )
    parts = "".join(
        f"CREATE TABLE ads.part_{n} PARTITION OF ads.output FOR VALUES FROM ({n * 3}) TO ({n * 3 + 3});" for n in (0, 1)
    )
    loading.declare(topic, columns={**COLUMNS, "source": "string"}, sink={"evolve": "add"}, target=by_id + parts)
    loading.run()
    assert loading.rows(
        "SELECT tableoid::regclass::text, count(source)::int FROM ads.output GROUP BY 1 ORDER BY 1"
    ) == [
        ("ads.part_0", 3),
        ("ads.part_1", 3),
    ]


FOUR_BYTES = "expected its column x with type integer, found type date"
TABLE = """\
CREATE SCHEMA ads; CREATE TABLE ads.output (id bigint, kafka_topic_id uuid, kafka_partition integer, kafka_offset bigint,
tideline_batch bigint, PRIMARY KEY (kafka_topic_id, kafka_partition, kafka_offset))"""
TASK = 7


class Load:
    """A pipeline that loads one batch by hand."""

    def __init__(self, ledger, name, **produced):
        self.ledger = ledger
        made = declared("nowhere:9092", "ads", name=name)
        sink = PostgresSink(table="ads.output", shared=True, evolve="add")
        self.pipeline = made.model_copy(update={"sink": sink})
        self.produced = pa.schema([("id", pa.int64()), *produced.items()])
        [self.stream] = start_streams(ledger, 1, start=100 * len(name), pipeline=name)
        start = 100 * len(name)
        self.batch = plan(ledger, {self.stream: (start, start + 5)}, pipeline=name)
        self.offset = start

    def prepare(self):
        self.attempt = claim(self.ledger, self.batch)
        self.target = target_table.prepare(self.ledger, self.pipeline, self.produced)

    def stage(self):
        self.staging = target_table.create_staging(self.ledger, self.target, self.attempt)
        execute(
            self.ledger,
            f"INSERT INTO {STAGING_SCHEMA}.{self.staging} (id, kafka_offset, tideline_stream, tideline_task) "
            f"SELECT o, o, {self.stream}, {TASK} FROM generate_series({self.offset}, {self.offset + 4}) o",
        )
        stage(self.ledger, self.attempt, n_read=5)

    def insert(self, ledger):
        staged = StagedRows(target=self.target, attempt=self.attempt, table=self.staging, tasks={TASK: 5})
        return insert_output(ledger, staged)

    def publish(self, insert=None):
        facts = {self.stream: PartitionFacts(partition=0, log_start=0, end=self.offset + 5)}
        publishing.publish(self.ledger, self.attempt, insert or self.insert, facts=facts, filtered_by_difference=False)


@pytest.fixture
def table(ledger):
    execute(ledger, TABLE)


def there(ledger):
    names = (
        "SELECT attname FROM pg_attribute WHERE attrelid = 'ads.output'::regclass AND attnum > 5 AND NOT attisdropped"
    )
    return [name for (name,) in query(ledger, names)]


def events(ledger):
    return [
        tuple(row)
        for row in query(ledger, "SELECT pipeline, detail->>'column' FROM tideline.event WHERE action = 'add column'")
    ]


class CrashError(Exception):
    """The driver is gone."""


def test_a_crash_before_the_commit_leaves_neither_the_column_nor_its_event(ledger, table):
    load = Load(ledger, "a", x=pa.int32())
    load.prepare()
    load.stage()

    def crash(session: Ledger) -> Written:
        load.insert(session)
        assert session.rows_of(SQL("SELECT x FROM ads.output LIMIT 1"), {}) == [[None]]
        raise CrashError

    with pytest.raises(CrashError):
        load.publish(crash)
    assert (there(ledger), events(ledger)) == ([], [])
    load.publish()
    assert (there(ledger), events(ledger)) == (["x"], [("a", "x")])


def test_of_two_batches_that_lack_the_same_column_one_adds_it(ledger, ledger_url, table):
    with Ledger(ledger_url, actor="other") as other:
        loads = [Load(ledger, "a", x=pa.int32()), Load(other, "bb", x=pa.int32(), y=pa.string())]
        for load in loads:
            load.prepare()
            load.stage()
        together(*(load.publish for load in loads))
    assert sorted(there(ledger)) == ["x", "y"]
    assert sorted(column for _, column in events(ledger)) == ["x", "y"]
    assert query(ledger, "SELECT count(*)::int FROM ads.output") == [(10,)]


def test_a_batch_that_waits_for_the_table_finds_the_column_of_another_one(ledger, ledger_url, table):
    """Both have seen that it is missing; the first one has added it, and commits while the second one waits."""
    with Ledger(ledger_url, actor="other") as other:
        first, second = Load(ledger, "a", x=pa.int32()), Load(other, "bb", x=pa.int32())
        for load in (first, second):
            load.prepare()
            load.stage()
        waiting = []

        def slowly(session: Ledger) -> Written:
            written = first.insert(session)
            thread = threading.Thread(target=lambda: waiting.append(second.publish()))
            thread.start()
            wait_for_a_lock(ledger_url)
            waiting.append(thread)
            return written

        first.publish(slowly)
        waiting.pop(0).join(60)
    assert (waiting, there(ledger), events(ledger)) == ([None], ["x"], [("a", "x")])
    assert query(ledger, "SELECT count(*)::int FROM ads.output") == [(10,)]


def test_a_column_that_another_batch_adds_with_another_type_refuses_this_one(ledger, ledger_url, table):
    first, second = Load(ledger, "a", x=pa.date32()), Load(ledger, "bb", x=pa.int32())
    for load in (first, second):
        load.prepare()
        load.stage()
    first.publish()
    with pytest.raises(RetryableError, match=FOUR_BYTES):
        second.publish()
    assert query(ledger, "SELECT count(*)::int FROM ads.output") == [(5,)]
    with pytest.raises(FatalError, match="x date: cannot hold Arrow type int32"):
        second.prepare()


@pytest.mark.parametrize(
    "alter", ["ALTER COLUMN x TYPE date USING NULL", "DROP COLUMN x, ADD COLUMN x date", "DROP COLUMN x"]
)
def test_no_bytes_of_an_integer_become_a_date_where_a_table_is_altered_before_rows_are_staged(ledger, table, alter):
    """COPY in binary form takes any four bytes for a date."""
    execute(ledger, "ALTER TABLE ads.output ADD COLUMN x integer")
    load = Load(ledger, "a", x=pa.int32())
    load.prepare()
    execute(ledger, f"ALTER TABLE ads.output {alter}")
    with pytest.raises(RetryableError, match=r"ads\.output was altered since the attempt has looked at it"):
        load.stage()
    assert query(ledger, f"SELECT tablename FROM pg_tables WHERE schemaname = '{STAGING_SCHEMA}'") == []


def test_a_column_that_is_added_by_hand_before_rows_are_staged_is_used(ledger, table):
    load = Load(ledger, "a", x=pa.int32())
    load.prepare()
    execute(ledger, "ALTER TABLE ads.output ADD COLUMN x integer")
    load.stage()
    load.publish()
    assert (there(ledger), events(ledger)) == (["x"], [])


def test_a_table_that_is_being_read_makes_the_batch_wait_and_then_fail_retryably(ledger, ledger_url, table):
    load = Load(ledger, "a", x=pa.int32())
    load.prepare()
    load.stage()
    reader = psycopg2.connect(ledger_url)
    with suppress(psycopg2.Error), reader.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM ads.output")
    execute(ledger, "SET lock_timeout = '200ms'")
    with pytest.raises(RetryableError):
        load.publish()
    reader.close()
    assert (there(ledger), events(ledger)) == ([], [])
    load.publish()
    assert there(ledger) == ["x"]


def test_a_role_that_does_not_own_the_table_is_refused_before_anything_is_read(ledger, table):
    load = Load(ledger, "a", x=pa.int32())
    with ledger.connection.cursor() as cursor:
        cursor.execute("SET LOCAL ROLE pg_read_all_data")
        found = target_table.described(ledger, load.pipeline)
    ledger.connection.rollback()
    assert not found.is_owned


def test_a_table_that_takes_no_further_column_refuses_the_batch_as_a_whole(ledger):
    columns = TABLE.partition("output (")[2].partition(", PRIMARY")[0]
    execute(ledger, f"CREATE SCHEMA ads; CREATE TYPE ads.row AS ({columns})")
    execute(ledger, "CREATE TABLE ads.output OF ads.row (PRIMARY KEY (kafka_topic_id, kafka_partition, kafka_offset))")
    load = Load(ledger, "a", x=pa.int32())
    load.prepare()
    load.stage()
    with pytest.raises(
        FatalError, match=r"ads\.output does not take the column x integer: cannot add column to typed table"
    ):
        load.publish()
    assert (there(ledger), events(ledger)) == ([], [])
