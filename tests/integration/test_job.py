"""The end of the Spark job's output: its last line says what to do, and its exit code is the class of the error."""

import json
import logging

import pytest

import records
from loads.loading import batches, names, ranges
from tideline.deployment import secret
from tideline.domain.requests import KeptRejects, OneBatch
from tideline.ledger import reservations
from tideline.ledger.reservations import Run
from tideline.spark_jobs import write_batches

pytestmark = pytest.mark.topic(records=10)


@pytest.fixture
def job(loading, monkeypatch, capsys):
    """Run main() on batches of a declared pipeline; return exit code and output."""
    monkeypatch.setenv("TIDELINE_PIPELINES", str(loading.folder.parent))

    def run(batch_ids, run_id="one"):
        capsys.readouterr()
        code = write_batches.main(
            [
                f"--pipeline={loading.folder.name}",
                f"--batches={','.join(map(str, batch_ids))}",
                "--dag-id=test",
                f"--run-id={run_id}",
                "--task-id=write",
                "--try-number=1",
            ]
        )
        return code, capsys.readouterr().out

    return run


def test_success_says_ranges_and_counts_and_passes_over_what_is_done(loading, topic, job):
    loading.declare(topic, batch_records=4)
    batch_ids = loading.plan("one")
    code, said = job(batch_ids)
    assert code == 0
    assert f"loads batch 1 attempt 1: {topic}/0 [0, 4)\n" in said
    assert f"  {topic}/0 [8, 10): read 2, written 2, rejected 0, filtered 0, gap 0\n" in said
    assert said.endswith("loads batch 3 attempt 1: published; read 2, written 2, rejected 0\n")
    assert job(batch_ids) == (0, "".join(f"loads batch {n} is published: skipped\n" for n in batch_ids))


def test_as_json_each_line_names_the_pipeline_the_batch_and_the_attempt(loading, topic, job, monkeypatch):
    before = (logging.root.handlers[:], logging.root.level)
    monkeypatch.setenv("TIDELINE_LOG_FORMAT", "json")
    loading.declare(topic, batch_records=4)
    batch_ids = loading.plan("one")
    try:
        code, said = job(batch_ids)
    finally:
        logging.root.handlers[:], logging.root.level = before
    lines = [json.loads(line) for line in said.splitlines()]
    assert code == 0
    assert [line["batch"] for line in lines] == sorted(line["batch"] for line in lines)
    assert {(line["pipeline"], line["batch"], line["attempt"]) for line in lines} == {
        ("loads", n, 1) for n in batch_ids
    }
    assert lines[-1]["message"] == "loads batch 3 attempt 1: published; read 2, written 2, rejected 0"


@pytest.mark.parametrize(
    ("transform", "expected"),
    [
        (
            "def records(batch): return None",
            (20, "tideline: FatalError: transform.py: `records` must return a pyarrow.Table"),
        ),
        (
            "import os\ndef records(b): return os._exit(1) if b.num_rows else b",
            (
                10,
                "tideline: RetryableError: loads batch 1 attempt 1: Spark failed: SparkException: Job aborted",
            ),
        ),
        (
            "def frame(df): return df.withColumn('kafka', df.kafka.withField('topic', df.name))",
            (20, "tideline: FatalError: loads batch 1 attempt 1: the transform returned a row of n"),
        ),
    ],
)
def test_an_error_is_one_short_message_with_the_next_step(loading, topic, job, transform, expected):
    loading.declare(topic, transform=transform)
    code, printed = job(loading.plan("one"))
    lines = printed.splitlines()
    assert (code, lines[-3][: len(expected[1])]) == expected
    assert lines[-2].startswith("  Next: ")
    assert lines[-1].startswith("  More: docs/runbook.md#")
    assert len(printed) < 1200


@pytest.fixture
def poisoned(loading) -> list[int]:
    """Plan four batches of a hundred records; all of the second one are bad, and all of the third."""
    name = records.create(loading.bootstrap)
    values = [b"{bad" if 100 <= n < 300 else records.record(n) for n in range(400)]
    records.produce(loading.bootstrap, name, values)
    loading.declare(name, batch_records=100)
    return loading.plan("one")


def test_a_batch_that_needs_a_person_does_not_keep_the_others_waiting(loading, poisoned, job):
    code, said = job([1, 2, 4])
    assert code == 30
    assert said.splitlines()[-3].startswith(
        "tideline: NeedsOperatorError: loads batch 2 attempt 1: 100 of 100 records were rejected"
    )
    assert said.splitlines()[-1] == "  More: docs/runbook.md#too-many-rejects"
    assert loading.states() == ["published", "failed", "planned", "published"]


def test_several_batches_that_need_a_person_are_listed_at_the_end(loading, poisoned, job):
    code, said = job(poisoned)
    assert code == 30
    last = said[said.rindex("tideline: NeedsOperatorError: ") :].splitlines()
    assert last[0] == "tideline: NeedsOperatorError: loads: 2 of 4 batches failed (the others are written):"
    assert [line.split(":")[0] for line in last[1:3]] == ["    loads batch 2 attempt 1", "    loads batch 3 attempt 1"]
    assert last[3].startswith("  Next: correct columns or transform.py")
    assert loading.states() == ["published", "failed", "failed", "published"]


def test_what_every_batch_would_meet_ends_the_job_at_once(loading, topic, job):
    loading.declare(topic, batch_records=5, transform="def records(batch): return None")
    assert job(loading.plan("one"))[0] == 20
    assert loading.states() == ["failed", "planned"]


def test_a_batch_that_kills_its_workers_keeps_no_other_from_being_tried(loading, topic, job):
    loading.declare(
        topic, batch_records=5, transform="import os\ndef records(b): return os._exit(1) if b.num_rows else b"
    )
    assert job(loading.plan("one"))[0] == 10
    assert loading.states() == ["failed", "failed"]


def test_one_job_writes_batches_of_every_kind(loading, job):
    topic = records.create(loading.bootstrap)
    records.produce(loading.bootstrap, topic, [b"{bad" if n == 13 else records.record(n) for n in range(20)])
    loading.declare(topic, start="latest")
    assert loading.run() == []
    loading.run(ranges(f"{topic}/0 [5, 10)"))
    loading.run(ranges(f"{topic}/0 [12, 15)"))
    records.produce(loading.bootstrap, topic, map(records.record, range(20, 30)))
    mixed = loading.plan("a", ranges(f"{topic}/0 [10, 12)"))
    mixed += loading.plan("b", OneBatch(batch_id=1, replace=True))
    mixed += loading.plan("c", KeptRejects())
    mixed += [batch_id for batch_id in loading.plan("d") if batch_id not in mixed]
    assert [batches(loading)[batch_id][0] for batch_id in mixed] == ["backfill", "replay", "redrive", "live"]
    with loading.ledger() as ledger, ledger.transaction():
        reservations.join_run(ledger, loading.pipeline.name, Run(dag_id="test", run_id="one"), mixed)
    code, said = job(mixed)
    assert (code, [batches(loading)[n][1] for n in mixed]) == (0, ["published"] * 4)
    assert f"  {topic}/0 [13, 14): read 1, written 0, rejected 1, filtered 0\n" in said
    assert set(names(loading)) == {*range(5, 30)} - {13, *range(15, 20)}


def test_a_batch_that_is_not_there_is_refused_before_anything_is_read(loading, topic, job):
    loading.declare(topic)
    code, said = job([77])
    assert code == 30
    assert said.startswith(
        "tideline: NeedsOperatorError: loads: expected batches 77 among those of the run one of test;"
    )


def test_no_secret_is_in_what_is_printed(loading, topic, job, broker, monkeypatch):
    monkeypatch.setenv("TIDELINE_KAFKA", broker.sasl_bootstrap)
    monkeypatch.setenv("TEST_PASSWORD", secret.marked("hunter2"))
    login = {
        "protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_username": broker.sasl_username,
        "sasl_password": {"env": "TEST_PASSWORD"},
    }
    with monkeypatch.context() as plain:
        plain.setenv("TIDELINE_KAFKA", broker.bootstrap)
        loading.declare(topic)
        batch_ids = loading.plan("one")
    loading.declare(topic, security=login)
    code, said = job(batch_ids)
    assert (code, "hunter2" in said) == (20, False)
    assert "refused the connection" in said
