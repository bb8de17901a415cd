"""Declarations: what is read, and how mistakes are reported."""

import subprocess
import sys
from datetime import UTC, datetime

import pytest

from small_declaration import mistakes
from tideline.declaration import pipelines
from tideline.errors import FatalError

SASL = """\
  security:
    protocol: SASL_SSL
    sasl_mechanism: PLAIN
    sasl_username: loader
    sasl_password: {env: TEST_PASSWORD}
sink:
"""


def test_what_is_left_out_has_its_documented_default(declare):
    folder = declare()
    pipeline = pipelines.load(folder)
    assert (pipeline.name, pipeline.folder) == ("impressions", folder)
    assert (pipeline.schedule, pipeline.retries, pipeline.retry_delay_seconds) == ("0 * * * *", 2, 60)
    assert (pipeline.source.start, pipeline.source.gaps) == ("earliest", "refused")
    assert pipeline.source.security.protocol == "PLAINTEXT"
    assert (pipeline.limits.batch_records, pipeline.limits.run_batches) == (1_000_000, 20)
    assert pipeline.rejects.fail_above == 0.5
    assert pipeline.table_sink.item is None


def test_a_declaration_is_read_as_written(declare):
    pipeline = pipelines.load(declare("sink:\n", SASL + "  item: line_no\n"))
    assert pipeline.source.topics == ("ad_impressions",)
    assert pipeline.source.value.columns == {"impression_id": "string"}
    assert (pipeline.table_sink.table, pipeline.table_sink.item) == ("ads.impressions", "line_no")
    assert pipeline.source.security.sasl_username == "loader"


@pytest.mark.parametrize(
    ("pattern", "topic", "named"),
    [
        ("^ads_.*$", "ads_clicks", True),
        ("^ads_.*$", "my_ads_clicks", False),
        ("^ads|clicks$", "ads", True),
        ("^ads|clicks$", "ads_old", False),
        ("^ads|clicks$", "my_clicks", False),
        ("^.*$", "_schemas", True),
        ("^.*$", "__consumer_offsets", False),
        ("^__.*$", "__transaction_state", False),
    ],
)
def test_a_pattern_names_whole_topics_and_never_those_of_kafka_itself(declare, pattern, topic, named):
    source = pipelines.load(declare("topics: [ad_impressions]", f"topic_pattern: {pattern}")).source
    assert source.topics is None
    assert source.names(topic) is named


def test_a_list_names_its_topics_and_no_others(declare):
    source = pipelines.load(declare()).source
    assert [name for name in ("ad_impressions", "ad_impressions_", "ad") if source.names(name)] == ["ad_impressions"]


def test_schedule_null_means_only_by_hand(declare):
    assert pipelines.load(declare(new="schedule: null\n")).schedule is None


def test_rejects_do_not_go_to_a_topic_that_the_pattern_of_the_source_fits(declare):
    folder = declare("topics: [ad_impressions]", "topic_pattern: ^ad_.*$")
    text = (folder / "pipeline.yaml").read_text()
    (folder / "pipeline.yaml").write_text(f"{text}rejects: {{topic: ad_rejects}}\n")
    with pytest.raises(FatalError, match=r"11: rejects\.topic: expected a topic that the pipeline does not read"):
        pipelines.load(folder)
    (folder / "pipeline.yaml").write_text(f"{text}rejects: {{topic: rejects_of_ads}}\n")
    assert pipelines.load(folder).rejects.topic == "rejects_of_ads"


@pytest.mark.parametrize("text", ["2026-01-02T03:00:00+03:00", '"2026-01-02T00:00:00Z"'])
def test_a_start_timestamp_keeps_its_zone(declare, text):
    start = pipelines.load(declare("  value:\n", f"  start: {text}\n  value:\n")).source.start
    assert start == datetime(2026, 1, 2, tzinfo=UTC)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("", "limits: {batch_records: many}\n", '11: limits.batch_records: expected an integer above 0, found "many"'),
        ("", "limits:\n  batch_records: 0\n", "12: limits.batch_records: expected an integer above 0, found 0"),
        ("", "retries: true\n", "11: retries: expected an integer, 0 or above, found true"),
        ("", "rejects: {fail_above: 1.5}\n", "11: rejects.fail_above: expected a number from 0 to 1, found 1.5"),
        ("", "rejects: {fail_above: .nan}\n", "11: rejects.fail_above: expected a number from 0 to 1, found NaN"),
        ("", "rejects: {topic: ad_impressions}\n", "11: rejects.topic: expected a topic that the pipeline does not read, found ad_imp"),
        ("", "limits: 5\n", "11: limits: expected a mapping, found 5"),
        ("", "limitz: {}\n", "11: limitz: unknown key; known here: description, schedule, retries, "),
        ("", "name: other\n", "11: name: unknown key; known here: description, "),
        ("[ad_impressions]", "[]", "4: source.topics: expected Kafka topic names, a list of at"),
        ("[ad_impressions]", "\n  - a\n  - b c", "6: source.topics.1: expected Kafka topic names, a list of at"),
        ("[ad_impressions]", "[a, a]", "4: source.topics: expected different Kafka topic names, found a, a"),
        ("topics: [ad_impressions]", "topic_pattern: ads_.*$", "4: source.topic_pattern: expected a Python regular expr"),
        ("topics: [ad_impressions]", "topic_pattern: ^ads_.*", 'such as ^ads_.*$, found "^ads_.*"'),
        ("topics: [ad_impressions]", "topic_pattern: ^ads\\$", "\\$ is a dollar sign and not the end"),
        ("topics: [ad_impressions]", "topic_pattern: ^a(ds$", "found '^a(ds$': missing ), unterminated subpattern at"),
        ("topics: [ad_impressions]", "topic_pattern: [^a$]", "4: source.topic_pattern: expected a Python regular exp"),
        ("topics: [ad_impressions]", "topics: [a]\n  topic_pattern: ^a$", "2: source: expected either topics or topic_pat"),
        ("  topics: [ad_impressions]\n", "", "2: source: expected either topics or topic_pattern, found neither"),
        ("[ad_impressions]", "[..]", "4: source.topics: expected different Kafka topic names, found .."),
        ("{env: TEST_KAFKA}", "9092", "3: source.bootstrap_servers: expected host:port[,host:port...] or {env: NAME}"),
        ("{env: TEST_KAFKA}", "{env: TEST_KAFKA, x: 1}", "3: source.bootstrap_servers: expected host:port"),
        ("format: json", "format: json\n    unknown: keep\n    unknown_column: impression_id", "8: source.value.unknown_column: expected another"),
        ("format: json", "format: thrift", 'debezium, found "thrift"'),
        ("format: json", "format: text", "5: source.value: expected columns with format json, avro, protobuf or debezium and only there"),
        ("format: json", "format: avro", "5: source.value: expected either schema_file or frame: confluent with format avro, found neither"),
        ("format: json", "format: json\n    schema_file: a.avsc", "5: source.value: expected schema_file with format avro or protobuf only, "),
        ("format: json", "format: avro\n    frame: confluent\n    schema_file: a.avsc", "with format avro, found both"),
        ("format: json\n    columns:\n      impression_id: string", "format: text\n    frame: confluent", "confluent with format json, avro, pr"),
        ("format: json", "format: json\n    frame: confluent", "2: source: expected source.registry with frame: confluent and only then, found fra"),
        ("  value:\n", "  registry: {urls: ['http://a:1']}\n  value:\n", "2: source: expected source.registry with frame: confluent and only then,"),
        ("  value:\n", "  registry: {urls: ['http://u:secret@a:1']}\n  value:\n", "5: source.registry.urls: expected addresses such as http(s)"),
        ("  value:\n", "  registry: {urls: ['http://a:1'], password: secret}\n  value:\n", "5: source.registry.password: expected {env: NAME} with"),
        ("  value:\n", "  registry: {urls: ['http://a:1'], username: u}\n  value:\n", "5: source.registry: expected username and password together"),
        ("format: json", "format: json\n    defaults: {impression_id: a}", "expected aliases and defaults with format avro or protobuf only"),
        ("format: json", "format: avro\n    schema_file: a.avsc\n    defaults: {other: 1}", "8: source.value.defaults: expected declared columns, "),
        ("format: json", "format: avro\n    schema_file: a.avsc\n    aliases: {impression_id: [x, x]}", "8: source.value.aliases: expected each fi"),
        ("format: json", "format: avro\n    schema_file: ../a.avsc", "7: source.value.schema_file: expected the name of a file"),
        ("format: json\n    columns:\n      impression_id: string", "format: text\n    unknown: keep", "unknown: keep with format json, avro,"),
        ("format: json\n    columns:\n      impression_id: string", "format: text\n    unknown: reject", "unknown: reject with format json, avro,"),
        ("format: json", "format: protobuf\n    schema_file: a.proto", "5: source.value: expected message with format protobuf and only there"),
        ("format: json", "format: json\n    message: a.B", "5: source.value: expected message with format protobuf and only there"),
        ("format: json", "format: protobuf\n    schema_file: a.proto\n    message: a.B-C", "8: source.value.message: expected the name of a mess"),
        ("format: json", "format: protobuf\n    schema_file: a.avsc\n    message: a.B", "expected a file that ends with .desc or .proto with format"),
        ("format: json", "format: protobuf\n    message: a.B", "either schema_file or frame: confluent with format protobuf, found neither"),
        ("  value:\n", "  start: 2026-01-02\n  value:\n", "5: source.start: expected earliest, latest or an ISO"),
        ("  value:\n", "  start: 7\n  value:\n", "5: source.start: expected earliest, latest or an ISO timestamp with"),
        ("", "schedule: hourly\n", "11: schedule: expected a cron expression of five fields, or null, found 'hourly'"),
        ("", 'schedule: "0 0 0 * * *"\n', "11: schedule: expected a cron expression of five fields"),
        ("", 'schedule: "0 0 31 2 *"\n', "11: schedule: expected a cron expression of five fields"),
        ("", "1: 2\n", "11: 1: expected keys that are text, found the key 1"),
        ("", "sink: {table: c.d}\n", "11: sink: the same key twice"),
        ("", "retries: [1\n", "12: not YAML: "),
        ("", "retries: !!int x\n", "not YAML"),
        ("impression_id:", "kafka:", "5: source.value: expected another column name than kafka"),
        ("string", "strnig", "8: source.value.columns.impression_id: "),
    ],
)  # fmt: skip
def test_a_mistake_names_line_key_expected_and_found(declare, old, new, expected):
    [text] = mistakes(declare(old, new))
    assert expected in text


def test_all_mistakes_of_a_file_are_reported_at_once_in_order_of_line(declare):
    folder = declare(new="retries: -1\nlimits:\n  run_batches: x\n  more: 1\n")
    (folder / "target.sql").unlink()
    first, *rest = mistakes(folder)
    assert "expected a file target.sql" in first
    assert [text.split(": ")[:2] for text in rest] == [
        ["11", "retries"],
        ["13", "limits.run_batches"],
        ["14", "limits.more"],
    ]


@pytest.mark.parametrize("content", ["", "- a\n", "just text\n"])
def test_a_file_that_is_no_mapping_is_a_mistake(declare, content):
    folder = declare()
    (folder / "pipeline.yaml").write_text(content)
    [text] = mistakes(folder)
    assert "the file: expected a mapping, found" in text


def test_a_file_that_is_not_text_is_a_mistake(declare):
    folder = declare()
    (folder / "pipeline.yaml").write_bytes(b"description: \xff\n")
    assert "not YAML in UTF-8" in mistakes(folder)[0]


@pytest.mark.parametrize(
    "password",
    [
        "hunter2",
        "*hunter2",
        "{env: hunter2}",
        "[hunter2]",
        "{env: {a: hunter2}}",
        "@hunter2",
        "'hunter2",
        "!!int hunter2",
        "{env: A}\n    sasl_password: hunter2",
    ],
)
def test_a_literal_password_is_refused_without_being_shown(declare, password):
    folder = declare("sink:\n", SASL.replace("{env: TEST_PASSWORD}", password))
    with pytest.raises(FatalError) as caught:
        pipelines.load(folder)
    assert "hunter2" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None or caught.value.__suppress_context__


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("SASL_SSL", "SSL", "expected only what protocol SSL uses, found sasl_mechanism, sasl_password, sasl_username"),
        ("    protocol: SASL_SSL\n", "", "expected only what protocol PLAINTEXT uses"),
        ("    sasl_username: loader\n", "", "expected sasl_mechanism, sasl_password, sasl_username together, missing"),
        ("sink:\n", "    ssl_key_location: k.pem\nsink:\n", "together, missing ssl_certificate_location"),
        (
            "mechanism: PLAIN",
            "mechanism: OAUTHBEARER",
            "expected only what the mechanism OAUTHBEARER uses, found sasl_password, sasl",
        ),
        (
            "mechanism: PLAIN",
            "mechanism: PLAIN\n    sasl_oauth_scope: s",
            "the mechanism PLAIN uses, found sasl_oauth_scope",
        ),
        (
            "mechanism: PLAIN",
            "oauth_token_url: http://u:p@a",
            "sasl_oauth_token_url: expected http(s)://host[:port][/path] without",
        ),
        (
            "    sasl_mechanism: PLAIN\n",
            "    sasl_oauth_scope: s\n",
            "expected sasl_mechanism as well, found sasl_oauth_scope",
        ),
        ("SASL_SSL", "SASL_SLL", "source.security.protocol: expected one of PLAINTEXT, SSL,"),
    ],
)
def test_security_settings_that_do_not_fit_each_other_are_a_mistake(declare, old, new, expected):
    [text] = mistakes(declare("sink:\n", SASL.replace(old, new)))
    assert expected in text


def test_the_environment_is_not_needed_to_read_a_declaration_but_to_connect(declare, monkeypatch):
    monkeypatch.delenv("TEST_KAFKA", raising=False)
    source = pipelines.load(declare()).source
    with pytest.raises(FatalError, match=r"TEST_KAFKA is not set; it holds source\.bootstrap_servers of pipeline imp"):
        source.brokers.connection()


def test_a_protocol_that_is_not_known_yet_asks_for_nothing(declare):
    pipelines.load(declare("sink:\n", "  security: {protocol: {env: TEST_SASL_PROTOCOL}}\nsink:\n"))


def test_one_declaration_serves_secured_and_plain_brokers(declare, monkeypatch):
    source = pipelines.load(declare("sink:\n", SASL.replace("SASL_SSL", "{env: TEST_PROTOCOL}"))).source
    monkeypatch.setenv("TEST_KAFKA", "broker:9092")
    monkeypatch.setenv("TEST_PROTOCOL", "PLAINTEXT")
    assert source.brokers.connection() == {"bootstrap_servers": "broker:9092", "protocol": "PLAINTEXT"}
    monkeypatch.setenv("TEST_PROTOCOL", "SASL_PLAINTEXT")
    monkeypatch.setenv("TEST_PASSWORD", "pw")
    assert source.brokers.connection()["sasl_password"] == "pw"
    monkeypatch.setenv("TEST_PROTOCOL", "TLS")
    with pytest.raises(FatalError, match=r"security\.protocol: expected one of PLAINTEXT, .*, found something else"):
        source.brokers.connection()


def test_a_broken_declaration_leaves_the_others_standing(declare, tmp_path):
    declare(name="aa")
    declare(name="bb", new="retries: x\n")
    declare(name="Cc")
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "README.md").touch()
    (tmp_path / "dd").mkdir()
    found = {entry.name: isinstance(entry, pipelines.Pipeline) for entry in pipelines.declared()}
    assert found == {"Cc": False, "aa": True, "bb": False, "dd": False}


def test_an_unknown_name_is_answered_with_the_known_ones(declare):
    declare(name="aa")
    declare(name="bb")
    assert pipelines.load_named("bb").name == "bb"
    with pytest.raises(FatalError, match="'nope', found only: aa, bb"):
        pipelines.load_named("nope")


def test_a_missing_pipelines_folder_is_reported(monkeypatch):
    monkeypatch.setenv("TIDELINE_PIPELINES", "/nowhere/pipelines")
    with pytest.raises(FatalError, match="/nowhere/pipelines: expected the folder of the pipelines"):
        pipelines.declared()


def test_yaml_anchors_may_be_used(declare):
    new = "limits: &few {run_batches: 3}\n"
    assert pipelines.load(declare(new=new + "rejects: {<<: {fail_above: 0.1}}\n")).rejects.fail_above == 0.1


def test_parsing_dags_loads_no_drivers():
    heavy = {"pyarrow", "confluent_kafka", "psycopg2", "pyspark", "pandas", "airflow"}
    code = f"import sys, tideline.declaration.pipelines; print(sorted({heavy} & set(sys.modules)))"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"
