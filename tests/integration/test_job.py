"""What the Spark job says on its way out: its last line tells what to do, and its exit code what kind of trouble it was."""

import pytest

import records
from spark_jobs import write_batches


@pytest.fixture
def job(loading, monkeypatch, capsys):
    """Runs main() on batches of a declared pipeline; exit code and what was printed."""
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


@pytest.fixture
def topic(loading) -> str:
    """Ten records in one partition."""
    name = records.create(loading.bootstrap)
    records.produce(loading.bootstrap, name, map(records.record, range(10)))
    return name


def test_success_says_ranges_and_counts_and_passes_over_what_is_done(loading, topic, job):
    loading.declare(topic, batch_records=4)
    batch_ids = loading.plan("one")
    code, said = job(batch_ids)
    assert code == 0
    assert f"loads batch 1 attempt 1: {topic}/0 [0, 4)\n" in said
    assert f"  {topic}/0 [8, 10): read 2, written 2, rejected 0, filtered 0, gap 0\n" in said
    assert said.endswith("loads batch 3 attempt 1: published; read 2, written 2, rejected 0\n")
    assert job(batch_ids) == (0, "".join(f"loads batch {n} is published: passed over\n" for n in batch_ids))


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
                "tideline: RetryableError: loads batch 1 attempt 1: Spark could not do it: SparkException: Job aborted",
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
    assert (code, lines[-2][: len(expected[1])]) == expected
    assert lines[-1].startswith("  Next: ")
    assert len(printed) < 1200


def test_a_batch_that_is_not_there_is_fatal(loading, topic, job):
    loading.declare(topic)
    code, said = job([77])
    assert (code, said.splitlines()[0]) == (20, "tideline: FatalError: batch 77 is not in the ledger")


def test_no_secret_is_in_what_is_printed(loading, topic, job, broker, monkeypatch):
    monkeypatch.setenv("TIDELINE_KAFKA", broker.sasl_bootstrap)
    monkeypatch.setenv("TEST_PASSWORD", "hunter2")
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
