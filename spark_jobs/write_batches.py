"""The Spark job: write the batches it is given, one after the other. It never chooses offsets; a batch that is published is passed over.

spark-submit write_batches.py --pipeline NAME --batches 7,8 --dag-id ID --run-id ID --task-id write --try-number 1
"""

import argparse
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from psycopg2.sql import SQL
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from spark_jobs import reading, stored, transforms
from spark_jobs.failures import explained
from spark_jobs.heartbeat import Heartbeat
from spark_jobs.sinks import postgres, postgres_output
from spark_jobs.staging import WINNER, Decoding, OnePass, Place, Staging, decoded_schema
from spark_jobs.transforms import Transform
from tideline import flow, settings
from tideline.domain.columns import parse_type
from tideline.domain.states import BatchKind
from tideline.errors import NeedsOperatorError, RetryableError, SupersededError, TidelineError
from tideline.kafka import Broker
from tideline.kafka_settings import spark_settings
from tideline.ledger import attempts
from tideline.ledger.attempts import Attempt, Writer
from tideline.ledger.connection import Ledger, statement
from tideline.ledger.publishing import Counts
from tideline.pipelines import Pipeline, load_named


def main(argv: Sequence[str]) -> int:
    """Write the batches of the command line; the exit code says what kind of error it was."""
    arguments = _arguments(argv)
    writer = Writer(
        dag_id=arguments.dag_id,
        run_id=arguments.run_id,
        task_id=arguments.task_id,
        try_number=arguments.try_number,
    )
    actor = f"{writer.dag_id} {writer.run_id} {writer.task_id} try {writer.try_number}"
    try:
        with Ledger(settings.ledger_url(), actor=actor) as ledger:
            pipeline = load_named(arguments.pipeline)
            write_all(ledger, pipeline, arguments.batches, writer)
    except TidelineError as error:
        print(f"tideline: {type(error).__name__}: {error}", flush=True)
        return error.exit_code
    return 0


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batches", required=True, type=lambda text: [int(word) for word in text.split(",")])
    for name in ("--pipeline", "--dag-id", "--run-id", "--task-id"):
        parser.add_argument(name, required=True)
    parser.add_argument("--try-number", required=True, type=int)
    return parser.parse_args(argv)


def write_all(ledger: Ledger, pipeline: Pipeline, batch_ids: Sequence[int], writer: Writer) -> None:
    """Write batches, one after the other. One that needs a person does not keep the others from being written.

    Raises:
        NeedsOperatorError: Batches need a person; the others are written.
        TidelineError: Something that each of the others would meet as well; they are left as they are.
    """
    waiting: list[NeedsOperatorError] = []
    for batch_id in batch_ids:
        try:
            write(ledger, pipeline, batch_id, writer)
        except NeedsOperatorError as error:
            print(f"{pipeline.name} batch {batch_id} needs a person: {error.problem}", flush=True)
            waiting.append(error)
    if len(waiting) == 1:
        raise waiting[0]
    if waiting:
        raise NeedsOperatorError(
            f"{pipeline.name}: {len(waiting)} of {len(batch_ids)} batches need a person, the others are written:\n    "
            + "\n    ".join(error.problem for error in waiting),
            next_step="\n    ".join(dict.fromkeys(error.next_step for error in waiting)),
            entry="batches-need-a-person",
        )


def write(ledger: Ledger, pipeline: Pipeline, batch_id: int, writer: Writer) -> None:
    """Claim, stage and publish one batch, or pass it over when there is nothing left to write.

    Raises:
        TidelineError: The batch is not published by this attempt, and the ledger says why.
    """
    attempt = flow.claim(ledger, batch_id, writer)
    if not isinstance(attempt, Attempt):
        print(f"{pipeline.name} batch {batch_id} is {attempt}: passed over", flush=True)
        return
    print(f"{attempt}: {', '.join(map(str, attempt.ranges))}", flush=True)
    with attempts.failing(ledger, attempt):
        broker = Broker(pipeline.source)
        flow.check_source(ledger, broker, attempt)
        with explained(attempt, lambda: flow.check_source(ledger, broker, attempt)):
            _write(ledger, broker, pipeline, attempt)


def _write(ledger: Ledger, broker: Broker, pipeline: Pipeline, attempt: Attempt) -> None:
    transform = transforms.load(pipeline)
    value = pipeline.source.value
    columns = {name: parse_type(text) for name, text in value.columns.items()}
    rows = transforms.records_schema(transform, decoded_schema(value.format, columns))
    place = Place(
        ledger_url=settings.ledger_url(),
        attempt_id=attempt.attempt_id,
        streams={(piece.topic, piece.partition): piece.stream_id for piece in attempt.ranges},
    )
    decoding = Decoding(place=place, value_format=value.format, columns=columns, records=transform.records, rows=rows)
    spark = session(pipeline.name)
    raw = _raw(spark, ledger, pipeline, attempt)
    decoded, frame = _frame(raw, decoding, transform)
    target = postgres.prepare(ledger, pipeline, rows if frame is None else transforms.frame_schema(frame))
    staging = Staging(place=place, target=target, table=postgres.create_staging(ledger, target, attempt))

    def publish() -> Sequence[Counts]:
        tasks = _run(raw, OnePass(decoding=decoding, staging=staging)) if frame is None else _run(frame, staging)
        if decoded is not None:
            _finish_reading(ledger, pipeline, attempt, decoded)
        return flow.publish(
            ledger,
            broker,
            pipeline,
            attempt,
            lambda session: postgres_output.insert_output(session, target, attempt, staging.table, tasks),
            filtered_by_difference=frame is not None,
        )

    with _superseded_ends(spark, ledger, attempt):
        try:
            counts = publish()
        except postgres_output.TooLongError as error:
            print(f"{error.problem}; staging once more, to find out which", flush=True)
            postgres.index_staging(ledger, target, staging.table)
            counts = publish()
    _report(attempt, counts)
    _clear(ledger, attempt)


def _raw(spark: SparkSession, ledger: Ledger, pipeline: Pipeline, attempt: Attempt) -> DataFrame:
    """The records of the batch: out of Kafka or, where they were rejected before, out of the ledger."""
    if attempt.kind is BatchKind.REDRIVE:
        return stored.read(spark, ledger, settings.ledger_url(), attempt)
    split_records = pipeline.limits.split_records
    return reading.read(
        spark, reading.reader_options(spark_settings(pipeline.source), attempt.ranges, split_records=split_records)
    )


def _clear(ledger: Ledger, attempt: Attempt) -> None:
    """Drop what was staged. The batch is published: tables that an orphaned attempt still writes to must not fail it."""
    try:
        postgres.drop_staging(ledger, attempt.batch_id, range(1, attempt.fence + 1))
    except RetryableError as error:
        print(f"{attempt}: staging tables stay behind: {error.problem}", flush=True)


def session(name: str) -> SparkSession:
    """The Spark session of this job: one serves all batches."""
    spark = (
        SparkSession.builder.appName(f"tideline {name}")
        # Naive timestamps would take the zone of the machine.
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.execution.arrow.maxRecordsPerBatch", "20000")
        # Spark's newer way into Kafka, off by default: an eighth faster, since records do not pass through Row objects.
        .config("spark.sql.sources.useV1SourceList", "avro,csv,json,orc,parquet,text")
        # Each partition is read once, by one task: a consumer that is kept for five minutes keeps its fetched records for nothing, and some
        # twenty of them fill a small driver's memory.
        .config("spark.kafka.consumer.cache.timeout", "1s")
        .config("spark.kafka.consumer.cache.evictorThreadRunInterval", "1s")
        .config("spark.kafka.consumer.fetchedData.cache.timeout", "1s")
        .config("spark.kafka.consumer.fetchedData.cache.evictorThreadRunInterval", "1s")
        # A second copy of a slow task stages its rows twice for nothing: only one of the two can win.
        .config("spark.speculation", "false")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("WARN")
    return spark


def _frame(raw: DataFrame, decoding: Decoding, transform: Transform) -> tuple[DataFrame, DataFrame] | tuple[None, None]:
    """What goes into the frame transform and what comes out of it; nothing where there is none."""
    if transform.frame is None:
        return None, None
    decoded = raw.mapInArrow(decoding, from_arrow_schema(decoding.rows))
    return decoded, transforms.framed(transform.frame, decoded)


def _finish_reading(ledger: Ledger, pipeline: Pipeline, attempt: Attempt, decoded: DataFrame) -> None:
    """Read once more what a frame did not read to its end, for the counts: a limit or a join with nothing stops early, and that is a filter.

    Without this the records that it left would look as if they were missing in the topic.
    """
    query = SQL(statement("spark_jobs", "list_unread.sql"))
    bound = {
        "batch_id": attempt.batch_id,
        "attempt_id": attempt.attempt_id,
        "split_records": pipeline.limits.split_records,
    }
    with ledger.transaction():
        unread = ledger.rows_of(query, bound)
    if unread:
        decoded.write.format("noop").mode("overwrite").save()


def _run(frame: DataFrame, tasks: Staging | OnePass) -> dict[int, int]:
    """Stage everything, and return what each winning task staged: rows by task attempt id."""
    return {row["task"]: row["n_rows"] for row in frame.mapInArrow(tasks, from_arrow_schema(WINNER)).collect()}


@contextmanager
def _superseded_ends(spark: SparkSession, ledger: Ledger, attempt: Attempt) -> Iterator[None]:
    """Keep the attempt's heart beating, and turn what fails after a newer attempt took over into one clear refusal."""
    taken_over = threading.Event()

    def stop() -> None:
        taken_over.set()
        spark.sparkContext.cancelAllJobs()

    try:
        with Heartbeat(settings.ledger_url(), attempt.attempt, stop):
            yield
    except Exception as error:
        if taken_over.is_set() and not isinstance(error, SupersededError):
            raise attempts.refuse(ledger, attempt, "a newer attempt, while staging") from error
        raise


def _report(attempt: Attempt, counts: Sequence[Counts]) -> None:
    for count in counts:
        # Between the rejects of a re-drive lies everything else.
        gap = "" if attempt.kind is BatchKind.REDRIVE else f", gap {count.n_gap}"
        print(
            f"  {count.label}: read {count.n_read}, written {count.n_written}, rejected {count.n_rejected}, "
            f"filtered {count.n_filtered}{gap}"
        )
    total = [sum(values) for values in zip(*((c.n_read, c.n_written, c.n_rejected) for c in counts), strict=True)]
    print(f"{attempt}: published; read {total[0]}, written {total[1]}, rejected {total[2]}", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
