"""Lists offsets of partitions: log start, last stable offset, high watermark, and the offset at a time. Reads no records."""

from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from datetime import datetime
from typing import Any

from confluent_kafka import IsolationLevel, TopicPartition
from confluent_kafka.admin import OffsetSpec

from tideline.domain.facts import FoundOffset, PartitionFacts, Place
from tideline.domain.timestamps import milliseconds
from tideline.kafka.connection import TIMEOUT_S, Connection


def bounds(connection: Connection, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, PartitionFacts]:
    """Return where each partition begins and ends, without topics that have been deleted since."""
    asked = list(partitions)
    # Starts first: then no end is below its start, also when retention deletes records in between.
    starts = connection.existing(_listing(connection, dict.fromkeys(asked, OffsetSpec.earliest())))
    # Before the ends: a high watermark that is asked for later is ahead of them by what arrived in between, without an open transaction.
    latest = dict.fromkeys(asked, OffsetSpec.latest())
    marks = connection.existing(_listing(connection, latest, committed=False))
    ends = connection.existing(_listing(connection, latest))
    return {
        p: PartitionFacts(
            partition=p.partition,
            log_start=starts[p].offset,
            end=ends[p].offset,
            n_unstable=max(0, marks[p].offset - ends[p].offset),
            leader_epoch=ends[p].leader_epoch,
        )
        for p in starts.keys() & marks.keys() & ends.keys()
    }


def at(connection: Connection, times: Mapping[Place, datetime], *, committed: bool) -> dict[Place, FoundOffset]:
    """Return, by topic and partition, the first offset with a timestamp of its time or later, or the end of what may be read."""
    asked = {TopicPartition(*place): when for place, when in times.items()}
    # The end comes first: a later end could lie behind a matching record that arrived after the search.
    latest = dict.fromkeys(asked, OffsetSpec.latest())
    ends = connection.results(_listing(connection, latest, committed=committed))
    stamps = {place: OffsetSpec.for_timestamp(milliseconds(when)) for place, when in asked.items()}
    found = connection.results(_listing(connection, stamps, committed=committed))
    return {
        (p.topic, p.partition): FoundOffset(offset=found[p].offset, timestamp=found[p].timestamp)
        if 0 <= found[p].offset < end.offset
        else FoundOffset(offset=end.offset)
        for p, end in ends.items()
    }


def _listing(
    connection: Connection, specs: Mapping[TopicPartition, OffsetSpec], *, committed: bool = True
) -> dict[TopicPartition, Future[Any]]:
    futures: dict[TopicPartition, Future[Any]] = connection.admin.list_offsets(
        dict(specs),
        isolation_level=IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED,
        request_timeout=TIMEOUT_S,
    )
    return futures
