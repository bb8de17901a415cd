"""The section `sink` with `kind: delta`: its keys, and its mistakes with line and key."""

from pathlib import Path

import pytest

from tideline.declaration import pipelines
from tideline.declaration.delta import DeltaSink
from tideline.errors import FatalError
from tideline.sinks.delta import delta_log, places

ENV = "{env: NAME} with NAME in capitals"
DECLARATION = """description: events in a lake
source:
  bootstrap_servers: localhost:9092
  topics: [events]
  value: {format: text}
sink:
  kind: delta
"""


def declared(folder: Path, sink: str) -> pipelines.Pipeline:
    """Load a declaration whose sink begins in line 8."""
    (folder / "events").mkdir()
    (folder / "events" / "pipeline.yaml").write_text(DECLARATION + sink)
    return pipelines.load(folder / "events")


def test_a_table_in_an_object_store_takes_its_secrets_from_the_environment(tmp_path, monkeypatch):
    pipeline = declared(
        tmp_path,
        "  path: s3://lake/events\n  partition_by: [day]\n  item: line\n"
        "  storage: {aws_endpoint_url: http://localhost:9000, aws_secret_access_key: {env: LAKE_SECRET}}\n",
    )
    assert isinstance(pipeline.sink, DeltaSink)
    assert (pipeline.sink.partition_by, pipeline.sink.item) == (("day",), "line")
    with pytest.raises(FatalError, match="LAKE_SECRET is not set"):
        delta_log.of(pipeline)
    monkeypatch.setenv("LAKE_SECRET", "hunter2")
    location = delta_log.of(pipeline)
    assert location.options == {
        "aws_endpoint_url": "http://localhost:9000",
        "aws_secret_access_key": "hunter2",
        "aws_conditional_put": "etag",
    }
    assert "hunter2" not in repr(location)


def test_a_path_from_the_environment_is_absolute(tmp_path, monkeypatch):
    pipeline = declared(tmp_path, "  path: {env: LAKE}\n")
    monkeypatch.setenv("LAKE", "/lake/events")
    assert delta_log.of(pipeline).uri == "/lake/events"
    monkeypatch.setenv("LAKE", "lake/events")
    with pytest.raises(FatalError, match=r"key sink\.path: expected an absolute path"):
        delta_log.of(pipeline)


@pytest.mark.parametrize("option", ["aws_endpoint_url", "aws_endpoint", "endpoint_url", "endpoint"])
def test_an_endpoint_whose_variable_is_not_set_is_named_by_the_key_that_declares_it(tmp_path, option):
    pipeline = declared(tmp_path, f"  path: s3://lake/events\n  storage: {{{option}: {{env: STORE}}}}\n")
    with pytest.raises(FatalError) as raised:
        places.delta_place(pipeline, pipeline.sink)
    assert f"sink.storage.{option} of pipeline events" in str(raised.value)
    assert "STORE is not set" in str(raised.value)


@pytest.mark.parametrize("path", ["/lake", "s3://lake"])
def test_a_place_that_is_longer_than_the_ledger_takes_is_refused_with_what_to_do(tmp_path, path):
    pipeline = declared(tmp_path, f"  path: {path}/{'é' * 490}\n")
    n_bytes = len(path) + 1 + 980
    assert len(places.delta_place(pipeline, pipeline.sink).encode()) == n_bytes
    longer = pipeline.sink.model_copy(update={"path": f"{path}/{'é' * 500}"})
    with pytest.raises(
        FatalError, match=rf"sink\.path: expected .* at most 1000 bytes, found {n_bytes + 20}"
    ) as raised:
        places.delta_place(pipeline, longer)
    assert "a shorter path" in raised.value.next_step


@pytest.mark.parametrize(
    ("sink", "expected"),
    [
        ("", "6: sink.path: expected an absolute path or s3://bucket/path"),
        ("  path: lake\n", "8: sink.path: expected an absolute path or s3://bucket/path"),
        ("  path: gs://lake/events\n", "8: sink.path: expected an absolute path or s3://bucket/path"),
        ("  path: /lake\n  table: a.b\n", "9: sink.table: unknown key; known here: kind, path, storage"),
        ("  path: /lake\n  partition_by: day\n", "9: sink.partition_by: expected a list of column names"),
        (
            "  path: /lake\n  partition_by: [a, a]\n",
            "9: sink.partition_by: expected different column names, found a, a",
        ),
        ("  path: /lake\n  storage: {AWS_REGION: x}\n", "9: sink.storage.AWS_REGION: expected the name of an option"),
        (
            "  path: /lake\n  storage:\n    aws_s3_allow_unsafe_rename: 'true'\n",
            "10: sink.storage.aws_s3_allow_unsafe_rename: expected no aws_s3_allow_unsafe_rename: two writers could",
        ),
        (
            "  path: /lake\n  storage:\n    aws_conditional_put: disabled\n",
            "10: sink.storage.aws_conditional_put: expected no aws_conditional_put: Tideline sets it",
        ),
        (
            "  path: /lake\n  storage:\n    aws_secret_access_key: hunter2\n",
            f"10: sink.storage.aws_secret_access_key: expected {ENV}, found a value that is not shown",
        ),
        (
            "  path: /lake\n  storage:\n    aws_endpoint_url: http://me:hunter2@localhost\n",
            f"10: sink.storage.aws_endpoint_url: expected {ENV}, found a value that is not shown",
        ),
    ],
)
def test_a_mistake_names_line_and_key_and_shows_no_secret(tmp_path, sink, expected):
    with pytest.raises(FatalError) as raised:
        declared(tmp_path, sink)
    assert f"pipeline.yaml:{expected}" in str(raised.value)
    assert "hunter2" not in str(raised.value)
