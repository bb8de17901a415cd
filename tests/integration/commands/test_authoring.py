"""The commands for authors on a real broker: a new pipeline from records, and the newest records as they would be loaded."""

import json
from uuid import uuid4

import psycopg2
import pytest
from confluent_kafka import Producer

from given_topics.topics import transaction
from servers.cli_process import Cli
from tideline.authoring.surveyed_fields import SurveyedField
from tideline.authoring.table_columns import RESERVED, table_columns
from tideline.domain.columns import SimpleType

ORDERS = [
    {"orderId": number, "amount": "2.50", "placed_at": "2026-01-31T10:00:00Z", "items": [{"sku": "a"}], "note": None}
    for number in range(30)
]


@pytest.fixture
def shell(tmp_path, broker) -> Cli:
    """Provide the command line with an empty folder of pipelines, and no ledger."""
    return Cli(folder=tmp_path, variables={"TIDELINE_KAFKA": broker.bootstrap})


def send(broker, topic, *values, key=b"k"):
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for value in values:
        producer.produce(topic, value if isinstance(value, bytes | None) else json.dumps(value).encode(), key=key)
    assert producer.flush(20) == 0


def new(shell, topic, *options, name="orders", code=0):
    return shell("new", name, "--topic", topic, "--bootstrap-servers", "env:TIDELINE_KAFKA", *options, code=code)


def test_a_new_pipeline_validates_and_loads_its_records_but_those_it_doubted(shell, broker, topic):
    send(broker, topic, *ORDERS, b"no JSON")
    said = new(shell, topic, "--table", "shop.orders").stdout
    assert "Looked at 31 records" in said
    assert "note: only null. Chosen: left out" in said
    assert "1 of 31 cannot be decoded: not valid JSON" in said
    assert "personal data" in said
    folder = shell.folder / "orders"
    assert {path.name for path in folder.iterdir()} == {
        "pipeline.yaml", "target.sql", "transform.py", "test_orders.py", "sample.jsonl"
    }  # fmt: skip
    assert [path.name for path in shell.folder.iterdir()] == ["orders"]
    shell("validate", "orders")
    tried = shell.json("test", "orders", str(folder / "sample.jsonl"), "--fail-on-rejects")
    assert tried["counts"]["written"] == 5
    sampled = shell.json("sample", "orders", "--count", "31")
    assert sampled["counts"] == {"read": 31, "written": 30, "rejected": 1, "filtered": 0, "rows": 30}
    assert sampled["rows"][0] == {
        "topic": topic, "partition": 0, "offset": 0,
        "row": {"order_id": 0, "amount": "2.50", "placed_at": "2026-01-31T10:00:00Z", "items": '[{"sku": "a"}]'},
    }  # fmt: skip
    assert [(one["offset"], one["step"]) for one in sampled["rejects"]] == [(30, "decode")]


def test_the_document_names_the_doubts(shell, broker, topic):
    send(broker, topic, {"a": 0.5}, {"a": None}, {})
    found = shell.json("new", "orders", "--topic", topic, "--bootstrap-servers", broker.bootstrap, "--no-values")
    assert found["fields"] == [
        {"field": "a", "type": "double", "column": "a", "table_type": "double precision", "null": 1, "missing": 1}
    ]
    assert {"records", "a"} == {doubt["subject"] for doubt in found["unsure"]}
    assert found["sample_is_real"] is False
    assert '"a": 1.5' in (shell.folder / "orders" / "sample.jsonl").read_text()


def test_brokers_and_security_can_be_those_of_another_pipeline(shell, broker, topic):
    send(broker, topic, *ORDERS)
    new(shell, topic, "--security", "protocol=PLAINTEXT")
    shell("new", "again", "--topic", topic, "--like", "orders")
    assert "{env: TIDELINE_KAFKA}" in (shell.folder / "again" / "pipeline.yaml").read_text()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["Orders"], "expected a folder name like"),
        (["replay"], "these are taken"),
        (["there"], "expected no such folder, found one"),
        (["orders", "--table", "orders"], "--table: expected schema.table in lower case"),
        (["orders", "--security", "sasl_password=hush"], "--security sasl_password: expected {env: NAME}"),
        (["orders", "--security", "protocol=SASL_SSL"], "--security: expected sasl_mechanism"),
        (["orders", "--security", "secret=hush"], "--security: unknown key"),
    ],
)
def test_a_wrong_option_is_refused_before_anything_is_asked(tmp_path, arguments, said):
    shell = Cli(folder=tmp_path)
    (tmp_path / "there").mkdir()
    error = shell.error("new", *arguments, "--topic", "orders", "--bootstrap-servers", "127.0.0.1:1", code=20)
    assert said in error["error"]
    assert "hush" not in str(error)
    assert [path.name for path in tmp_path.iterdir()] == ["there"]


def test_a_topic_that_is_missing_or_empty_is_refused_and_nothing_is_written(shell, topic):
    assert "does not exist" in new(shell, f"no_{uuid4().hex[:8]}", code=20).stderr
    assert "--empty" in new(shell, topic, code=20).stderr
    assert list(shell.folder.iterdir()) == []
    new(shell, topic, "--empty")
    shell("validate", "orders")


def test_a_sample_holds_committed_records_only_with_their_keys_and_headers(shell, broker, topic):
    send(broker, topic, {"a": 1})
    new(shell, topic)
    transform = shell.folder / "orders" / "transform.py"
    transform.write_text(
        "import pyarrow.compute as pc\n\n"
        "def records(batch):\n"
        "    for part in ('key', 'offset'):\n"
        "        batch = batch.append_column(part, pc.struct_field(batch['kafka'], part))\n"
        "    return batch\n"
    )
    opened = transaction(broker, topic, [0], count=3)
    done = shell.json("sample", "orders", code=20)
    assert done["problems"] == ["key: missing in the table", "offset: missing in the table"]
    assert [row["row"] for row in done["rows"]] == [{"a": 1, "key": "aw==", "offset": 0}]
    opened.abort_transaction(20)


def test_values_are_printed_one_per_line_as_test_reads_them(shell, broker, topic):
    send(broker, topic, {"a": 1}, b'{\n  "a":\r\n 2}', None)
    new(shell, topic)
    done = shell("sample", "orders", "--values")
    assert done.stdout == '{"a": 1}\n{   "a":  2}\n'
    assert "1 tombstones are left out" in done.stderr
    (shell.folder / "lines").write_text(done.stdout)
    assert shell.json("test", "orders", str(shell.folder / "lines"))["counts"]["written"] == 2


def test_values_do_not_control_a_terminal(shell, broker, topic):
    send(broker, topic, b"\x1b[2J\x1b[31mred\xff")
    new(shell, topic)
    assert shell.on_a_terminal("sample", "orders", "--values", columns=80) == "\\x1b[2J\\x1b[31mred\\xff\r\n"


def test_a_sample_of_an_empty_topic_says_so(shell, topic):
    new(shell, topic, "--empty")
    assert shell("sample", "orders").stdout == "orders: its topics have no records\n"


def test_the_reserved_words_are_those_of_postgres(ledger_url):
    connection = psycopg2.connect(ledger_url)
    with connection, connection.cursor() as cursor:
        cursor.execute("SELECT word FROM pg_get_keywords() WHERE catcode IN ('R', 'T')")
        words = {word for (word,) in cursor.fetchall()}
        assert words == RESERVED
        names = [SurveyedField(name=name, kind=SimpleType("string")) for name in sorted(words)]
        columns = ", ".join(f'"{column.name}" text' for column in table_columns(names))
        cursor.execute(f"CREATE TEMPORARY TABLE words ({columns})")
    connection.close()
