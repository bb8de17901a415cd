"""The package as its users have it: a wheel in an environment of its own, and a DAG file of three lines."""

import json
import shutil
import tempfile
import zipfile
from pathlib import Path
from uuid import uuid4

import psycopg2
import pytest

import records
from servers import wheel_environment
from tideline.settings import PROJECT
from tideline_stack import spark

DAG_FILE = """\
from airflow.sdk import DAG  # Airflow parses only files that contain the words "airflow" and "dag"
from tideline.airflow.all_dags import declare_dags
declare_dags()
"""
DECLARATION = """\
description: The first pipeline of a user who installed the wheel
source:
  bootstrap_servers: {env: TIDELINE_KAFKA}
  topics: [TOPIC]
  value:
    format: json
    columns: {id: bigint, name: string}
sink:
  table: shop.orders
"""
TARGET = """\
CREATE TABLE shop.orders (
  id bigint,
  name text,
  region text,
  kafka_topic_id uuid NOT NULL,
  kafka_partition integer NOT NULL,
  kafka_offset bigint NOT NULL,
  tideline_batch bigint NOT NULL,
  PRIMARY KEY (kafka_topic_id, kafka_partition, kafka_offset)
)
"""
TRANSFORM = """\
from pyspark.sql import functions as F

from tideline.transforms import dimension


def frame(df):
    return df.join(F.broadcast(dimension(df.sparkSession, "shop.regions")), "id", "left")
"""
RECORDS = [b'{"id": 1, "name": "one"}', b"broken", b'{"id": 2, "name": "two"}']


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    return wheel_environment.build(tmp_path_factory.mktemp("wheel"))


@pytest.fixture
def url(postgres) -> str:
    """Return the address of an empty database."""
    name = f"wheel_{uuid4().hex[:8]}"
    postgres.ensure_database(name)
    return postgres.url(name)


@pytest.fixture
def user(wheel, tmp_path, url, broker):
    """Return a shell in an empty environment with the wheel, a folder of DAGs and one of pipelines."""
    # Beside the environment whose files it links to, which may be on another file system than temporary folders.
    with tempfile.TemporaryDirectory(prefix="wheel-", dir=PROJECT / ".local") as folder:
        programs = wheel_environment.create(Path(folder) / "env", wheel)
        (tmp_path / "dags").mkdir()
        (tmp_path / "dags" / "tideline_dags.py").write_text(DAG_FILE)
        variables = {
            "HOME": str(tmp_path),
            "PATH": f"{programs}:{Path(shutil.which('java') or '').parent}:/usr/bin:/bin",
            "AIRFLOW_HOME": str(tmp_path / "airflow"),
            "AIRFLOW__CORE__DAGS_FOLDER": str(tmp_path / "dags"),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[1]"}),
            "TIDELINE_LEDGER_URL": url,
            "TIDELINE_KAFKA": broker.bootstrap,
            "TIDELINE_PIPELINES": str(tmp_path / "pipelines"),
            "TIDELINE_SPARK_PROPERTIES": str(spark.configure(tmp_path / "spark")),
        }

        def shell(*command: str, **more: str) -> str:
            return wheel_environment.run([str(programs / command[0]), *command[1:]], variables | more, tmp_path)

        yield shell


def test_the_wheel_holds_every_file_that_the_package_reads(wheel):
    held = set(zipfile.ZipFile(wheel).namelist())
    needed = {
        str(name / path.relative_to(folder))
        for folder, name in (
            (PROJECT / "include" / "tideline", Path("tideline")),
            (PROJECT / "spark_jobs", Path("tideline", "spark_jobs")),
        )
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert needed <= held
    assert {name.split("/")[0].partition("-")[0] for name in held} == {"tideline"}


def test_a_pipeline_runs_from_the_wheel_and_a_dag_file_of_three_lines(user, tmp_path, broker, url):
    topic = records.create(broker.bootstrap)
    records.produce(broker.bootstrap, topic, RECORDS)
    folder = tmp_path / "pipelines" / "orders"
    folder.mkdir(parents=True)
    (folder / "pipeline.yaml").write_text(DECLARATION.replace("TOPIC", topic))
    (folder / "target.sql").write_text(TARGET)
    (folder / "transform.py").write_text(TRANSFORM)

    assert "applied" in user("tideline", "migrate")
    connection = psycopg2.connect(url)
    connection.autocommit = True
    with connection.cursor() as cursor:
        cursor.execute("CREATE SCHEMA shop; CREATE TABLE shop.regions AS SELECT 1::bigint AS id, 'north' AS region")
        user("airflow", "db", "migrate")
        user("airflow", "dags", "test", "orders")
        cursor.execute("SELECT id, name, region FROM shop.orders ORDER BY id")
        assert cursor.fetchall() == [(1, "one", "north"), (2, "two", None)]
    connection.close()
    (stream,) = json.loads(user("tideline", "streams", "orders", "--json"))["streams"]
    assert (stream["head"], stream["lag"]) == (3, 0)
