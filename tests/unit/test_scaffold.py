"""The folder that `tideline new` writes: it loads, its test passes, and linters find nothing in it."""

import re

import pytest

from sampled_records import NOW_MS, linted, own_tests, surveyed, written
from tideline.authoring import target_sql
from tideline.authoring.scaffold import SourceConnection
from tideline.authoring.survey import unseen
from tideline.authoring.table_columns import table_columns
from tideline.declaration import pipelines
from tideline.declaration.sections import FromEnvironment
from tideline.testing import trial

RICH = [
    {
        "orderId": number,
        "order": "2f1c7a52-6d6e-4a39-9d8e-4f0d9a5b1c2d",
        "placed at": "2026-01-31T10:00:00Z",
        "amount": "12.50",
        'a "quoted" one': 1.25,
        "it's": True,
        "back\\slash": None if number else "x",
        "sent": NOW_MS + number,
        "items": [{"sku": "a", "quantity": 2}],
        "tags": ["new"],
        "yes": "maybe",
    }
    for number in range(12)
]
TOPICS = {
    "rich": RICH,
    "plain": [{"id": 1, "name": "a"}],
    "only nested": [{"user": {"id": 1}}],
    "only moments": [{"at": NOW_MS}],
    "only renamed": [{"userId": 1}],
    "moments and nested": [{"at": NOW_MS, "user": {"id": 1}}],
    "text": [b"a line", b"another"],
    "bytes": [b"\xff\xfe", b"\n\r\xff"],
}


def test_new_pipelines_load_and_their_own_tests_pass(tmp_path):
    """All in one run of pytest, as in a folder of pipelines: the names of their tests must differ."""
    for values in (True, False):
        for topic, records in TOPICS.items():
            name = f"{topic.replace(' ', '_')}_{'real' if values else 'invented'}"
            pipelines.load(written(tmp_path, surveyed(*records), name=name, values=values))
    assert f"{3 * 2 * len(TOPICS)} passed" in own_tests(tmp_path)


@pytest.mark.parametrize("topic", TOPICS)
def test_rows_of_a_new_pipeline_fit_its_table(tmp_path, topic):
    folder = written(tmp_path, surveyed(*TOPICS[topic]))
    pipeline = pipelines.load(folder)
    rows = trial(folder, [*surveyed(*TOPICS[topic]).good]).table
    assert target_sql.read(pipeline).problems(rows.schema, pipeline) == []


def test_linters_find_nothing_in_new_pipelines(tmp_path):
    for topic, records in TOPICS.items():
        written(tmp_path, surveyed(*records), name=topic.replace(" ", "_"))
    assert linted(tmp_path) == ""


def test_the_declaration_says_how_to_connect(tmp_path):
    security = {
        "protocol": "SASL_SSL",
        "sasl_mechanism": "PLAIN",
        "sasl_username": "me",
        "sasl_password": FromEnvironment(env="SECRET"),
    }
    connection = SourceConnection(servers=FromEnvironment(env="BROKERS"), security=security, registry={})
    source = pipelines.load(written(tmp_path, surveyed(*RICH), connection=connection)).source
    assert source.bootstrap_servers == FromEnvironment(env="BROKERS")
    assert {key: getattr(source.security, key) for key in security} == security


def test_gaps_are_allowed_where_they_were_seen(tmp_path):
    assert pipelines.load(written(tmp_path, surveyed({"id": 1}, gappy={"orders"}))).source.gaps == "allowed"


def test_no_file_but_the_sample_holds_values(tmp_path):
    folder = written(tmp_path, surveyed({"id": "secret-1", "n": "secret-2"}, {"id": 5, "n": "secret-3"}))
    assert {path.name for path in folder.iterdir() if "secret" in path.read_text()} == {"sample.jsonl"}


def test_airflow_parses_none_of_the_files_even_in_a_folder_of_dags(tmp_path):
    """It parses only files that contain both words."""
    for file in written(tmp_path, surveyed(*RICH)).glob("*.py"):
        assert not {"airflow", "dag"} <= set(re.findall("airflow|dag", file.read_text().lower()))


def test_invented_values_hold_nothing_of_the_records(tmp_path):
    folder = written(tmp_path, surveyed({"id": "secret-1"}), values=False)
    assert [path.name for path in folder.iterdir() if "secret" in path.read_text()] == []


def test_a_topic_without_records_gives_a_folder_to_fill_in(tmp_path):
    pipeline = pipelines.load(written(tmp_path, unseen("orders")))
    assert pipeline.source.value.columns == {"id": "string"}


def test_columns_have_different_legal_names():
    seen = surveyed({"userId": 1, "user_id": 2, "User ID": 3, "1st": 4, "ctid": 5, "kafka_offset": 6, "-": 7})
    names = [column.name for column in table_columns(seen.fields)]
    assert names == ["user_id_2", "user_id", "user_id_3", "field_1st", "field_ctid", "field_kafka_offset", "_"]


def test_types_of_the_table_hold_the_fields():
    names = {column.name: column.type_name for column in table_columns(surveyed(*RICH).fields)}
    assert names == {
        "order_id": "bigint",
        "order": "uuid",
        "placed_at": "timestamptz",
        "amount": "numeric(18, 2)",
        "a_quoted_one": "double precision",
        "it_s": "boolean",
        "back_slash": "text",
        "sent": "timestamptz",
        "items": "jsonb",
        "tags": "text[]",
        "yes": "text",
    }
