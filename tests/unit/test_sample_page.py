"""`tideline test` shows rows, rejects and counts, as tables or as one document, without any server."""

import json
import os
import re
import subprocess
import sys
from base64 import b64encode
from pathlib import Path

import pytest
from typer.testing import CliRunner

import tideline.cli  # noqa: F401 - declares the commands
from author_pipelines import DECLARATION, TABLE, author
from tideline.authoring import sample
from tideline.cli.app import app
from tideline.declaration import pipelines
from tideline.errors import FatalError

SELECTIVE = """
    import pyarrow as pa
    import pyarrow.compute as pc

    print("imported")

    def records(batch):
        if pc.any(pc.equal(batch["order_id"], 13)).as_py():
            raise ValueError("unlucky")
        kept = batch.filter(pc.greater(batch["order_id"], 0))
        return kept.append_column("raw", pa.array([b"\\xff"] * len(kept), pa.binary()))
"""
LINES = b'{"order_id": 1234567, "amount": "2.50"}\nx\n{"order_id": 13}\n{"order_id": 0}\n{"order_id": 2}\n'


@pytest.fixture
def orders(tmp_path, monkeypatch):
    monkeypatch.setenv("TIDELINE_PIPELINES", str(tmp_path))
    return author(tmp_path / "orders", transform=SELECTIVE, target=TABLE.replace("amount", "raw bytea, amount"))


def run(*arguments, code=0, lines=LINES):
    done = CliRunner().invoke(app, ["test", "orders", "-", *arguments], input=lines)
    assert done.exit_code == code, done.output
    return done.stdout


@pytest.mark.usefixtures("orders")
def test_rows_rejects_and_counts_are_shown():
    assert run().splitlines() == [
        "Rows",
        "line  order_id  amount  raw",
        "   1  1234567   2.50    \\xff",
        "   5  2         -       \\xff",
        "",
        "Rejects",
        "line  step       reason",
        "   2  decode     not valid JSON: unexpected character, expected a JSON value: line 1 column 1 (char 0)",
        "   3  transform  ValueError: unlucky",
        "",
        "read 5 = written 2 + rejected 2 + filtered 1",
    ]


def test_a_value_is_one_line_that_shows_what_it_is(tmp_path, monkeypatch):
    monkeypatch.setenv("TIDELINE_PIPELINES", str(tmp_path))
    columns = "columns: {note: string, ok: boolean, tags: array<string>, at: timestamp}"
    author(tmp_path / "orders", declaration=re.sub("columns: .*", columns, DECLARATION))
    said = run(
        lines=b'{"note": " ", "ok": true, "tags": ["a"], "at": "2026-01-01T00:00:00.000001Z"}\n{"note": "a\\nb"}',
        code=20,
    )
    assert said.splitlines()[1:4] == [
        "line  note  ok    tags   at",
        '   1  " "   true  ["a"]  2026-01-01T00:00:00.000001Z',
        "   2  a\\nb  -     -      -",
    ]


@pytest.mark.usefixtures("orders")
def test_the_document_holds_values_that_json_has_no_type_for():
    said = json.loads(run("--json"))
    assert said["counts"] == {"read": 5, "written": 2, "rejected": 2, "filtered": 1, "rows": 2}
    assert said["rows"][0] == {"line": 1, "row": {"order_id": 1234567, "amount": "2.50", "raw": "/w=="}}
    assert said["rejects"][1] == {"line": 3, "step": "transform", "reason": "ValueError: unlucky"}


def test_rows_that_do_not_fit_the_table_fail_the_command(orders):
    (orders / "target.sql").write_text(TABLE)
    assert run(code=20).endswith("These rows do not fit shop.orders of target.sql:\n  raw: missing in the table\n")
    (orders / "target.sql").write_text("CREATE TABLE shop.orders (LIKE shop.template)")
    assert run().splitlines()[-1].startswith("Not checked: whether these rows fit shop.orders")
    assert json.loads(run("--json"))["problems"] is None


@pytest.mark.usefixtures("orders")
def test_a_limit_cuts_the_lists_and_not_the_counts():
    said = json.loads(run("--json", "--limit", "1"))
    assert (len(said["rows"]), len(said["rejects"]), said["counts"]["read"]) == (1, 1, 5)
    assert "Rows: the first 1 of 2\n" in run("--limit", "1")


@pytest.mark.usefixtures("orders")
def test_rejects_fail_the_command_if_that_is_asked_for():
    run("--fail-on-rejects", code=30)
    assert "Rejects: none" in run("--fail-on-rejects", lines=b'{"order_id": 1}')


@pytest.mark.usefixtures("orders")
def test_an_empty_line_is_an_empty_value_and_the_end_of_the_file_is_none():
    assert json.loads(run("--json", lines=b""))["counts"]["read"] == 0
    assert [one["line"] for one in json.loads(run("--json", lines=b"\n\n"))["rejects"]] == [1, 2]


def test_a_file_is_read(orders):
    (orders / "sample.jsonl").write_bytes(LINES)
    done = CliRunner().invoke(app, ["test", "orders", str(orders / "sample.jsonl")])
    assert "read 5 =" in done.stdout
    assert CliRunner().invoke(app, ["test", "orders", str(orders / "none.jsonl")]).exit_code == 2


def test_records_of_avro_are_read_in_base64(tmp_path, monkeypatch):
    monkeypatch.setenv("TIDELINE_PIPELINES", str(tmp_path))
    avro = DECLARATION.replace("format: json\n", "format: avro\n        schema_file: order.avsc\n")
    folder = author(tmp_path / "orders", declaration=avro.replace(', amount: "decimal(12,2)"', ""))
    schema = {"type": "record", "name": "r", "fields": [{"name": "order_id", "type": "long"}]}
    (folder / "order.avsc").write_text(json.dumps(schema))
    records = [b"\x0e", b"\x0e\n", b""]
    shown = json.loads(run("--json", lines=b"".join(b64encode(one) + b"\n" for one in records)))
    assert [(row["line"], row["row"]["order_id"]) for row in shown["rows"]] == [(1, 7)]
    assert [one["reason"] for one in shown["rejects"]] == [
        "1 bytes behind the end of the record",
        "ends in the middle of a value",
    ]
    with pytest.raises(FatalError, match="line 2: expected base64, as the format avro is no text"):
        sample.lines(b"Dg==\n{}\n", pipelines.load(folder).source)


def test_neither_a_jvm_nor_a_database_is_needed(orders):
    code = (
        "import sys; from tideline.testing import trial; from pathlib import Path;"
        f"found = trial(Path({str(orders)!r}), [b'{{\"order_id\": 1}}']);"
        "from pyspark import SparkContext;"
        "print(found.n_written, SparkContext._gateway, 'psycopg2' in sys.modules, 'confluent_kafka' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "1 None False False"


def test_a_machine_without_java_is_told_so_where_a_frame_needs_it(orders):
    (orders / "transform.py").write_text("def frame(df):\n    return df\n")
    tideline = Path(sys.executable).parent / "tideline"
    environment = {**os.environ, "JAVA_HOME": str(orders / "nowhere"), "TIDELINE_SPARK_PROPERTIES": ""}
    done = subprocess.run(
        [str(tideline), "test", "orders", "-"], input=LINES, env=environment, capture_output=True, check=False
    )
    assert (done.returncode, done.stdout) == (20, b"")
    assert b"orders: Spark does not start in this process" in done.stderr
    assert b"Next: install Java 17 or newer" in done.stderr
