"""The target table: created once from target.sql, and compared with the transform's output before anything is read."""

import json

import pytest

import records
from loads.loading import TARGET, Loading
from servers.concurrency import together
from tideline.errors import FatalError

pytestmark = pytest.mark.topic(records=10)

COORDINATES = """\
    kafka_topic_id uuid,
    kafka_partition integer,
    kafka_offset bigint,
    tideline_batch bigint NOT NULL,
"""
KEY = "PRIMARY KEY (kafka_topic_id, kafka_partition, kafka_offset)"


def target(columns: str, key: str = KEY, coordinates: str = COORDINATES) -> str:
    return f"CREATE SCHEMA IF NOT EXISTS ads;\nCREATE TABLE ads.output ({columns}, {coordinates} {key});"


def test_a_table_that_is_there_is_used_as_it_is(loading, topic):
    loading.execute(TARGET)
    loading.declare(topic, target="nonsense")
    loading.run()
    assert loading.published() == 10


def test_two_first_batches_create_the_tables_and_their_schema_once(loading, topic, tmp_path):
    """Two pipelines, two tables, one new schema, twice each; target.sql is slow, so that all of them overlap."""
    slow = TARGET + "SELECT pg_sleep(1);"
    other = Loading(folder=tmp_path / "others", bootstrap=loading.bootstrap, url=loading.url, spark=loading.spark)
    loading.declare(topic, batch_records=5, target=slow)
    other.declare(topic, batch_records=5, target=slow.replace("ads.output", "ads.other"))
    declaration = other.folder / "pipeline.yaml"
    declaration.write_text(declaration.read_text().replace("ads.output", "ads.other"))
    first, second = loading.plan("one")
    third, fourth = other.plan("one")
    together(
        lambda: loading.write("one", [first]),
        lambda: loading.write("one", [second]),
        lambda: other.write("one", [third]),
        lambda: other.write("one", [fourth]),
    )
    assert (loading.published(), loading.rows("SELECT count(*)::int FROM ads.other")) == (10, [(10,)])


GOOD = "id bigint, name text, price numeric(12, 4)"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (target("id bigint, price numeric(12, 4)"), "name: missing in the table"),
        (target(GOOD + ", added integer NOT NULL"), "added: NOT NULL, but not produced"),
        (target("id text, name text, price numeric(12, 4)"), "id text: cannot hold Arrow type int64"),
        (target("id bigint, name integer, price numeric(12, 4)"), "name integer: cannot hold Arrow type string"),
        (
            target("id bigint, name point, price numeric(12, 4)"),
            "name point: type point is not supported; supported: boolean",
        ),
        (
            target("id bigint, name text, price money"),
            "price money: type money is not supported; its digits depend on the server's lc_monetary; use numeric",
        ),
        (target("id numeric(5, -2), name text, price numeric"), "id numeric: a negative scale is not supported"),
        (target(GOOD, "PRIMARY KEY (id)", ""), "kafka_topic_id: missing in the table; kafka_partition: missing"),
        (
            target(GOOD, "CHECK (true)"),
            "no primary or unique key on exactly (kafka_topic_id, kafka_partition, kafka_offset)",
        ),
        (
            target(GOOD, f"{KEY[:-1]}, id)"),
            "no primary or unique key on exactly (kafka_topic_id, kafka_partition, kafka_offset)",
        ),
        (
            target("id text, added integer NOT NULL"),
            "name: missing in the table; price: missing in the table; added: NOT NULL",
        ),
        (target("id bigint, nme text"), "name: missing in the table"),
        ("CREATE TABLE ads.output (;", "target.sql failed: "),
        ("CREATE TABLE nowhere.output (id bigint);", 'target.sql failed: schema "nowhere" does not exist'),
        ("CREATE SCHEMA ads; CREATE TABLE ads.outputs (id bigint);", "there is no table ads.output"),
        ("SELECT 1 / 0", "target.sql failed: division by zero"),
    ],
)
def test_a_table_that_does_not_fit_is_refused_before_anything_is_read(loading, topic, text, problem):
    loading.declare(topic, target=text)
    assert problem in loading.refusal(FatalError)
    assert (loading.staging_tables(), loading.rows("SELECT * FROM tideline.staged_count")) == ([], [])


def test_an_item_that_is_not_in_the_key_is_refused(loading, topic):
    loading.declare(topic, item="name")
    assert "unique key on exactly (kafka_topic_id, kafka_partition, kafka_offset, name)" in loading.refusal(FatalError)


def test_a_partial_key_is_no_key(loading, topic):
    partial = target(GOOD, "CHECK (true)") + (
        "CREATE UNIQUE INDEX ON ads.output (kafka_topic_id, kafka_partition, kafka_offset) WHERE id > 5;"
    )
    loading.declare(topic, target=partial)
    assert "no primary or unique key" in loading.refusal(FatalError)


def test_columns_that_the_table_fills_are_left_to_it(loading, topic):
    more = """,
        number bigint GENERATED ALWAYS AS IDENTITY,
        doubled bigint GENERATED ALWAYS AS (id * 2) STORED,
        loaded_at timestamptz NOT NULL DEFAULT now(),
        note text"""
    loading.declare(topic, target=target(GOOD + more))
    loading.run()
    rows = loading.rows("SELECT id, doubled, loaded_at IS NULL, note FROM ads.output ORDER BY id")
    assert rows == [(n, 2 * n, False, None) for n in range(10)]
    assert loading.rows("SELECT count(DISTINCT number)::int FROM ads.output") == [(10,)]


def test_hostile_column_names_survive(loading):
    names = [
        'a"quote',
        "100%",
        "%s and %(x)s",
        "Upper",
        "select",
        "task",
        "stream_id",
        "it's",
        "sp ace",
        "ünï",
        "kafka_",
        "{x}",
    ]
    topic = records.create(loading.bootstrap)
    records.produce(loading.bootstrap, topic, [json.dumps({name: n for n, name in enumerate(names)})])
    quoted = ['"' + name.replace('"', '""') + '"' for name in names]
    loading.declare(
        topic,
        columns=dict.fromkeys(names, "int"),
        target=target(", ".join(f"{q} integer CHECK ({q} < 100)" for q in quoted)),
    )
    loading.run()
    assert loading.rejects() == {}
    escaped = ", ".join(quoted).replace("%", "%%")
    assert loading.rows(f"SELECT {escaped} FROM ads.output WHERE 1 = %s", 1) == [tuple(range(len(names)))]


def test_a_partitioned_table_is_a_target(loading, topic):
    text = "CREATE SCHEMA ads; CREATE TABLE ads.output ({}, {} {}) PARTITION BY LIST (kafka_partition); {}".format(
        GOOD, COORDINATES, KEY, "CREATE TABLE ads.output_0 PARTITION OF ads.output FOR VALUES IN (0);"
    )
    loading.declare(topic, target=text)
    loading.run()
    assert loading.published() == 10
