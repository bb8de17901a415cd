"""A table of Postgres through a real Debezium: killed, sent again, replayed in any order, the target ends as the source, row by row."""

from random import Random

import psycopg2
import pytest
from psycopg2.extras import Json

from tideline.authoring.survey import survey
from tideline.declaration import pipelines
from tideline.domain.requests import OneBatch
from tideline.kafka.newest_records import newest_of
from tideline_stack.connect import Connect
from tideline_stack.postgres import Postgres

PARTITIONS = 2
SOURCE = """\
CREATE TABLE customers (
    id bigint PRIMARY KEY, name text NOT NULL, balance numeric(12, 2), born date, changed_at timestamptz, seen timestamp(3), lunch time,
    tags text[], about jsonb, free numeric, active boolean, note text
);
"""
TARGET = """\
CREATE SCHEMA IF NOT EXISTS ads;
CREATE TABLE ads.output (
    id bigint PRIMARY KEY, name text NOT NULL, balance numeric(12, 2), born date, changed_at timestamptz, seen timestamptz, lunch time,
    tags text[], about jsonb, free numeric(20, 5), active boolean, note text,
    source_lsn bigint NOT NULL, kafka_topic_id uuid NOT NULL, kafka_partition integer NOT NULL, kafka_offset bigint NOT NULL,
    tideline_batch bigint NOT NULL
);
"""
NAMES = ("id", "name", "balance", "born", "changed_at", "seen", "lunch", "tags", "about", "free", "active", "note")
COLUMNS = {
    "name": "string",
    "balance": "decimal(12,2)",
    "born": "date",
    "changed_at": "timestamp",
    "seen": "timestamp",
    "lunch": "string",
    "tags": "array<string>",
    "about": "json",
    "free": "decimal(20,5)",
    "active": "boolean",
    "note": "string",
}
LAST = range(-8, 0)
"""The keys of rows by which it is seen that everything before them has been sent: there are some of each partition."""


class Customers:
    """The table in the source database."""

    def __init__(self, url, rng):
        self.url = url
        self._rng = rng
        self._connection = psycopg2.connect(url)
        self._connection.autocommit = True

    def run(self, text, *given):
        with self._connection.cursor() as cursor:
            cursor.execute(text, given)
            return cursor.fetchall() if cursor.description else []

    def close(self):
        self._connection.close()

    def _row(self):
        rng = self._rng
        return (
            f"name {rng.randrange(1000)}",
            rng.choice([None, rng.randrange(-(10**9), 10**9) / 100]),
            rng.choice([None, "0001-01-01", "1969-12-31", "9999-12-31"]),
            rng.choice([None, "2026-03-29T01:30:00.123456Z", "1960-01-01T00:00:00Z"]),
            rng.choice([None, "2026-03-29 02:30:00.123", "1960-01-01 00:00:00"]),
            rng.choice([None, "00:00", "23:59:59.999999"]),
            rng.choice([None, [], ["a", None, 'b"c,']]),
            rng.choice([None, Json({"a": [1.5, None, "x"]}), Json("text")]),
            rng.choice([None, "12.5", "-0.00001", "100"]),
            rng.choice([None, True, False]),
            rng.choice(["", "short", "é" * 100]),
        )

    def change(self, count):
        """Insert, update and delete rows, and change their keys, each in a transaction of its own or several at once."""
        columns = ", ".join(NAMES[1:])
        for _ in range(count):
            key = self._rng.randrange(8)
            match self._rng.randrange(10):
                case 0 | 1:
                    self.run("DELETE FROM customers WHERE id = %s", key)
                case 2:
                    self.run(
                        "UPDATE customers SET id = id + 8 WHERE id = %s AND NOT EXISTS (SELECT FROM customers WHERE id = %s)",
                        key,
                        key + 8,
                    )
                case 3:
                    self.run(
                        "BEGIN; UPDATE customers SET name = name || '!' WHERE id < %s; DELETE FROM customers WHERE id > 12; COMMIT",
                        key,
                    )
                case _:
                    values = self._row()
                    self.run(
                        f"INSERT INTO customers (id, {columns}) VALUES (%s, {', '.join(['%s'] * len(values))}) ON CONFLICT (id) DO UPDATE "
                        f"SET ({columns}) = ROW ({', '.join(f'excluded.{name}' for name in NAMES[1:])})",
                        key,
                        *values,
                    )


def rows(run, table):
    """Return the rows of a table as both databases say them; a timestamp without a zone is one in UTC."""
    seen = "seen::text::timestamp" if table == "customers" else "seen AT TIME ZONE 'UTC'"
    others = "id, name, balance, born, changed_at, lunch, tags, about, free::numeric(20, 5), active, note"
    return run(f"SELECT {others}, {seen} FROM {table} ORDER BY id")


@pytest.fixture(scope="module")
def source_server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("source")
    folder.chmod(0o755)  # Postgres runs as another user where this runs as root
    server = Postgres(folder / "postgres", settings={"wal_level": "logical", "shared_buffers": "32MB"})
    server.start()
    yield server
    server.stop()


def test_the_target_ends_as_the_source_whatever_dies_and_is_replayed(loading, source_server, tmp_path):
    rng = Random(11)
    source_server.ensure_database("shop")
    customers = Customers(source_server.url("shop"), rng)
    customers.run(SOURCE)
    customers.change(20)
    connect = Connect(
        folder=tmp_path / f"shop_{tmp_path.name[-1]}",
        bootstrap=loading.bootstrap,
        url=customers.url,
        table="public.customers",
        partitions=PARTITIONS,
    )
    loading.declare(
        connect.topic,
        target=TARGET,
        batch_records=20,
        sink={"mode": "upsert", "key": ["id"], "order": ["source_lsn"]},
        key={"format": "debezium", "columns": {"id": "bigint"}},
        value={"format": "debezium", "columns": COLUMNS, "envelope": {"source.lsn": "bigint"}},
        tombstones="delete",
    )
    connect.start()
    try:
        for number in range(4):
            for key in LAST:
                customers.run(
                    "INSERT INTO customers (id, name, note) VALUES (%s, %s, '') ON CONFLICT (id) DO UPDATE SET name = excluded.name",
                    key,
                    f"sent {number}",
                )
            connect.wait_for(f'"sent {number}"'.encode(), n_keys=len(LAST), seconds=120)
            loading.run()
            assert loading.rejects() == {}
            assert rows(loading.rows, "ads.output") == rows(customers.run, "customers"), number
            if number == 1:  # what it has sent since it saved its place, it sends again
                connect.wait_for_saved_place(seconds=120)
                connect.kill()
                customers.change(15)
                connect.start()
            customers.change(25)
    finally:
        connect.kill()
        customers.close()
    seen = survey(connect.topic, newest_of(pipelines.load(loading.folder).source, 1000))
    assert {field.name: str(field.kind) for field in seen.changes.key} == {"id": "bigint"}
    assert {field.name: str(field.kind) for field in seen.fields} == COLUMNS | {"free": "string"}  # of any precision
    assert (seen.changes.order, [one for one in seen.doubts if "cannot be decoded" in one.seen]) == (
        {"source.lsn": "bigint"},
        [],
    )
    batches = [row[0] for row in loading.rows("SELECT batch_id FROM tideline.batch WHERE kind = 'live'")]
    before = rows(loading.rows, "ads.output")
    for batch_id in rng.sample(batches, min(4, len(batches))):
        loading.run(OneBatch(batch_id=batch_id, replace=True), reason="again")
        assert rows(loading.rows, "ads.output") == before
