"""The Spark job: write the given batches, one after the other. It never chooses offsets. A batch that is already published is skipped.

spark-submit write_batches.py --pipeline NAME --batches 7,8 --dag-id ID --run-id ID --task-id write --try-number 1
"""

import tideline.spark_jobs.unpacked_pyspark  # noqa: F401 - before PySpark is imported

# isort: split

import argparse
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from typing import NamedTuple

from psycopg2.sql import SQL
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema

from tideline import flow, job_log, settings
from tideline.declaration.pipelines import Pipeline, load_named
from tideline.domain.states import BatchKind
from tideline.errors import RetryableError, TidelineError
from tideline.kafka.broker import Broker
from tideline.ledger import attempts
from tideline.ledger.attempts import SHOWN_RANGES, Attempt, Writer
from tideline.ledger.connection import Ledger
from tideline.ledger.publishing import Counts
from tideline.ledger.reservations import Run
from tideline.ledger.versions import require_current
from tideline.sinks.sink import WINNER, Output, Publication, Stage, Winner
from tideline.spark_jobs import publishing, refused_records
from tideline.spark_jobs.batch_loop import each_by_itself
from tideline.spark_jobs.folding_tasks import Expiring
from tideline.spark_jobs.preparation import Loading, prepared
from tideline.spark_jobs.readers import raw_records
from tideline.spark_jobs.refused_records import Refusing
from tideline.spark_jobs.session import session
from tideline.spark_jobs.spark_errors import MisdatedRecordError, explained
from tideline.spark_jobs.supervision import supervised
from tideline.spark_jobs.tasks import AfterFrame, Deletions, Folding, OnePass
from tideline.statements import statement


def main(argv: Sequence[str]) -> int:
    """Write the batches that the command line names. Return the exit code, which depends on the kind of error."""
    args = _arguments(argv)
    writer = Writer(dag_id=args.dag_id, run_id=args.run_id, task_id=args.task_id, try_number=args.try_number)
    actor = f"{writer.dag_id} {writer.run_id} {writer.task_id} try {writer.try_number}"
    try:
        job_log.begin(args.pipeline)
        with Ledger(settings.ledger_url(), actor=actor) as ledger:
            require_current(ledger)
            pipeline = load_named(args.pipeline)
            flow.check_given(ledger, pipeline.name, Run(dag_id=writer.dag_id, run_id=writer.run_id), args.batches)
            write_all(ledger, pipeline, args.batches, writer)
    except TidelineError as error:
        job_log.say_error(error)
        return error.exit_code
    return 0


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batches", required=True, type=lambda text: [int(word) for word in text.split(",")])
    for name in ("--pipeline", "--dag-id", "--run-id", "--task-id"):
        parser.add_argument(name, required=True)
    parser.add_argument("--try-number", required=True, type=int)
    return parser.parse_args(argv)


class Begun(NamedTuple):
    """A batch that is claimed and checked, with the heartbeat and the deadline of its attempt, which run until the batch is loaded."""

    loading: Loading
    alive: ExitStack


def write_all(ledger: Ledger, pipeline: Pipeline, batch_ids: Sequence[int], writer: Writer) -> None:
    """Write batches, one after the other. An error that concerns only one batch does not keep the others from being written, unless they need it.

    Raises:
        TidelineError: Batches have failed, and the others are written. Or the error would affect all batches (the
            ledger or the broker is unavailable, the declaration is wrong, a newer try has taken over); then the
            remaining batches are not touched.
    """
    try:
        each_by_itself(
            pipeline.name,
            batch_ids,
            begin=lambda batch_id: begin(ledger, pipeline, batch_id, writer),
            load=lambda begun: load(ledger, begun, writer),
            in_order=pipeline.state is not None,
        )
    finally:  # also of the batches that were published before one failed
        job_log.about(pipeline=pipeline.name)
        for line in flow.send_letters(ledger, pipeline):
            job_log.say(line)


def write(ledger: Ledger, pipeline: Pipeline, batch_id: int, writer: Writer) -> None:
    """Claim, stage and publish one batch. Skip it if there is nothing left to write.

    Raises:
        TidelineError: This attempt has not published the batch. The reason is recorded in the ledger.
    """
    if begun := begin(ledger, pipeline, batch_id, writer):
        load(ledger, begun, writer)


def begin(
    ledger: Ledger, pipeline: Pipeline, batch_id: int, writer: Writer, *, by_python: bool = False
) -> Begun | None:
    """Claim a batch, and check everything that can be checked before the read. Return None if there is nothing left to write.

    Kafka is read with the Python client if `by_python`, where Spark's reader has refused a record.
    What an earlier attempt has committed to an outside sink is published before the source is checked: Kafka may have lost the offsets since.

    Raises:
        NeedsOperatorError: The batch cannot be read as it was planned, or the ledger does not know the attempt whose commit an outside sink has.
        TidelineError: An error that would affect every other batch as well.
    """
    job_log.about(pipeline=pipeline.name, batch=batch_id)
    attempt = flow.claim(ledger, batch_id, writer, pipeline=pipeline.name)
    if not isinstance(attempt, Attempt):
        job_log.say(f"{pipeline.name} batch {batch_id} is {attempt}: skipped")
        return None
    job_log.about(pipeline=pipeline.name, batch=batch_id, attempt=attempt.fence)
    job_log.say(f"{attempt}: {attempt.describe_ranges()}")
    with attempts.failing(ledger, attempt):
        settled = flow.recover(ledger, pipeline, attempt)
        if settled is not None:
            job_log.say(f"{attempt}: an earlier attempt has committed the batch, which is published now")
            _report(attempt, settled)
            return None
        broker = Broker(pipeline.source)
        with explained(attempt, lambda: flow.check_source(ledger, broker, attempt)), ExitStack() as alive:
            # Before the session: a cluster may take longer to start it than an attempt may go without heartbeats.
            work = alive.enter_context(supervised(ledger, pipeline, attempt))
            flow.check_source(ledger, broker, attempt)
            spark = session(pipeline.name)
            work.begin(spark)
            read = partial(raw_records.read, spark, ledger, pipeline, by_python=by_python)
            loading = prepared(ledger, broker, pipeline, attempt, spark=spark, read=read)
            return Begun(loading, alive.pop_all())


def load(ledger: Ledger, begun: Begun, writer: Writer) -> None:
    """Stage and publish a batch. If Spark refuses the timestamp of a record, another attempt reads it with the Python client.

    Another one, since this one has counted what it could read, and the client's tasks divide the ranges in another way.

    Raises:
        TidelineError: This attempt has not published the batch. The reason is recorded in the ledger.
    """
    try:
        _load(ledger, begun)
    except MisdatedRecordError as error:
        job_log.say(f"{error.problem}; it is read with the Python client now, which takes longer", level="warning")
        pipeline, attempt = begun.loading.pipeline, begun.loading.attempt
        if again := begin(ledger, pipeline, attempt.batch_id, writer, by_python=True):
            _load(ledger, again)


def _load(ledger: Ledger, begun: Begun) -> None:
    loading = begun.loading
    attempt = loading.attempt
    with (
        attempts.failing(ledger, attempt),
        explained(attempt, lambda: flow.check_source(ledger, loading.broker, attempt)),
        begun.alive,
    ):
        _write(ledger, loading)


def _write(ledger: Ledger, loading: Loading) -> None:
    stage = loading.output.stage(ledger, loading.decoding.place)
    winners = _staged(ledger, loading, stage)
    counts = publishing.publish(_publication(ledger, loading, winners), loading.output)
    _report(loading.attempt, counts)
    _clear(ledger, loading.attempt, loading.output)


def _staged(ledger: Ledger, loading: Loading, stage: Stage) -> list[Winner]:
    """Run the tasks that read, transform and stage the records."""
    if loading.frame is None:
        winners = _run(loading.raw, OnePass(decoding=loading.decoding, stage=stage))
    elif loading.stateful is not None:
        winners = _run(loading.frame, Folding(place=loading.decoding.place, stage=stage))
        winners += loading.stateful.expired(ledger, stage, winners, _run)
    else:
        winners = _run(loading.frame, AfterFrame(place=loading.decoding.place, stage=stage))
        refused_records.reject_reported(loading, winners, run=_run)
        if reads := loading.decoding.tombstones:
            tombstones = loading.raw.where("value IS NULL")
            winners += _run(tombstones, Deletions(decoding=loading.decoding, stage=stage, seen=reads.second))
    if loading.decoded is not None:
        _finish_reading(ledger, loading, loading.decoded)
    if loading.decoding.tombstones is not None:
        loading.decoding.tombstones.check(loading.attempt)
    return winners


def _publication(ledger: Ledger, loading: Loading, winners: Sequence[Winner]) -> Publication:
    return Publication(
        ledger=ledger,
        broker=loading.broker,
        pipeline=loading.pipeline,
        attempt=loading.attempt,
        winners=winners,
        reject=partial(refused_records.reject, loading, run=_run),
        filtered_by_difference=loading.frame is not None,
    )


def _clear(ledger: Ledger, attempt: Attempt, output: Output) -> None:
    """Remove what was staged for the batch. It is published, so a staging table that an orphan still writes to must not fail it."""
    try:
        output.clear(ledger)
    except RetryableError as error:
        job_log.say(f"{attempt}: what was staged is not removed: {error.problem}", level="warning")


def _finish_reading(ledger: Ledger, loading: Loading, decoded: DataFrame) -> None:
    """Read the batch again if the `frame` transform did not read all ranges to their ends, so that the counts are complete.

    A limit, or a join with an empty table, stops reading early. The records that it leaves out count as filtered.
    Without the second read they would look as if they were missing in the topic.
    """
    query = SQL(statement("tideline.spark_jobs", "list_unread"))
    bound = {
        "batch_id": loading.attempt.batch_id,
        "attempt_id": loading.attempt.attempt_id,
        "split_records": loading.limits.split_records,
    }
    with ledger.transaction():
        unread = ledger.rows_of(query, bound)
    if unread:
        decoded.write.format("noop").mode("overwrite").save()


def _run(frame: DataFrame, tasks: AfterFrame | Deletions | Expiring | Folding | OnePass | Refusing) -> list[Winner]:
    """Run the tasks. Return what the winning ones report."""
    return [Winner(*row) for row in frame.mapInArrow(tasks, from_arrow_schema(WINNER)).collect()]


def _report(attempt: Attempt, counts: Sequence[Counts]) -> None:
    """Print the counts of a published batch: for each of the first streams (at most `SHOWN_RANGES`), and in total."""
    for count in counts[:SHOWN_RANGES]:
        # A re-drive reads only rejects: the offsets between them are other records, not gaps.
        gap = "" if attempt.kind is BatchKind.REDRIVE else f", gap {count.n_gap}"
        job_log.say(
            f"  {count.label}: read {count.n_read}, written {count.n_written}, rejected {count.n_rejected}, "
            f"filtered {count.n_filtered}{gap}"
        )
    if len(counts) > SHOWN_RANGES:
        job_log.say(f"  and {len(counts) - SHOWN_RANGES} more: tideline batch {attempt.batch_id}")
    total = [sum(values) for values in zip(*((c.n_read, c.n_written, c.n_rejected) for c in counts), strict=True)]
    job_log.say(f"{attempt}: published; read {total[0]}, written {total[1]}, rejected {total[2]}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
