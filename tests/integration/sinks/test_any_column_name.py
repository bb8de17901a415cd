"""A column may have any name, also one that a statement of the sinks gives to a column, a table or a variable of its own.

The names are all words of the sinks' SQL files, and all words that the Spark job's modules have as texts. Each test loads rows
that are accepted and rows that are refused, and compares the output with what was sent.
"""

import ast
import json
import re

from psycopg2.sql import SQL, Identifier

import records
from given_topics.output_topics import committed_records
from loads.kafka_loading import loading_of, output_of
from loads.lake_tables import into_lake, lake_query
from loads.loading import Loading
from tideline.domain.requests import KeptRejects, OneBatch
from tideline.settings import PROJECT
from tideline.sinks.delta.delta_table import PLACEHOLDER
from tideline.sinks.postgres.fitting import FILLED

_WORD = re.compile(r"\b[a-z_][a-z0-9_]{0,62}\b")
_FOLDERS = ("spark_jobs", "include/tideline/records", "include/tideline/sinks", "include/tideline/state")
_OF_POSTGRES = {"tableoid", "xmin", "cmin", "xmax", "cmax", "ctid"}


def _words() -> set[str]:
    found: set[str] = set()
    files = [file for folder in _FOLDERS for file in (PROJECT / folder).rglob("*")]
    for file in (file for file in files if file.suffix == ".sql"):
        found |= {*_WORD.findall(re.sub("--.*", "", file.read_text()))}
    for file in (file for file in files if file.suffix == ".py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and _WORD.fullmatch(node.value):
                found.add(node.value)
    return found - {*FILLED, *_OF_POSTGRES, PLACEHOLDER, "kafka"}


OF_STATEMENTS = (
    *(
        "reason",
        "number",
        "state",
        "n_rows",
        "n_up_to",
        "there_offset",
        "mark_partition",
        "loses_to_row",
        "loses_to_mark",
    ),
    *(
        "tideline_incarnation",
        "incarnation",
        "stream_id",
        "batch_id",
        "offsets",
        "kafka_topic",
        "column_0",
        "low",
        "found",
    ),
)
"""Names that the statements of an upsert and of a trial use. They are the key of an upsert here."""
OTHERS = ("tideline_deletes", "tideline_key", "records", "law", "most", "s", "t", "n", "excluded")
BAD = 666
"""The value that the table refuses."""
_FIRST = [*OF_STATEMENTS, *OTHERS]
WORDS = sorted(_words() | {*_FIRST, "header_0"})


ORDER = [*_FIRST, *sorted({*WORDS} - {*_FIRST})]
"""The first are the keys of an upsert, or its order and then its key; the others are its values."""
BACKWARDS = ORDER[::-1]


def _quoted(name: str) -> str:
    return f'"{name}"'


def _table(columns: list[str], key: list[str], table: str) -> str:
    """Return target.sql. A trigger refuses `BAD` in the last column, so that only the table itself can tell."""
    given = "".join(f"{_quoted(name)} integer NOT NULL, " for name in columns)
    return f"""
        CREATE SCHEMA IF NOT EXISTS ads;
        CREATE TABLE {table} ({given} kafka_topic_id uuid NOT NULL, kafka_partition integer NOT NULL, kafka_offset bigint NOT NULL,
            tideline_batch bigint NOT NULL, PRIMARY KEY ({", ".join(map(_quoted, key))}));
        CREATE FUNCTION {table}_refuses() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            IF NEW.{_quoted(columns[-1])} = {BAD} THEN RAISE 'no {BAD}'; END IF; RETURN NEW; END $$;
        CREATE TRIGGER refuses BEFORE INSERT OR UPDATE ON {table} FOR EACH ROW EXECUTE FUNCTION {table}_refuses();
    """


def _held(loading: Loading, table: str, columns: list[str]) -> list[dict[str, int]]:
    names = SQL(", ").join(map(Identifier, columns))
    found = loading.rows(SQL("SELECT {} FROM {} ORDER BY kafka_offset").format(names, SQL(table)))
    return [dict(zip(columns, row, strict=True)) for row in found]


def test_an_upsert_keeps_the_newest_accepted_record_of_each_key(loading):
    order = ORDER
    key, values = order[: len(OF_STATEMENTS)], order[len(OF_STATEMENTS) :]

    def sent(of_key: int, value: int | None) -> tuple[bytes, str | None]:
        k = json.dumps({**dict.fromkeys(key, 0), key[0]: of_key}).encode()
        return k, None if value is None else json.dumps({**dict.fromkeys(values, 0), values[-1]: value})

    events = [
        sent(*one) for one in [(1, 1), (2, BAD), (3, 3), (1, 4), (4, 5), (3, None), (5, 6), (5, BAD), (6, BAD), (6, 7)]
    ]
    topic = records.create(loading.bootstrap)
    records.produce(loading.bootstrap, topic, [value for _, value in events], keys=[k for k, _ in events])
    loading.declare(
        topic,
        columns=dict.fromkeys(values, "int"),
        key={"format": "json", "columns": dict.fromkeys(key, "int")},
        tombstones="delete",
        sink={"mode": "upsert", "key": key},
        target=_table(order, key, "ads.output"),
        fail_above=1.0,
    )
    (batch_id,) = loading.run()

    def holds() -> None:
        assert [(row[key[0]], row[values[-1]]) for row in _held(loading, "ads.output", order)] == [
            (1, 4),
            (4, 5),
            (5, 6),
            (6, 7),
        ]
        assert {offset: step for (_, offset), (step, _, _) in loading.rejects().items()} == {1: "store", 7: "store"}

    holds()
    loading.run(OneBatch(batch_id=batch_id, replace=True))
    holds()
    loading.run(KeptRejects())
    holds()


def test_an_order_of_any_name_decides(loading):
    order = ORDER
    key, ranks, values = order[12:15], order[:12], order[15:]

    def sent(of_key: int, rank: int, value: int) -> str:
        return json.dumps({**dict.fromkeys(order, 0), key[0]: of_key, ranks[0]: rank, values[-1]: value})

    topic = records.create(loading.bootstrap)
    events = [(1, 5, 1), (1, 4, 2), (2, 1, 3), (2, 2, BAD), (3, 9, BAD), (3, 1, 4), (4, 1, BAD)]
    records.produce(loading.bootstrap, topic, [sent(*one) for one in events])
    loading.declare(
        topic,
        columns=dict.fromkeys(order, "int"),
        sink={"mode": "upsert", "key": key, "order": ranks},
        target=_table(order, key, "ads.output"),
        fail_above=1.0,
    )
    loading.run()
    found = {row[key[0]]: (row[ranks[0]], row[values[-1]]) for row in _held(loading, "ads.output", order)}
    assert found == {1: (5, 1), 2: (1, 3), 3: (1, 4)}
    assert sorted(offset for _, offset in loading.rejects()) == [3, 4, 6]


def test_an_append_loads_accepted_rows_of_any_columns_and_rejects_the_others(loading):
    """NOT NULLs refuse in staging (the sieve, with more than eight rows), and the trigger in the table."""
    order = BACKWARDS
    item = order[0]
    good = [{**dict.fromkeys(order, 0), order[-1]: n} for n in range(20)]
    null = [{name: None if name == order[1] else value for name, value in row.items()} for row in good[:10]]
    bad = [{**good[0], order[-1]: BAD}]
    topic = records.create(loading.bootstrap)
    sent = [*good[:10], *null, *bad, *good[10:]]
    records.produce(loading.bootstrap, topic, map(json.dumps, sent))
    coordinates = ["kafka_topic_id", "kafka_partition", "kafka_offset"]
    loading.declare(
        topic,
        columns=dict.fromkeys(order, "int"),
        item=item,
        target=_table(order, [*coordinates, item], "ads.output"),
        fail_above=1.0,
    )
    (batch_id,) = loading.run()

    def holds() -> None:
        assert _held(loading, "ads.output", order) == good
        assert sorted(json.loads(value)[order[-1]] for _, _, value in loading.rejects().values()) == [*range(10), BAD]
        assert {step for step, _, _ in loading.rejects().values()} == {"store"}

    holds()
    loading.run(OneBatch(batch_id=batch_id, replace=True))
    holds()
    loading.run(KeptRejects())
    holds()


def test_a_processor_folds_records_and_returns_rows_of_any_columns(loading):
    order = BACKWARDS
    key, rest = order[0], order[1:]
    text = f"""
        from tideline.processors import Processor

        NAMES = {[*order]!r}


        class Sums(Processor):
            rows = dict.fromkeys(NAMES, "bigint")

            def on_record(self, key, record, state):
                if record[NAMES[-1]] == 13:
                    raise ValueError("13 is unlucky")
                value = state.value or dict.fromkeys(NAMES[1:], 0)
                state.value = {{name: value[name] + record[name] for name in NAMES[1:]}}
                return [{{NAMES[0]: record[NAMES[0]], **state.value}}]


        processor = Sums()
        """
    topic = records.create(loading.bootstrap)
    events = [(1, 1), (2, 2), (1, 3), (1, 13), (2, 4)]
    records.produce(
        loading.bootstrap, topic, [json.dumps({**dict.fromkeys(order, 1), key: k, rest[-1]: v}) for k, v in events]
    )
    loading.declare(
        topic,
        columns=dict.fromkeys(order, "bigint"),
        transform=text,
        state={"key": key, "columns": dict.fromkeys(rest, "bigint")},
        target=_table(order, ["kafka_topic_id", "kafka_partition", "kafka_offset"], "ads.output").replace(
            "integer NOT NULL", "bigint NOT NULL"
        ),
        fail_above=1.0,
    )
    loading.run()
    found = [(row[key], row[rest[0]], row[rest[-1]]) for row in _held(loading, "ads.output", order)]
    assert found == [(1, 1, 1), (2, 1, 2), (1, 2, 4), (2, 2, 6)]
    assert [offset for _, offset in loading.rejects()] == [3]


def test_a_topic_has_records_with_any_fields_keys_and_headers(loading, admin):
    made = loading_of(loading)
    topic = records.create(loading.bootstrap)
    out = output_of(admin, topic)
    headers = ["header_0", "value", "item"]
    good = {name: number for number, name in enumerate(WORDS)}
    twice = [{**good, "item_order": item} for item in (1, 2)]
    text = """
        import pyarrow as pa

        def records(batch):
            other = pa.array([2] * len(batch), pa.int32())
            place = batch.column_names.index("item_order")
            return pa.concat_tables([batch, batch.set_column(place, "item_order", other)])
        """
    records.produce(loading.bootstrap, topic, [json.dumps({**good, "item_order": 1}), '{"n_rows": "x"}'])
    value = {"format": "json", "columns": dict.fromkeys(WORDS, "int")}
    made.declare_topic(topic, out, value=value, key=_FIRST, headers=headers, item="item_order", transform=text)
    made.run()
    sent = [{name: one for name, one in row.items() if name not in {*_FIRST, *headers}} for row in twice]
    assert [(json.loads(key), value) for key, value in made.sent(out)] == [
        ({name: good[name] for name in _FIRST}, row) for row in sent
    ]
    found = [dict(one.headers()) for one in committed_records(loading.bootstrap, out)]
    assert [{name: one[name] for name in headers} for one in found] == [{n: str(good[n]).encode() for n in headers}] * 2
    assert [offset for _, offset in loading.rejects()] == [1]


def test_a_lake_has_any_columns(loading, lake):
    topic = records.create(loading.bootstrap)
    good = [dict.fromkeys(WORDS, n) for n in range(3)]
    records.produce(loading.bootstrap, topic, map(json.dumps, [*good, {**good[0], "state": "x"}]))
    loading.declare(topic, columns=dict.fromkeys(WORDS, "int"), fail_above=1.0)
    into_lake(loading, lake, partition_by=["state", "reason"])
    loading.run()
    names = ", ".join(map(_quoted, WORDS))
    assert [
        dict(zip(WORDS, row, strict=True))
        for row in lake_query(loading, f"SELECT {names} FROM lake ORDER BY kafka_offset")
    ] == good
    assert [offset for _, offset in loading.rejects()] == [3]
