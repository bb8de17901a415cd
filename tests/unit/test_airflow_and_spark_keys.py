"""The keys of a declaration for Airflow and Spark: what is accepted, and which mistakes are named with line and key."""

import pytest

from tideline.declaration import pipelines
from tideline.declaration.sections import FromEnvironment
from tideline.errors import FatalError
from tideline.spark_jobs.session import SETTINGS

SMALLEST = """\
description: Ad impressions
source:
  bootstrap_servers: broker:9092
  topics: [ads]
  value: {format: text}
sink: {table: ads.impressions}
"""
NOTIFY = "notify:\n  notifier: some.package.Notifier\n  arguments:\n"


@pytest.fixture
def declare(tmp_path, monkeypatch):
    """Write one pipeline's folder with more keys; they begin in line 7."""
    monkeypatch.setenv("TIDELINE_PIPELINES", str(tmp_path))

    def write(more=""):
        folder = tmp_path / "ads"
        folder.mkdir(exist_ok=True)
        (folder / "pipeline.yaml").write_text(SMALLEST + more)
        (folder / "target.sql").touch()
        return folder

    return write


@pytest.fixture
def mistakes(declare):
    def named(more):
        folder = declare(more)
        with pytest.raises(FatalError) as caught:
            pipelines.load(folder)
        return caught.value.problem.replace(f"{folder}/pipeline.yaml:", "").splitlines()

    return named


def test_left_out_they_leave_everything_to_the_deployment(declare):
    pipeline = pipelines.load(declare())
    assert (pipeline.owner, pipeline.tags, pipeline.pool) == (None, (), None)
    assert (pipeline.spark.connection, pipeline.spark.conf(), pipeline.notify.notifier) == (None, {}, None)


def test_owner_tags_pool_and_connection_are_read_as_written(declare):
    pipeline = pipelines.load(
        declare("owner: data platform\ntags: [ads, eu west]\npool: kafka\nspark: {connection: spark-eu}\n")
    )
    assert (pipeline.owner, pipeline.tags, pipeline.pool) == ("data platform", ("ads", "eu west"), "kafka")
    assert pipeline.spark.connection == "spark-eu"


@pytest.mark.parametrize(
    ("written", "passed"),
    [("2g", "2g"), ("2", "2"), ("0x10", "16"), ("true", "true"), ('"yes"', "yes"), ("0.6", "0.6"), ("{{ ds }}", None)],
)
def test_a_property_is_passed_as_the_text_that_spark_reads(declare, mistakes, written, passed):
    more = f"spark:\n  properties:\n    spark.executor.memory: {written}\n"
    if passed is None:
        assert mistakes(more)
    else:
        assert pipelines.load(declare(more)).spark.conf() == {"spark.executor.memory": passed}


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ("owner: 5\n", "7: owner: expected text of at most 500 characters, or null, found 5"),
        ("owner: ' '\n", '7: owner: expected text of at most 500 characters, or null, found " "'),
        ("tags: ads\n", '7: tags: expected a list of texts of at most 100 characters, found "ads"'),
        (f"tags: [a, {'b' * 101}]\n", "7: tags.1: expected a list of texts of at most 100 characters, found"),
        ("tags: [ads, ads]\n", "7: tags: expected each tag once, and not tideline, which every DAG has, found ads, ads"),
        ("tags: [tideline]\n", "7: tags: expected each tag once, and not tideline"),
        ("pool: ''\n", '7: pool: expected the name of an Airflow pool, or null, found ""'),
        ("spark: {conection: x}\n", "7: spark.conection: unknown key; known here: connection, properties"),
        ("spark:\n  connection: a b\n", '8: spark.connection: expected the id of an Airflow connection, or null, found "a b"'),
        ("spark:\n  properties: [a]\n", "8: spark.properties: expected names of Spark properties with text, numbers or"),
        ("spark:\n  properties:\n    executor.memory: 2g\n", "9: spark.properties.executor.memory: expected the name of a"),
        ("spark:\n  properties:\n    spark.a=b: 2g\n", "9: spark.properties.spark.a=b: expected the name of a Spark prop"),
        ("spark:\n  properties:\n    spark.a: [2]\n", "9: spark.properties.spark.a: expected names of Spark properties with"),
        ('spark:\n  properties:\n    spark.a: "x\\ny"\n', "9: spark.properties.spark.a: expected names of Spark properties"),
        ("spark:\n  properties:\n    spark.jars.packages: a\n", "9: spark.properties.spark.jars.packages: expected another "),
        ("notify: {on: [failure]}\n", "7: notify: expected notifier as well, found only on"),
        ("notify: {notifier: Slack}\n", "7: notify.notifier: expected a class with its module, such as airflow."),
        ("notify:\n  notifier: a.B\n  on: [failed]\n", '9: notify.on.0: expected a list of failure, stopped_stream, found "f'),
        ("notify:\n  notifier: a.B\n  on: []\n", "9: notify.on: expected failure, stopped_stream or both, found an empty"),
        (f"{NOTIFY}    a: {{env: lower}}\n", "10: notify.arguments.a: expected {env: NAME} with NAME in capitals, found anot"),
        (f"{NOTIFY}    a:\n    - b: !x y\n", "11: notify.arguments.a.0.b: expected text, a number, true, false, null, a"),
        (f"{NOTIFY}    a: {{1: b}}\n", "10: notify.arguments.a: expected a mapping whose keys are text"),
    ],
)  # fmt: skip
def test_a_mistake_names_line_key_expected_and_found(mistakes, more, expected):
    [text] = mistakes(more)
    assert text.startswith(expected)


@pytest.mark.parametrize("name", SETTINGS)
def test_no_property_that_the_job_sets_may_be_declared(mistakes, name):
    [text] = mistakes(f"spark:\n  properties:\n    {name}: x\n")
    assert text.startswith(f"9: spark.properties.{name}: expected another property: the job sets it")


@pytest.mark.parametrize(
    "name",
    [
        "spark.master",
        "spark.submit.deployMode",
        "spark.driver.extraClassPath",
        "spark.driver.extraJavaOptions",
        "spark.executor.extraJavaOptions",
        "spark.executorEnv.PYTHONPATH",
        "spark.files",
        "spark.jars",
        "spark.pyspark.python",
        "spark.yarn.submit.waitAppCompletion",
        "spark.redaction.regex",
    ],
)
def test_no_property_that_the_deployment_or_the_task_needs_may_be_declared(mistakes, name):
    [text] = mistakes(f"spark:\n  properties:\n    {name}: x\n")
    assert text.startswith(f"9: spark.properties.{name}: expected another property: ")


@pytest.mark.parametrize(
    "name", ["spark.files.overwrite", "spark.sql.shuffle.partitions", "spark.hadoop.fs.s3a.endpoint"]
)
def test_a_property_that_only_begins_like_a_refused_one_may_be_declared(declare, name):
    assert pipelines.load(declare(f"spark:\n  properties:\n    {name}: x\n")).spark.conf() == {name: "x"}


@pytest.mark.parametrize(
    ("more", "line"),
    [
        ("spark:\n  properties:\n    spark.ssl.keyPassword: hunter2\n", "9: spark.properties.spark.ssl.keyPassword: "),
        ("spark:\n  properties:\n    spark.hadoop.fs.s3a.secret.key: [hunter2]\n", "9: spark.properties.spark.hadoop.fs"),
        ("spark:\n  properties:\n    spark.hadoop.fs.s3a.access.key: hunter2\n", "9: spark.properties.spark.hadoop.fs.s3a"),
        ("spark:\n  properties:\n    spark.hadoop.fs.azure.account.key.a: hunter2\n", "9: spark.properties.spark.hadoop.f"),
        ("spark:\n  properties:\n    spark.a: http://u:hunter2@h\n", "9: spark.properties.spark.a: expected no address"),
        (f"{NOTIFY}    token: hunter2\n", "10: notify.arguments.token: expected {env: NAME} with NAME in capitals, found a v"),
        (f"{NOTIFY}    a:\n      - x\n      - Authorization: hunter2\n", "12: notify.arguments.a.1.Authorization: expected"),
        (f"{NOTIFY}    url: https://u:hunter2@h\n", "10: notify.arguments.url: expected {env: NAME} with NAME in capit"),
        (f"{NOTIFY}    password: {{env: {{a: hunter2}}}}\n", "10: notify.arguments.password: expected {env: NAME} with"),
        ("notify:\n  notifier: a.B\n  arguments: hunter2\n", "9: notify.arguments: expected names of arguments with"),
    ],
)  # fmt: skip
def test_a_secret_is_refused_without_being_shown(mistakes, more, line):
    [text] = mistakes(more)
    assert text.startswith(line)
    assert "hunter2" not in text


def test_arguments_are_plain_values_with_references_to_the_environment(declare):
    more = (
        "    slack_conn_id: oncall\n    n: [1, 0.5, true, null]\n    token: {env: SLACK_TOKEN}\n"
        "    headers: {Authorization: '{{ conn.pager.password }}'}\n    text: |\n      a\n      b\n"
    )
    arguments = pipelines.load(declare(NOTIFY + more)).notify.arguments
    assert arguments == {
        "slack_conn_id": "oncall",
        "n": [1, 0.5, True, None],
        "token": FromEnvironment(env="SLACK_TOKEN"),
        "headers": {"Authorization": "{{ conn.pager.password }}"},
        "text": "a\nb\n",
    }
    assert [type(value) for value in arguments["n"]] == [int, float, bool, type(None)]
    assert (type(arguments["text"]), type(arguments["headers"])) == (str, dict)


@pytest.mark.parametrize(
    ("more", "notifier"),
    [
        ("retries: x\nnotify: {notifier: some.package.Notifier}\n", "some.package.Notifier"),
        ("notify: {notifier: some.package.Notifier, on: [never]}\n", None),
        ("notify: [\n", None),
        ("retries: x\n", None),
    ],
)
def test_a_broken_declaration_still_notifies_if_the_mistake_is_elsewhere(declare, more, notifier):
    declare(more)
    [broken] = pipelines.declared()
    assert isinstance(broken, pipelines.Broken)
    assert broken.notify.notifier == notifier
