"""Limit how many tasks run at once, and how much each of them reads, by the cores of Spark and by the connections that the ledger's server has left.

Law: the tasks of a batch never need more connections than the server has, however many cores there are. Each holds one or more while it runs.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil

from psycopg2.extensions import parse_dsn
from psycopg2.sql import SQL
from pyspark import SparkConf
from pyspark.sql import SparkSession

from tideline import settings
from tideline.declaration.pipelines import Pipeline
from tideline.domain.states import BatchKind
from tideline.errors import RetryableError
from tideline.ledger.attempts import Attempt
from tideline.ledger.connection import Ledger
from tideline.ledger.database_errors import FREE_SOME
from tideline.statements import statement

WORTH_A_TASK = 5_000
"""The records of a worthwhile task. A task costs a Python worker and two connections, as much as reading some thousand records."""
_MOST_RECORDS = 250_000
"""Records of a task from which on another task is worth its cost: it takes as much CPU as some 15,000 JSON records, 6 % of these."""
_USED = 0.75
"""The part of the free connections that a batch takes. The rest is for other batches and other programs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskLimits:
    """What the tasks of a batch may use."""

    cores: int
    """The number of tasks that can run at once: the cores that Spark has, or fewer if there are not connections for all of them."""
    most: int
    """The most tasks of a Spark stage, since Spark may get more cores at any time."""
    split_records: int
    """The most offsets of one partition that one task reads, except where that would be more than `most` tasks."""


def task_limits(spark: SparkSession, ledger: Ledger, pipeline: Pipeline, attempt: Attempt) -> TaskLimits:
    """Return the limits of the tasks of a batch.

    Raises:
        RetryableError: The server has not enough free connections for one task.
    """
    n_each = connections_of_a_task(pipeline, attempt)
    free = _n_free(ledger)
    declared = pipeline.limits.max_connections
    most = int(free * _USED if declared is None else min(declared, free)) // n_each
    if most < 1:
        raise RetryableError(
            f"{attempt}: each task needs {n_each} connections with the ledger, and its server has {free} left",
            next_step=FREE_SOME,
            entry="no-free-connections",
        )
    lengths = [len(piece.offsets) for piece in attempt.ranges]
    context = spark.sparkContext
    cores = most_cores(context.getConf(), context.defaultParallelism)
    return fitting(lengths, cores=cores, most=most, split=pipeline.limits.split_records)


def most_cores(conf: SparkConf, found: int) -> int:
    """Return how many cores Spark has, or will have for a batch that has enough tasks.

    With dynamic allocation there may be no executor yet when a batch begins, and parts for the cores of that moment would keep the others idle.

    Args:
        conf: The configuration of Spark.
        found: The cores that it has now.
    """
    if conf.get("spark.dynamicAllocation.enabled", "false") != "true":
        return found
    n_executors = int(conf.get("spark.dynamicAllocation.maxExecutors", "0"))
    return max(found, n_executors * int(conf.get("spark.executor.cores", "1")))


def fitting(lengths: Iterable[int], *, cores: int, most: int, split: int | None) -> TaskLimits:
    """Return the limits for ranges of these lengths.

    Args:
        lengths: The offsets in each range.
        cores: Those that Spark has.
        most: The tasks for which there are connections.
        split: The most offsets of one partition that one task reads; None to follow the cores.
    """
    found = list(lengths)
    usable = min(cores, most)
    if split is None:
        split = min(_MOST_RECORDS, max(WORTH_A_TASK, ceil(sum(found) / (2 * usable))))
    while n_parts(found, split) + any(length <= split for length in found) > most:
        split *= 2
    return TaskLimits(cores=usable, most=most, split_records=split)


def n_parts(lengths: Iterable[int], split: int) -> int:
    """Return how many tasks read the ranges that are longer than `split`. Shorter ones share tasks, or one task."""
    return sum(ceil(length / split) for length in lengths if length > split)


def connections_of_a_task(pipeline: Pipeline, attempt: Attempt) -> int:
    """Return the most connections that a task holds at once.

    They are one for rows; one for counts and rejects; one for states, or for rejects that are decoded again; and one while the
    schemas of a registry are looked up and kept.
    """
    third = pipeline.state is not None or attempt.kind is BatchKind.REDRIVE
    return 2 + third + (pipeline.source.registry is not None)


def _n_free(ledger: Ledger) -> int:
    role = parse_dsn(settings.stager_url()).get("user")
    with ledger.transaction():
        query = SQL(statement("tideline.spark_jobs.readers", "count_free_connections"))
        [row] = ledger.rows_of(query, {"role": role})
    return int(row["n_free"])
