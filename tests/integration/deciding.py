"""Helpers to abandon batches and to skip offsets, and to read the history of that."""

from asking import query
from planners import decide, declared
from tideline import flow
from tideline.declaration.pipelines import Pipeline
from tideline.domain.offsets import OffsetRange
from tideline.domain.requests import NamedRange
from tideline.ledger.connection import Ledger
from topics import produce

WHY = "not needed any more"


def filled(broker, topic) -> Pipeline:
    """Declare a pipeline over ten records in partition 0 and four in partition 1; a batch has at most seven."""
    produce(broker, topic, 10)
    produce(broker, topic, 4, partition=1)
    return declared(broker.bootstrap, topic, batch_records=7)


def piece(pipeline, start, end, partition=0):
    return NamedRange(pipeline.source.topics[0], partition, OffsetRange(start, end))


def skip(url, pipeline, start, end, *, partition=0, reason=WHY):
    return decide(url, pipeline, flow.skip, piece(pipeline, start, end, partition), reason=reason)


def abandon(url, batch_id, *, reason=WHY):
    with Ledger(url, actor="ada") as ledger:
        flow.abandon(ledger, batch_id, reason=reason)


def story(ledger, since=0):
    """Return (actor, action, reason) of people's acts, in order."""
    return query(
        ledger,
        "SELECT actor, action, detail ->> 'reason' FROM tideline.event WHERE event_id > %s AND actor = 'ada'"
        " AND action <> 'move head' ORDER BY event_id",
        since,
    )


def everything(ledger):
    """Return the content of all tables of the ledger, except times."""
    names = [row[0] for row in query(ledger, "SELECT tablename::text FROM pg_tables WHERE schemaname = 'tideline'")]
    return {name: sorted(map(str, query(ledger, f"SELECT t.* FROM tideline.{name} t"))) for name in names}


def fall_silent(ledger):
    query(ledger, "UPDATE tideline.attempt SET heartbeat_at = now() - interval '1 hour'")
