"""Read an output back as its users do, and copy it into a table, which the checker compares with Kafka.

Readers of a topic are ordinary consumers of committed records, and those of a Delta table use delta-rs.
"""

import csv
import io
import json
from collections.abc import Iterable, Iterator
from contextlib import closing
from decimal import Decimal
from itertools import islice
from typing import Any
from uuid import UUID

import psycopg2
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient
from deltalake import DeltaTable

from faults.checker.facts import Commit
from faults.jobs.order_outputs import Output, Sink
from given_topics import topics
from given_topics.output_topics import committed

PARTITIONS = 3
"""Partitions of an output topic."""
_AT_ONCE = 10_000
_ANSWER_S = 60
_COLUMNS = "id, name, price, item, note, kafka_topic_id, kafka_partition, kafka_offset, tideline_batch"
# No key and no types that round: the copy holds whatever the readers have seen, also twice.
_COPY = """
CREATE SCHEMA IF NOT EXISTS orders;
CREATE TABLE {table} (id bigint, name text, price numeric, item integer, note text,
    kafka_topic_id uuid, kafka_partition integer, kafka_offset bigint, tideline_batch bigint);
"""
# A record of a topic does not name its batch. It is that of the owner of the offset; 0, which no batch has, if nothing owns it.
_OWNED = """
UPDATE {table} t SET tideline_batch = coalesce((
    SELECT batch_id FROM tideline.stream s JOIN tideline.coverage c USING (stream_id)
    WHERE s.pipeline = %s AND s.topic_id = t.kafka_topic_id AND s.partition = t.kafka_partition AND c.offsets @> t.kafka_offset), 0)
WHERE tideline_batch IS NULL"""
_INDEXED = "CREATE INDEX ON {table} (kafka_topic_id, kafka_partition, kafka_offset); ANALYZE {table}"

Row = tuple[Any, ...]


def create_topics(output: Output, bootstrap: str) -> None:
    """Create the topics of an output and of its rejects: Tideline creates none."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    if output.sink is Sink.TOPIC:
        topics.created(admin, output.topic, partitions=PARTITIONS)
    if output.has_letters:
        topics.created(admin, output.letters, partitions=PARTITIONS)


def copy(output: Output, url: str, bootstrap: str) -> None:
    """Copy what readers of an outside sink see into the table that `output.table` names."""
    rows = _of_topic(bootstrap, output.topic) if output.sink is Sink.TOPIC else _of_lake(output.lake)
    with closing(psycopg2.connect(url)) as connection, connection, connection.cursor() as cursor:
        cursor.execute(_COPY.format(table=output.table))
        while part := list(islice(rows, _AT_ONCE)):
            cursor.copy_expert(
                f"COPY {output.table} ({_COLUMNS}) FROM STDIN WITH (FORMAT csv, FORCE_NOT_NULL (name, note))",
                _csv(part),
            )
        cursor.execute(_OWNED.format(table=output.table), (output.pipeline,))
        cursor.execute(_INDEXED.format(table=output.table))


def _csv(rows: Iterable[Row]) -> io.StringIO:
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    text.seek(0)
    return text


def _of_topic(bootstrap: str, topic: str) -> Iterator[Row]:
    for message in committed(bootstrap, topic):
        headers = dict(message.headers())
        topic_id, partition, offset, item = headers["tideline-origin"].decode().split("/")
        value = json.loads(message.value(), parse_float=Decimal)
        assert int(item) == value["item"], (headers, value)
        name = headers["name"].decode()
        yield int(message.key()), name, value["price"], item, value["note"], topic_id, partition, offset, None


def _of_lake(path: str) -> Iterator[Row]:
    columns = _COLUMNS.split(", ")
    for batch in DeltaTable(path).to_pyarrow_dataset().to_batches(columns=columns):
        yield from zip(*(batch.column(name).to_pylist() for name in columns), strict=True)


def commits(output: Output, url: str, bootstrap: str) -> list[Commit]:
    """Return the receipt of each batch that has one, with the number of rows that readers see. Call `copy` before."""
    with closing(psycopg2.connect(url)) as connection, connection.cursor() as cursor:
        cursor.execute(f"SELECT tideline_batch, count(*) FROM {output.table} GROUP BY tideline_batch")
        counts = dict(cursor.fetchall())
        cursor.execute("SELECT batch_id, identity FROM tideline.batch WHERE pipeline = %s", (output.pipeline,))
        batches = cursor.fetchall()
    found = _by_group(output, bootstrap, batches) if output.sink is Sink.TOPIC else _by_application(output)
    return [Commit(batch_id, attempt, counts.get(batch_id, 0)) for batch_id, attempt in found]


def _by_group(output: Output, bootstrap: str, batches: Iterable[tuple[int, str]]) -> Iterator[tuple[int, UUID]]:
    """Yield the batches whose group has committed an odd offset, with the attempt in its metadata."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for batch_id, identity in batches:
        group = f"tideline.{output.pipeline}.{identity}"
        asked = [ConsumerGroupTopicPartitions(group, [TopicPartition(output.topic, 0)])]
        answer = admin.list_consumer_group_offsets(asked, require_stable=True, request_timeout=_ANSWER_S)
        [place] = answer[group].result(_ANSWER_S).topic_partitions
        assert place.error is None, place
        if place.offset > 0 and place.offset % 2:
            yield batch_id, UUID(place.metadata)


def _by_application(output: Output) -> Iterator[tuple[int, UUID]]:
    """Yield the batches that the history of the table names, with their attempts."""
    for made in DeltaTable(output.lake).history():
        if "tideline_attempt" in made:
            yield int(made["tideline_batch"]), UUID(made["tideline_attempt"])
