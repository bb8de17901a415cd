"""Read the staged rows of an attempt in order, as messages for the topic. Memory stays bounded: the server streams them."""

from collections.abc import Iterator, Sequence

import adbc_driver_postgresql.dbapi as adbc
import pyarrow as pa
from psycopg2.sql import SQL, Literal

from tideline import settings
from tideline.errors import RetryableError
from tideline.ledger.attempts import Attempt
from tideline.ledger.connection import Ledger
from tideline.records.task_sessions import opened
from tideline.sinks.kafka.encoding import Records
from tideline.sinks.kafka.kafka_topic import ATTEMPT, ORIGIN, Message
from tideline.sinks.kafka.staging import headers, names, topic_query


def messages(ledger: Ledger, attempt: Attempt, records: Records, tasks: Sequence[int]) -> Iterator[Message]:
    """Yield the staged rows of the winning tasks: as they were read, and the rows of one record by their item.

    Raises:
        RetryableError: The ledger's database did not answer.
    """
    query = topic_query("send_staged").format(
        **names(attempt),
        headers=headers(records, ", {}"),
        tasks=SQL("ARRAY[{}]::bigint[]").format(SQL(", ").join(map(Literal, tasks))),
    )
    text = query.as_string(ledger.connection)
    sender = (ATTEMPT, str(attempt.attempt).encode())
    origins = {piece.stream_id: f"{piece.topic_id}/{piece.partition}/" for piece in attempt.ranges}
    try:
        with opened(settings.ledger_url()) as connection, connection.cursor() as cursor:
            cursor.execute(text)  # runs as a COPY: a batch is fetched when it is needed
            for batch in cursor.fetch_record_batch():
                yield from _of(batch, origins, sender, records.headers)
    except adbc.Error as error:
        raise RetryableError(
            f"{attempt}: the staged rows could not be read: {str(error).splitlines()[0]}",
            next_step="check that the ledger's database runs and can be reached from here; the task tries again by itself",
            entry="ledger-does-not-answer",
        ) from error


def _of(
    batch: pa.RecordBatch, origins: dict[int, str], sender: tuple[str, bytes], names: Sequence[str]
) -> Iterator[Message]:
    streams, offsets, items, keys, values, *found = (column.to_pylist() for column in batch.columns)
    own = list(zip(*found, strict=True)) if found else [()] * batch.num_rows
    for stream, offset, item, key, value, contents in zip(streams, offsets, items, keys, values, own, strict=True):
        origin = f"{origins[stream]}{offset}" if item is None else f"{origins[stream]}{offset}/{item}"
        yield Message(key, value, [(ORIGIN, origin.encode()), sender, *zip(names, contents, strict=True)])
