"""Prepare a claimed batch before anything is read: load its transform, find the output columns, and check that they fit the output."""

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from tideline import flow, settings
from tideline.declaration.pipelines import Pipeline
from tideline.kafka.broker import Broker
from tideline.ledger.attempts import Attempt
from tideline.ledger.connection import Ledger
from tideline.records import transforms
from tideline.records.kafka_metadata import coordinates_only
from tideline.records.record_steps import record_steps
from tideline.records.transforms import Transform
from tideline.registry import kept_schemas
from tideline.sinks import kinds
from tideline.sinks.sink import Output, StagingPlace
from tideline.spark_jobs import shipped_code, stateful
from tideline.spark_jobs.readers.task_limits import TaskLimits, task_limits
from tideline.spark_jobs.stateful import StatefulBatch
from tideline.spark_jobs.tasks import Decoding
from tideline.spark_jobs.tombstone_counts import TwoReads

Read = Callable[[Attempt, TaskLimits], DataFrame]
"""Returns the records of an attempt's ranges, or of parts of them, for tasks with these limits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loading:
    """A claimed batch, with everything that is needed to load it."""

    broker: Broker
    pipeline: Pipeline
    attempt: Attempt
    raw: DataFrame
    read: Read
    limits: TaskLimits
    decoding: Decoding
    decoded: DataFrame | None
    """The input of the `frame` transform. None if the pipeline has none."""
    frame: DataFrame | None
    """What is staged in a second pass: the output of the `frame` transform, or the records of a stateful pipeline, in order."""
    stateful: StatefulBatch | None
    """How the records are folded. None if the pipeline is not stateful."""
    output: Output


def prepared(
    ledger: Ledger,
    broker: Broker,
    pipeline: Pipeline,
    attempt: Attempt,
    *,
    spark: SparkSession,
    read: Read,
) -> Loading:
    """Check that the columns of the transform fit the output, and create the output if it does not exist.

    Args:
        ledger: The ledger.
        broker: The broker of the source.
        pipeline: The pipeline.
        attempt: The claim of the batch.
        spark: The session.
        read: Reads the records.

    Raises:
        RetryableError: The ledger's server has no connections for tasks.
        FatalError: The declaration, the transform or the output is wrong, or another pipeline has the output.
        NeedsOperatorError: The batch was planned with a state, and the pipeline has none now, or the other way round.
    """
    # The plan has claimed them already. Since then the declaration may name others, which another pipeline may have.
    flow.claim_outputs(ledger, pipeline, flow.outputs(pipeline, broker))
    transform = transforms.load(pipeline)
    # Before the read: what is defined in Python keeps the paths of this moment.
    shipped_code.ship(spark.sparkContext)
    limits = task_limits(spark, ledger, pipeline, attempt)
    raw = read(attempt, limits)
    decoding = _decoding(pipeline, attempt, transform, spark)
    decoded, frame = _frame(raw, decoding, transform, limits)
    folded = stateful.prepared(
        ledger, pipeline, attempt, transform=transform, decoding=decoding, raw=raw, limits=limits
    )
    produced = decoding.steps.rows if frame is None else transforms.frame_schema(frame)
    sink = kinds.of(pipeline).sink(pipeline)
    output = sink.prepare(ledger, pipeline, attempt, folded.rules.schema if folded else produced)
    return Loading(
        broker=broker,
        pipeline=pipeline,
        attempt=attempt,
        raw=raw,
        read=read,
        limits=limits,
        decoding=decoding,
        decoded=decoded,
        frame=folded.keyed() if folded else frame,
        stateful=folded,
        output=folded.output(output) if folded else output,
    )


def _decoding(pipeline: Pipeline, attempt: Attempt, transform: Transform, spark: SparkSession) -> Decoding:
    steps = record_steps(pipeline, transform)
    place = StagingPlace(
        ledger_url=settings.stager_url(),
        attempt=attempt.attempt,
        streams={(piece.topic, piece.partition): piece.stream_id for piece in attempt.ranges},
    )
    twice = transform.frame is not None and steps.formats.tombstones == "delete"
    tombstones = TwoReads.of(spark.sparkContext, place.streams) if twice else None
    schemas = kept_schemas.of_attempt(pipeline, place.ledger_url, attempt.attempt)
    return Decoding(place=place, steps=steps, schemas=schemas, tombstones=tombstones)


def _frame(
    raw: DataFrame, decoding: Decoding, transform: Transform, limits: TaskLimits
) -> tuple[DataFrame, DataFrame] | tuple[None, None]:
    """Return the input and the output of the `frame` transform; two times None if the pipeline has none."""
    if transform.frame is None:
        return None, None
    decoded = raw.mapInArrow(decoding, from_arrow_schema(coordinates_only(decoding.steps.rows)))
    return decoded, transforms.framed(transform.frame, decoded).coalesce(limits.most)
