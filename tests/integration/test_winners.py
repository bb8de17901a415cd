"""Spark may run a task twice. Rows staged by the losing run are not published, and everything counts once."""

import pytest

import records
from tideline.errors import RetryableError
from tideline.sinks.postgres import insertion
from tideline.spark_jobs import write_batches

# Raises in the first task that reaches its last batch of 1000 records, after the COPYs of the batches before.
DIES_ONCE = """\
    import os

    def records(batch):
        if batch.num_rows and batch["id"][-1].as_py() == {last}:
            try:
                open({memory!r}, "x").close()
            except FileExistsError:
                return batch
            {death}
        return batch
    """
DEATHS = ["os._exit(3)", "raise KeyboardInterrupt", "raise SystemExit(0)"]


@pytest.fixture
def staged(loading, monkeypatch):
    """Count the rows in staging when the winners were chosen. Each task makes several COPYs, although there are few records."""
    found = []
    session, inserted = write_batches.session, insertion.insert_output

    def small_batches(name):
        spark = session(name)
        spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "1000")
        return spark

    def counting(ledger, staged):
        found.append(loading.rows(f"SELECT count(*)::int FROM tideline_staging.{staged.table}")[0][0])
        return inserted(ledger, staged)

    monkeypatch.setattr(write_batches, "session", small_batches)
    monkeypatch.setattr(insertion, "insert_output", counting)
    return found


@pytest.mark.parametrize("death", DEATHS)
@pytest.mark.parametrize("frame", ["", "def frame(df): return df"])
def test_a_task_that_dies_after_its_copy_leaves_nothing_in_the_output(loading, tmp_path, staged, death, frame):
    topic = records.create(loading.bootstrap, partitions=2)
    values = [b"{bad" if n % 100 == 7 else records.record(n) for n in range(6000)]
    sent = records.produce(loading.bootstrap, topic, values, partitions=2)
    memory = tmp_path / "died"
    text = DIES_ONCE.format(last=5999, memory=str(memory), death=death)
    loading.declare(topic, transform=text)
    with (loading.folder / "transform.py").open("a") as file:
        file.write(frame)
    loading.run()
    assert memory.exists()
    good = {place for place, value in sent.items() if value != b"{bad"}
    assert set(loading.output()) == good
    assert set(loading.rejects()) == set(sent) - good
    assert loading.counts() == {"n_read": 6000, "n_written": 5940, "n_rejected": 60, "n_filtered": 0, "n_gap": 0}
    if not frame:  # behind a frame a task has its rows only after all of them were decoded
        assert staged[0] > len(good)
    assert loading.staging_tables() == []


def test_a_task_that_dies_every_time_fails_the_attempt_in_one_line(loading):
    topic = records.create(loading.bootstrap)
    records.produce(loading.bootstrap, topic, map(records.record, range(10)))
    loading.declare(
        topic, transform="import os\ndef records(batch):\n    return os._exit(3) if batch.num_rows else batch\n"
    )
    text = loading.refusal(RetryableError)
    assert "Python worker exited unexpectedly" in text
    assert len(text) < 1000


def test_a_staging_table_that_a_crash_has_emptied_is_not_published(loading, monkeypatch):
    """The table is unlogged: after a crash of the server it exists, and is empty."""
    topic = records.create(loading.bootstrap)
    records.produce(loading.bootstrap, topic, map(records.record, range(10)))
    loading.declare(topic)
    published = write_batches.flow.publish

    def after_a_crash(ledger, *arguments, **options):
        with ledger.transaction(), ledger.connection.cursor() as cursor:
            [table] = loading.staging_tables()
            cursor.execute(f"TRUNCATE tideline_staging.{table}")
        return published(ledger, *arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(write_batches.flow, "publish", after_a_crash)
        assert "10 rows were staged, 0 are there" in loading.refusal(RetryableError)
    loading.run()
    assert loading.published() == 10


def test_a_connection_that_is_lost_during_a_copy_is_no_fault_of_the_records(loading, tmp_path):
    """The server ends the session before a COPY: the task is tried again, and nothing is rejected."""
    topic = records.create(loading.bootstrap)
    sent = records.produce(loading.bootstrap, topic, map(records.record, range(60)))
    cut = (
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = current_database() AND application_name = '' AND pid <> pg_backend_pid()"
    )
    death = f"__import__('psycopg2').connect({loading.address_in_code()}).cursor().execute({cut!r}); return batch"
    memory = tmp_path / "cut"
    text = DIES_ONCE.format(last=59, memory=str(memory), death=death)
    loading.declare(topic, transform=text)
    loading.run()
    assert memory.exists()
    assert (set(loading.output()), loading.rejects()) == (set(sent), {})
