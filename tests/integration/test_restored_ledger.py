"""A ledger restored to an earlier state from a real dump, while Airflow keeps its runs: nothing is written for another run or pipeline."""

from dataclasses import replace

import pytest
from psycopg2.extensions import parse_dsn

from given_ledger.ledgers import PIPELINE, RUN, WRITER, claim, plan, publish, published, query, stage, start_streams
from ledger_dump import at_server
from tideline import flow
from tideline.errors import NeedsOperatorError, SupersededError
from tideline.ledger.reservations import Run
from tideline.sinks.delta import delta_files
from tideline.sinks.staging_tables import staging_name

LATER = Run(dag_id="impressions", run_id="scheduled__later")
OTHER = Run(dag_id="impressions", run_id="manual__other")


@pytest.fixture
def dump(ledger, ledger_url, tmp_path):
    """Provide a ledger with one finished batch; return a function that restores it, whatever has happened since."""
    (stream,) = start_streams(ledger, 1)
    published(ledger, {stream: (0, 10)})
    flow.advance(ledger, PIPELINE, RUN)
    file = str(tmp_path / "ledger.dump")
    at_server("pg_dump", ledger_url, "--format=custom", f"--file={file}")

    def restore():
        ledger.connection.rollback()
        name = parse_dsn(ledger_url)["dbname"]
        at_server("pg_restore", ledger_url, "--clean", "--if-exists", "--exit-on-error", f"--dbname={name}", file)

    return stream, restore


def test_tasks_of_a_run_that_the_restored_ledger_does_not_know_are_refused(ledger, dump):
    stream, restore = dump
    forgotten = plan(ledger, {stream: (10, 20)}, run=LATER)
    flow.check_given(ledger, PIPELINE, LATER, [forgotten])
    restore()
    with pytest.raises(
        NeedsOperatorError, match=f"expected batches {forgotten} among those of the run scheduled__later"
    ):
        flow.check_given(ledger, PIPELINE, LATER, [forgotten])
    assert flow.advance(ledger, PIPELINE, LATER) == []  # advance alone finds nothing missing


def test_a_number_that_was_given_again_is_not_the_batch_that_a_run_was_given(ledger, dump):
    stream, restore = dump
    forgotten = plan(ledger, {stream: (10, 20)}, run=LATER)
    restore()
    again = plan(ledger, {stream: (10, 15)}, run=OTHER)
    assert again == forgotten
    with pytest.raises(NeedsOperatorError, match=r"the ledger has given it none: was the ledger restored"):
        flow.check_given(ledger, PIPELINE, LATER, [forgotten])
    for pipeline, run in ((PIPELINE, LATER), ("another", OTHER)):
        writer = replace(WRITER, dag_id=run.dag_id, run_id=run.run_id)
        with pytest.raises(
            NeedsOperatorError, match=f"{pipeline}: expected batch {again} among those of the run {run.run_id}"
        ):
            flow.claim(ledger, again, writer, pipeline=pipeline)
    assert query(ledger, "SELECT state::text FROM tideline.batch WHERE batch_id = %s", again) == [("planned",)]


def test_a_job_under_which_the_ledger_is_restored_is_refused_its_next_batch(ledger, dump):
    """It has requested all of its batches at its start. After the restore the id of the next one belongs to another run, or to none yet."""
    stream, restore = dump
    written, next_one = (plan(ledger, {stream: offsets}, run=LATER) for offsets in ((10, 20), (20, 30)))
    writer = replace(WRITER, dag_id=LATER.dag_id, run_id=LATER.run_id)
    flow.check_given(ledger, PIPELINE, LATER, [written, next_one])
    flow.claim(ledger, written, writer, pipeline=PIPELINE)
    restore()
    for expected in ("no batch", "another run's"):
        if expected == "another run's":
            others = [plan(ledger, {stream: offsets}, run=OTHER) for offsets in ((10, 15), (15, 35))]
            assert others == [written, next_one]
        with pytest.raises(NeedsOperatorError, match=f"expected batch {next_one} among those of the run"):
            flow.claim(ledger, next_one, writer, pipeline=PIPELINE)
    assert query(ledger, "SELECT state::text FROM tideline.batch WHERE batch_id = %s", next_one) == [("planned",)]


def test_a_run_that_returned_no_batches_is_not_finished(ledger):
    start_streams(ledger, 1)
    with pytest.raises(NeedsOperatorError, match="expected batches from the task `plan`"):
        flow.check_given(ledger, PIPELINE, RUN, [])


@pytest.mark.parametrize("planned_again", [False, True])
def test_an_attempt_of_before_publishes_nothing(ledger, dump, planned_again):
    """Its driver runs on while the ledger is restored; its batch id may belong to another batch now."""
    stream, restore = dump
    orphan = claim(ledger, plan(ledger, {stream: (10, 20)}, run=LATER))
    restore()
    if planned_again:
        other = claim(ledger, plan(ledger, {stream: (10, 15)}, run=OTHER))
        assert (other.batch_id, other.attempt_id) == (orphan.batch_id, orphan.attempt_id)
        stage(ledger, other)
    with pytest.raises(SupersededError, match="was refused"):
        publish(ledger, orphan)
    assert query(ledger, "SELECT max(upper(offsets)) FROM tideline.coverage") == [(10,)]


@pytest.mark.parametrize("planned_before", [False, True])
def test_attempts_of_one_number_and_fence_have_files_and_tables_of_their_own(
    ledger, ledger_url, tmp_path, planned_before
):
    """The batch is planned again after the restore; or it was planned before the dump, and only its attempt is another one."""
    (stream,) = start_streams(ledger, 1)
    file, name = str(tmp_path / "ledger.dump"), parse_dsn(ledger_url)["dbname"]
    if planned_before:
        plan(ledger, {stream: (0, 10)}, run=LATER)
    at_server("pg_dump", ledger_url, "--format=custom", f"--file={file}")
    if not planned_before:
        plan(ledger, {stream: (0, 10)}, run=LATER)
    orphan = claim(ledger, 1)
    ledger.connection.rollback()
    at_server("pg_restore", ledger_url, "--clean", "--if-exists", "--exit-on-error", f"--dbname={name}", file)
    if not planned_before:
        plan(ledger, {stream: (0, 15)}, run=OTHER)
    newer = claim(ledger, 1)
    assert (newer.batch_id, newer.fence, newer.attempt_id) == (orphan.batch_id, orphan.fence, orphan.attempt_id)
    assert (newer.identity == orphan.identity) == planned_before
    assert staging_name(newer) != staging_name(orphan)
    folders = {delta_files.folder(one.identity, one.receipt) for one in (newer, orphan)}
    assert len(folders) == 2


def test_what_was_loaded_since_is_loaded_again_from_the_restored_heads(ledger, dump):
    stream, restore = dump
    published(ledger, {stream: (10, 20)}, run=LATER)
    flow.advance(ledger, PIPELINE, LATER)
    restore()
    assert query(ledger, "SELECT next_offset FROM tideline.stream") == [(10,)]
    again = published(ledger, {stream: (10, 20)}, run=OTHER)
    assert flow.advance(ledger, PIPELINE, OTHER) == [again]
    assert query(ledger, "SELECT next_offset FROM tideline.stream") == [(20,)]
