"""Requests for ranges, and what was planned for them."""

from confluent_kafka import TopicPartition

from asking import query
from planners import ranges_of
from tideline.domain.offsets import OffsetRange
from tideline.domain.requests import NamedRange, Ranges


def piece(pipeline, start, end, partition=0):
    return NamedRange(pipeline.source.topics[0], partition, OffsetRange(start, end))


def these(pipeline, *bounds, replace=False):
    return Ranges(ranges=tuple(piece(pipeline, *bound) for bound in bounds), replace=replace)


def kinds(ledger, batch_ids):
    """Return (kind, ranges) of each batch."""
    found = [query(ledger, "SELECT kind::text FROM tideline.batch WHERE batch_id = %s", n)[0][0] for n in batch_ids]
    return [(kind, ranges_of(ledger, n)) for kind, n in zip(found, batch_ids, strict=True)]


def delete_before(admin, topic, offset):
    admin.delete_records([TopicPartition(topic, 0, offset)])[TopicPartition(topic, 0)].result()
