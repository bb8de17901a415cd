"""Topics, pipelines, tables and columns with every name that their systems allow: permitted names work, others are refused with a clear message."""

import json
from dataclasses import replace

import pytest
from confluent_kafka import KafkaException
from psycopg2.sql import SQL, Identifier

import records
from given_topics import topics
from servers.cli_process import Cli
from tideline import flow
from tideline.domain.offsets import OffsetRange
from tideline.domain.requests import KeptRejects, NamedRange, OneBatch
from tideline.errors import FatalError
from tideline.kafka.broker import Broker

pytestmark = pytest.mark.usefixtures("canary")

COLUMNS = (
    *("user", "order", "select", "table", "null", "true", "group", "constraint", "value", "oid"),
    *("%", "50%", "%s", "%(id)s", "%%", "{}", "{0}", "{{ params }}", "$1", "?", ":name"),
    *(
        'a"b',
        "a'b",
        "a`b",
        "a\\b",
        "a b",
        " a ",
        "a.b",
        "a:b",
        "a,b",
        "a;b",
        "a(b)",
        "a[0]",
        "a/b",
        "-",
        "--",
        "/*",
        "#",
    ),
    *(
        "'; DROP TABLE ads.canary; --",
        '"; DROP TABLE ads.canary; --',
        "a\nb",
        "a\tb",
        "\x1b[31m",
        "\u2028",
        "\u202e",
        "é",
        "日本",
        "İ",
    ),
    *("ID", "Id", "x" * 63, "é" * 31, "0", "1a", "kafka_", "tideline", "item", "step", "__proto__"),
)
TABLE = """
    id bigint NOT NULL,
    {columns},
    kafka_topic_id uuid, kafka_partition integer, kafka_offset bigint, tideline_batch bigint,
    PRIMARY KEY (kafka_topic_id, kafka_partition, kafka_offset)
"""


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def target(table: str, *columns: str) -> str:
    schema, name = (quoted(part) for part in table.split("."))
    return f"CREATE SCHEMA IF NOT EXISTS {schema};\nCREATE TABLE {schema}.{name} ({TABLE.format(columns=', '.join(columns))});"


def shell(loading) -> Cli:
    """Return the command line over the pipelines of `loading`."""
    variables = {"TIDELINE_LEDGER_URL": loading.url, "TIDELINE_KAFKA": loading.bootstrap, "TIDELINE_ACTOR": "cli ada"}
    return Cli(folder=loading.folder.parent, variables=variables)


def test_columns_of_every_name_are_loaded_rejected_replayed_and_driven_again(loading):
    """The text fields violate a CHECK at 99, and those that are numbers are not text."""
    kinds = {name: ("int", "string")[number % 2] for number, name in enumerate(COLUMNS)}
    good = [{"id": n, **{name: n if kind == "int" else f"v{n}" for name, kind in kinds.items()}} for n in (1, 2)]
    undecoded = [{"id": 3, name: "x" if kind == "int" else 5} for name, kind in kinds.items()]
    unstored = [{"id": 4, name: 99} for name, kind in kinds.items() if kind == "int"]
    topic = records.create(loading.bootstrap)
    records.produce(loading.bootstrap, topic, map(json.dumps, [*good, *undecoded, *unstored]))
    columns = [
        f"{quoted(name)} text" if kind == "string" else f"{quoted(name)} integer CHECK ({quoted(name)} <> 99)"
        for name, kind in kinds.items()
    ]
    declared = {"id": "bigint", **kinds}
    loading.declare(topic, columns=declared, target=target("ads.output", *columns), fail_above=1.0)
    loads = loading.run()
    names = ", ".join(quoted(name).replace("%", "%%") for name in ("id", *kinds))
    query = f"SELECT {names} FROM ads.output ORDER BY kafka_offset"

    def holds():
        assert [dict(zip(["id", *kinds], row, strict=True)) for row in loading.rows(query)] == good
        rejects = [reject for _, reject in sorted(loading.rejects().items())]
        assert [json.loads(value) for _, _, value in rejects] == [*undecoded, *unstored]
        assert [step for step, _, _ in rejects] == ["decode"] * len(undecoded) + ["store"] * len(unstored)
        assert all(reason.isprintable() for _, reason, _ in rejects)

    holds()
    loading.run(OneBatch(batch_id=loads[0], replace=True), reason="because")
    holds()
    loading.run(KeptRejects(), reason="because")
    holds()


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("x" * 64, "missing in the table"),  # Postgres truncates it
        ("a\0b", "missing in the table"),
        ("kafka_offset", "specified more than once"),
        ("tideline_stream", "filled by the sink"),
        ("ctid", "conflicts with a system column"),
        ("", "expected column names"),
        ("kafka", "expected another column name than kafka"),
    ],
)
def test_a_column_that_cannot_be_is_refused_in_words(loading, name, problem):
    topic = records.create(loading.bootstrap)
    records.produce(loading.bootstrap, topic, ['{"id": 1}'])
    column = f"{quoted(name)} integer" if name and "\0" not in name else "c integer"
    loading.declare(topic, columns={"id": "bigint", name: "int"}, target=target("ads.output", column))
    with pytest.raises(FatalError, match=problem):
        loading.run()


@pytest.mark.parametrize("table", ["select.user", "_.a" + "b" * 62])
def test_tables_of_reserved_names_are_loaded_replayed_and_looked_at(loading, table):
    topic = records.create(loading.bootstrap)
    sent = records.produce(loading.bootstrap, topic, (json.dumps({"id": n, "s": "a"}) for n in range(5)))
    loading.declare(topic, columns={"id": "bigint", "s": "string"}, target=target(table, "s text"), table=table)
    (loaded,) = loading.run()
    loading.run(OneBatch(batch_id=loaded, replace=True), reason="because")
    count = SQL("SELECT count(*)::int FROM {}").format(Identifier(*table.split(".")))
    assert loading.rows(count) == [(len(sent),)]
    (check,) = (row for row in shell(loading).json("doctor", loading.folder.name)["checks"] if row["check"] == "output")
    assert check["verdict"] == "ok", check


@pytest.mark.parametrize(
    "table",
    [
        "ads.Output",
        'ads."output"',
        "ads.a-b",
        "ads.a b",
        "output",
        "a.b.c",
        "ads.é",
        "ads." + "b" * 64,
        "ads.;drop",
        "%s.{}",
    ],
)
def test_tables_of_other_names_are_refused(loading, table):
    loading.declare("topic", table=table)
    with pytest.raises(FatalError, match=r"sink\.table: expected schema\.table in lower case"):
        assert loading.pipeline


@pytest.mark.parametrize("item", ["Item", "a b", 'a"b', "%s", "{}", "x" * 64, ""])
def test_items_of_other_names_are_refused(loading, item):
    loading.declare("topic")
    declared = json.loads((loading.folder / "pipeline.yaml").read_text())
    declared["sink"]["item"] = item
    (loading.folder / "pipeline.yaml").write_text(json.dumps(declared))
    with pytest.raises(FatalError, match=r"sink\.item: expected a column name in lower case"):
        assert loading.pipeline


@pytest.mark.parametrize("item", ["select", "order", "x" * 63])
def test_items_of_reserved_names_tell_rows_apart(loading, item):
    topic = records.create(loading.bootstrap)
    records.produce(loading.bootstrap, topic, [json.dumps({"id": 7, "s": "a"})])
    text = f"""\
        import pyarrow as pa

        def records(batch):
            rows = [batch.append_column({item!r}, pa.array([n] * len(batch), pa.int32())) for n in (0, 1)]
            return pa.concat_tables(rows)
        """
    table = target("ads.output", "s text", f"{quoted(item)} integer").replace(
        "kafka_offset)", f"kafka_offset, {quoted(item)})"
    )
    columns = {"id": "bigint", "s": "string"}
    loading.declare(topic, columns=columns, target=table, transform=text, item=item)
    loading.run()
    assert loading.rows(SQL("SELECT id, {} FROM ads.output ORDER BY 2").format(Identifier(item))) == [(7, 0), (7, 1)]


LEGAL_TOPICS = ["a.b", "a-b", "A.b", "_", "-", "...", "0", "a.b_c-D9", "t" * 249]


def test_topics_of_every_legal_name_are_loaded_skipped_and_looked_at(loading, admin):
    for name in LEGAL_TOPICS:
        topics.created(admin, name)
        records.produce(loading.bootstrap, name, map(records.record, range(5)))
    loading.declare("", topics=LEGAL_TOPICS)
    cli = shell(loading)
    loading.plan("manual__1")
    with loading.ledger() as ledger:
        for name in LEGAL_TOPICS[:-1]:
            piece = NamedRange.parse(f"{name}/0 [0, 1)")
            assert piece == NamedRange(name, 0, OffsetRange(0, 1))
            flow.skip(ledger, Broker(loading.pipeline.source), loading.pipeline, piece, reason="because")
    assert "skipped" in cli("skip", loading.folder.name, f"{LEGAL_TOPICS[-1]}/0 [0, 1)", "--reason", "because").stdout
    loading.run()
    assert loading.rows("SELECT topic, next_offset FROM tideline.stream ORDER BY topic") == sorted(
        (n, 5) for n in LEGAL_TOPICS
    )
    assert loading.published() == 4 * len(LEGAL_TOPICS)
    document = cli.json("coverage", loading.folder.name)
    assert sorted(hole["topic"] for hole in document["holes"]) == sorted(LEGAL_TOPICS)
    assert [line.split()[0] for line in cli("streams", loading.folder.name).stdout.splitlines()[1:]] == sorted(
        LEGAL_TOPICS
    )


def test_a_topic_that_differs_from_another_by_a_dot_alone_is_the_brokers_to_refuse(admin):
    topics.created(admin, "dot.or_dash")
    with pytest.raises(KafkaException, match="collides"):
        topics.created(admin, "dot_or.dash")


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "a/b", "a\nb", "é", "'; --", "a" * 250, "%s", "{}", "*"])
def test_topics_of_other_names_are_refused(loading, name):
    loading.declare(name)
    with pytest.raises(FatalError, match="Kafka topic names"):
        assert loading.pipeline


def test_a_pipeline_of_the_longest_name_is_loaded_and_looked_at(loading):
    loading = replace(loading, folder=loading.folder.parent / ("p" + "_9" * 31))
    topic = records.create(loading.bootstrap)
    records.produce(loading.bootstrap, topic, map(records.record, range(5)))
    loading.declare(topic)
    loading.run()
    with loading.ledger() as ledger:
        flow.show_heads(ledger, Broker(loading.pipeline.source), loading.pipeline.name)
    (row,) = shell(loading).json("pipelines")["pipelines"]
    assert (row["pipeline"], row["state"], row["lag"]) == (loading.folder.name, "ok", 0)


REFUSED_PIPELINES = [
    "A",
    "1a",
    "a-b",
    "a b",
    "a'b",
    'a"b',
    "a\nb",
    "a\x1b[31m",
    "é",
    "%s",
    "{}",
    "p" * 64,
    "replay",
    "upkeep",
    "self",
]


def test_pipelines_with_illegal_names_are_listed_as_broken_and_shown_escaped(cli):
    for name in REFUSED_PIPELINES:
        cli.declare(name, "topic")
    shown = cli("pipelines")
    assert all(char.isprintable() or char == "\n" for char in shown.stdout + shown.stderr)
    states = {row["pipeline"]: row["state"] for row in cli.json("pipelines")["pipelines"]}
    assert {states[name] for name in REFUSED_PIPELINES} == {"broken declaration"}
    assert cli.error("streams", "a\nb", code=20)["entry"] == "declaration"
